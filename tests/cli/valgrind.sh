#!/usr/bin/env bash
# valgrind.sh MMCHAIN: the command under valgrind: no leak, no error, in good runs and in bad ones.
# Exits 77 without valgrind.
set -u
export LC_ALL=C
command -v valgrind >/dev/null || { echo "no valgrind"; exit 77; }
mmchain=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
make_npy=$here/make_npy.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# clean STATUS ARGUMENT...: the exit status is that, and valgrind has nothing to say. What threads
# of the BLAS still hold at the end is theirs. Threads take turns: else the one that reads a meter
# may wait for minutes for the one that multiplies.
clean() {
  local status=$1 got
  shift
  valgrind -q --fair-sched=try --log-file=log --error-exitcode=99 --leak-check=full \
    --suppressions="$here/../valgrind.supp" --errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect \
    "$mmchain" "$@" >out 2>err
  got=$?
  if [ $got = "$status" ] && [ ! -s log ]; then
    echo "ok   $*"
  else
    echo "FAIL $*: exit status $got, expected $status"
    cat err log
    failures=$((failures + 1))
  fi
}

# enter NAME: a new folder, with wisdom of its own.
enter() {
  mkdir "$work/$1" && cd "$work/$1" || exit 1
  export MMCHAIN_WISDOM=$PWD/wisdom.db
}

# These run side by side.
plans() (
  enter plans
  clean 0 plan 30x35x15x5x10x20x25
  clean 0 plan 10x30 30x5:T 5x60 --json
  clean 0 tune --chain 3x4x5 --on ref --budget 1
  clean 0 plan 3x4x5x6 --for time --on ref
  echo 'clrs: 30 35 15 5 10' >set.txt
  clean 2 tune --set set.txt
  clean 0 plan 30x35x15x5x10 --for traffic --fuse joint --on-chip 64
  clean 0 plan 30x35x15x5x10 8x9x9 --for traffic --table --json
  clean 2 plan 10x30 31x5
  clean 2 plan 1000x300x50x1000x100 --memory-limit 1
  if command -v dot >/dev/null; then clean 0 plan 10x30x5 --svg tree.svg; fi
  clean 0 info --json
  clean 0 order 2x9x3x1x4x11x5 --tables
  clean 0 order 2x9x3x1x4x11x5 --json -o tree.json
  clean 0 order --dims <(seq 1 300) --solver table -o tree.bin
  clean 2 order 30 35 x y
  clean 2 order --dims missing
  clean 2 plan 2x3 --no-such-option
  clean 0 --help
  [ $failures = 0 ]
)

products() (
  enter products
  python3 "$make_npy" v.npy '<f4' 20
  python3 "$make_npy" integers.npy '<i4' 2x2
  echo 'clrs: 30 35 15 5 10' >suite
  echo 'clrs: 30 35 15 x' >bad_suite
  awk 'BEGIN { for (i = 0; i < 300; i++) print i / 10, 20 * i, 200, 1500 }' >recording
  clean 0 generate f32:20x30x5x8:NTH -o f32 --seed 3
  clean 0 generate c128:20x30x5x8:NTH -o c128
  clean 0 generate f16:20x30x5x8:NTH -o f16
  clean 2 generate bf16:20x30x5 -o bf16
  clean 0 multiply v.npy f32/A1.npy f32/A2.npy:T f32/A3.npy:H -o R.npy --check --explain --json
  clean 0 multiply c128/A1.npy c128/A2.npy:T c128/A3.npy:H -o R.npy --check --on ref
  clean 0 multiply f16/A1.npy f16/A2.npy:T f16/A3.npy:H -o R.npy --check
  clean 0 multiply f32/A1.npy -o -
  clean 0 multiply f32/A1.npy c128/A2.npy:T -o R.npy --check
  clean 2 multiply f32/A1.npy integers.npy -o R.npy
  clean 2 multiply f32/A1.npy f32/A3.npy -o R.npy
  clean 2 multiply f32/A1.npy missing.npy -o R.npy
  clean 0 bench --suite suite f32:4x5x6 --on ref --seconds 0
  clean 2 bench --suite bad_suite
  clean 0 multiply v.npy f32/A1.npy -o R.npy --meter replay:recording --json
  clean 0 multiply v.npy f32/A1.npy -o R.npy --energy --json
  clean 2 multiply v.npy f32/A1.npy -o R.npy --meter replay:bad_suite
  [ $failures = 0 ]
)

# Chains that are not sums of products of whole floating-point matrices, and what else is written.
others() (
  enter others
  python3 "$make_npy" integers.npy '<i4' 5x5
  python3 "$make_npy" stack.npy '<f8' 12x4x4
  python3 "$make_npy" first.npy '<f8' 4x4
  printf '%%%%MatrixMarket matrix coordinate real general\n9 9 3\n1 2 5\n2 9 3\n9 1 2\n' >sparse.mtx
  "$mmchain" generate f64:9x9x9x3 -o f64 >said
  "$mmchain" generate f64:9x9x9:lower,spd -o told >said
  clean 0 multiply f64/A1.npy:lower:inv f64/A2.npy:tridiagonal:inv f64/A3.npy -o R.npy
  clean 0 multiply '(told/A1.npy:lower told/A2.npy:spd):inv' told/A1.npy:lower:T f64/A3.npy -o R.npy --explain
  clean 0 multiply integers.npy^9 -o R.npy
  clean 0 multiply integers.npy^900 -o R.npy --mod 1000003 --json
  clean 2 multiply integers.npy^99 -o R.npy --checked
  clean 0 multiply f64/A1.npy f64/A2.npy f64/A3.npy -o R.npy --semiring max-plus --check
  clean 0 multiply f64/A2.npy^20 -o R.npy --semiring log
  clean 0 multiply f64/A2.npy^200 -o R.npy --scaled E.npy --check
  clean 0 multiply f64/A2.npy f64/A2.npy f64/A3.npy -o R.npy --reproducible
  "$mmchain" plan f64/A1.npy f64/A2.npy f64/A3.npy --json >plan.json
  clean 0 multiply --plan plan.json f64/A1.npy f64/A2.npy f64/A3.npy -o R.npy
  clean 2 multiply --plan plan.json f64/A1.npy f64/A3.npy -o R.npy
  clean 0 multiply sparse.mtx sparse.mtx -o R.mtx --check
  clean 0 multiply sparse.mtx f64/A2.npy -o R.npz
  clean 0 scan stack.npy -o R.npy --check
  clean 0 scan stack.npy -o R.npy --semiring min-plus --reverse --exclusive
  clean 0 scan stack.npy -o R.npy --scaled E.npy --initial first.npy
  clean 0 plan 100x200x300x50x60 --on scalapack --ranks 6
  clean 0 plan f32:1000x2000x3000x50x60 --on cuda:all --ranks 4
  clean 0 report f64:80x80x5:lower.T.inv,N -o page.html
  [ $failures = 0 ]
)

# A store, or a library built without: then every one of these fails in order.
text='mmchain wisdom 1
fingerprint "ref" "a machine" "" "" "0.1.0" "f32" "native"
product 1 2 3 N N time "plain" 1 0 1 - - - "measured" 1
array N N time 1 1 2 5
 m 1
 k 1
 n 1 2
 E 1 2'
stores() (
  enter stores
  printf '%s\nend 2\n' "$text" >good.txt
  printf '%s\nend 3\n' "$text" >bad.txt
  "$mmchain" wisdom show >/dev/null 2>&1 && store=0 || store=1
  clean "$store" wisdom import good.txt
  clean $((store ? 1 : 2)) wisdom import bad.txt
  clean "$store" wisdom export -o out.txt
  clean "$store" wisdom show --json
  clean 0 info
  [ "$store" = 0 ] && truncate -s 8192 wisdom.db
  clean "$store" wisdom show
  clean "$store" wisdom forget --all
  [ $failures = 0 ]
)

plans >"$work/plans.log" 2>&1 &
products >"$work/products.log" 2>&1 &
others >"$work/others.log" 2>&1 &
stores >"$work/stores.log" 2>&1 &
status=0
for part in 1 2 3 4; do wait -n || status=1; done
cat "$work"/*.log
exit $status
