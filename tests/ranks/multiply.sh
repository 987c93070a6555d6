#!/usr/bin/env bash
# multiply.sh MMCHAIN: `mpirun -np 4 mmchain multiply ... --on scalapack`: files of both layouts, ops,
# dtypes and vectors, the plan's words, and what is said when something fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mmchain=$(realpath "$1")
command -v mpirun >/dev/null || { echo "no mpirun"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
# As in run.sh, for a rank that runs alone.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:detect_leaks=0"

fail() {
  echo "FAILED: $*"
  sed 's/^/  /' said 2>/dev/null || true
  failures=$((failures + 1))
}

# An mpirun that does not come back, as Open MPI 5's sometimes, is no test that does not.
ranks() { timeout -k 10 60 bash "$here/run.sh" "$@"; }

# Ranks differ by a wrapper.
cat >on_rank.sh <<'END'
#!/usr/bin/env bash
# on_rank.sh RANK PREFIX COMMAND...: rank RANK runs PREFIX COMMAND, the others COMMAND.
rank=$1 prefix=$2
shift 2
if [ "${OMPI_COMM_WORLD_RANK:-0}" = "$rank" ]; then
  eval "$prefix"
else
  exec "$@"
fi
END

# ---- results -----------------------------------------------------------------------------------

check() { # NAME RANKS FACTORS...
  local name=$1 count=$2
  shift 2
  rm -f R.npy
  ranks "$count" "$mmchain" multiply "$@" -o R.npy --on scalapack --check >said 2>&1 || { fail "$name"; return; }
  grep -q '^relative residual' said || fail "$name: no residual"
  [ -s R.npy ] || fail "$name: no result"
}

"$mmchain" generate f64:37x41x5x29 -o d --seed 1 >/dev/null
"$mmchain" generate c64:23x3x17:NH -o c --seed 2 >/dev/null
"$mmchain" generate f32:3x1x2 -o s --seed 3 >/dev/null
"$mmchain" generate c128:130x90x111 -o z --seed 4 >/dev/null
check f64 4 d/A1.npy d/A2.npy d/A3.npy
check "ops and c64" 4 c/A1.npy c/A2.npy:H
check "dims below the ranks" 4 s/A1.npy s/A2.npy
check c128 3 z/A1.npy z/A2.npy
check "a matrix beside its transposed one" 4 d/A1.npy d/A1.npy:T d/A1.npy
check "one rank" 1 d/A1.npy d/A2.npy d/A3.npy
[ -z "${MMCHAIN_TEST_LONG:-}" ] || check "one factor" 2 d/A1.npy
if python3 -c 'import numpy' 2>/dev/null; then
  python3 - <<'END'
import numpy
r = numpy.random.default_rng(5)
numpy.save("F.npy", numpy.asfortranarray(r.standard_normal((50, 33))))
numpy.save("C.npy", r.standard_normal((33, 46)))
numpy.save("v.npy", r.standard_normal(46))
numpy.save("E.npy", numpy.zeros((33, 0)))
numpy.save("G.npy", numpy.zeros((0, 7)))
END
  check "both layouts" 4 F.npy C.npy C.npy:T
  check "a column" 4 F.npy C.npy v.npy
  check "an empty dim" 4 F.npy E.npy G.npy
  ranks 4 "$mmchain" multiply F.npy C.npy v.npy -o R.npy --on scalapack >said 2>&1 || fail "a column"
  python3 - >said 2>&1 <<'END' || fail "NumPy's result"
import numpy
F, C, v, R = (numpy.load(f + ".npy") for f in "FCvR")
assert R.shape == (50,), R.shape
assert numpy.abs(R - F @ C @ v).max() < 1e-11
END
fi

# Reproducible results have the bits of one process.
same_bits() { # RANKS FACTORS...
  local count=$1
  shift
  rm -f R.npy one.npy
  "$mmchain" multiply "$@" -o one.npy --on cpu --reproducible
  ranks "$count" "$mmchain" multiply "$@" -o R.npy --on scalapack --reproducible >said 2>&1 || true
  cmp -s one.npy R.npy || fail "bits of $* on $count ranks"
}
for count in 1 2 3 4; do same_bits "$count" z/A1.npy z/A2.npy; done
same_bits 4 d/A1.npy d/A2.npy d/A3.npy
same_bits 4 c/A1.npy c/A2.npy:H
ranks 2 "$mmchain" multiply d/A1.npy d/A2.npy -o R.npy --on scalapack --precision fast >said 2>&1 &&
  fail "precision fast"
grep -q '^mmchain multiply: --precision: ranks multiply natively or reproducibly' said || fail "what is said of precision fast"

# One rank started without mpirun, and the words that the plan tells.
"$mmchain" multiply d/A1.npy d/A2.npy d/A3.npy -o R.npy --on scalapack --check >said 2>&1 || fail "no mpirun"
ranks 4 "$mmchain" multiply d/A1.npy d/A2.npy d/A3.npy -o R.npy --on scalapack --json >json 2>said || fail json
planned=$("$mmchain" plan d/A1.npy d/A2.npy d/A3.npy --on scalapack --ranks 4 --json | grep -o '"words": [0-9]*' | head -1)
grep -q "$planned" json || fail "words: $planned is not told by multiply"

# Both operands of the last product are computed at the same time.
"$mmchain" generate f64:90x90x90x90x90x90x90x90x90 -o e --seed 8 >/dev/null
ranks 4 "$mmchain" multiply e/A?.npy --order '(((A1 A2) (A3 A4)) ((A5 A6) (A7 A8)))' -o R.npy --on scalapack --check --explain \
  >said 2>&1 || fail "halves of the ranks"
grep -Eq '^T6 = T4 T5 .* 2-3 ' said || fail "halves of the ranks: other ranks have computed T6"

# What is measured is what plans go by, with and without ranks.
export MMCHAIN_WISDOM="$work/wisdom.db"
ranks 2 "$mmchain" tune --calibrate --on scalapack >said 2>&1 || fail "tune --calibrate"
if "$mmchain" wisdom show | grep -q 'scalapack f64'; then
  "$mmchain" wisdom show | grep 'scalapack f64' | grep -q foreign && fail "wisdom: measured here, and foreign"
  "$mmchain" plan 100x200x300 --on scalapack --ranks 2 | grep -q '(model)' || fail "plan: not by what was measured"
  ranks 2 "$mmchain" multiply d/A1.npy d/A2.npy -o R.npy --on scalapack --explain --check >said 2>&1 || fail "explain"
  grep -q '(model)' said || fail "multiply: not by what was measured"
fi
export MMCHAIN_WISDOM=

# ---- faults ------------------------------------------------------------------------------------

# broken NAME RANK PREFIX PATTERN [RANKS] [FACTORS...]: so many ranks say a line with the pattern, and
# none leaves a file.
broken() {
  local name=$1 rank=$2 prefix=$3 pattern=$4 least=${5:-4} start said
  shift 4
  [ $# = 0 ] || shift
  [ $# != 0 ] || set -- d/A1.npy d/A2.npy d/A3.npy
  rm -f R.npy
  start=$(date +%s)
  if ranks 4 bash on_rank.sh "$rank" "$prefix" "$mmchain" multiply "$@" -o R.npy --on scalapack \
    >said 2>&1; then
    fail "$name: exit status 0"
  fi
  [ $(($(date +%s) - start)) -le 12 ] || fail "$name: took $(($(date +%s) - start)) s"
  said=$(grep -c "$pattern" said || true)
  [ "$said" -ge "$least" ] || fail "$name: $said ranks say '$pattern'"
  [ ! -e R.npy ] || fail "$name: a result is left"
  [ -z "$(find . -name '.mmchain*')" ] || fail "$name: a temporary file is left"
}

# These run where the prefix is evaluated.
# shellcheck disable=SC2016
broken "a factor that rank 2 cannot read" 2 'exec "$1" multiply d/A1.npy d/no.npy d/A3.npy -o R.npy --on scalapack' 'multiply: rank 2: .*no.npy'
# shellcheck disable=SC2016
broken "another chain on rank 1" 1 'exec "$1" multiply d/A1.npy d/A2.npy -o R.npy --on scalapack' 'multiply: rank 1: has the chain f64:37x41x5, and rank 0 has f64:37x41x5x29'
# What not all ranks can write is refused before they multiply.
status=0
ranks 2 "$mmchain" multiply d/A1.npy d/A2.npy -o /dev/null --on scalapack >said 2>&1 || status=$?
[ $status = 2 ] || fail "an output that is no file: exit status $status, expected 2"
grep -q 'multiply: -o: /dev/null: expected a regular file, which all ranks write' said || fail "an output that is no file"
# Of the libraries that are named, the one that is not there is told; none are the system's.
named() { MMCHAIN_SCALAPACK=$1 ranks 1 "$mmchain" multiply d/A1.npy d/A2.npy -o R.npy --on scalapack >said 2>&1; }
named libm.so.6:no.so && fail "a library that is not there: exit status 0"
grep -q "MMCHAIN_SCALAPACK: cannot open 'no.so': " said || fail "a library that is not there"
named libm.so.6::no.so && fail "a library without a name: exit status 0"
grep -q "MMCHAIN_SCALAPACK: expected libraries with colons between them, got ':no.so'" said || fail "a library without a name"
named '' || fail "no library is named"
# The last rows of the result lie beyond what rank 3 may write.
"$mmchain" generate f64:2200x1x2200 -o d --seed 6 >/dev/null
# shellcheck disable=SC2016
broken "a full disk at rank 3" 3 'ulimit -f 32768; exec "$1" multiply d/A1.npy d/A2.npy -o R.npy --on scalapack' \
  'multiply: .*rank 3: R.npy: cannot write: File too large' 4 d/A1.npy d/A2.npy

# Rank 2 stops when it has mapped a factor, and dies.
cat >stop.sh <<'END'
#!/usr/bin/env bash
# stop.sh SECONDS COMMAND...: runs the command until it has opened A1.npy, and $later seconds more, stops it, and
# SECONDS later kills it.
trap '' TERM
seconds=$1
shift
"$@" &
process=$!
until grep -q A1.npy "/proc/$process/maps" 2>/dev/null; do
  kill -0 $process 2>/dev/null || exit
  sleep 0.02
done
sleep "${later:-0}"
kill -STOP $process
echo stopped >is_stopped
sleep "$seconds"
kill -9 $process
wait $process
END
"$mmchain" generate f64:2000x2000x2000x2000 -o d --seed 7 >/dev/null
# mpirun asks the others to end as soon as one has, and kills a second later those that a busy machine has not let speak.
export OMPI_MCA_odls_base_sigkill_timeout=3
# shellcheck disable=SC2016
broken "a rank that dies" 2 'exec bash stop.sh 0.5 "$@"' 'multiply: rank [013]: rank 2 has died' 3
if [ -n "${MMCHAIN_TEST_LONG:-}" ]; then
  # Each of two ranks computes an operand when one of them dies. Open MPI 5's mpirun no longer shows what the other one says.
  "$mmchain" generate f64:3000x3000x3000x3000x3000 -o g --seed 9 >/dev/null
  rm -f R.npy said
  # shellcheck disable=SC2016
  ranks 2 bash on_rank.sh 1 'later=0.2 exec bash stop.sh 0.5 "$@"' bash -c 'exec "$@" 2>>said' - "$mmchain" multiply g/A?.npy \
    --order '((A1 A2) (A3 A4))' -o R.npy --on scalapack >>said 2>&1 && fail "a half that dies: exit status 0"
  grep -q 'multiply: rank 0: rank 1 has died' said || fail "a half that dies"
  [ ! -e R.npy ] || fail "a half that dies: a result is left"
fi
unset OMPI_MCA_odls_base_sigkill_timeout

# Once mpirun is killed, ranks end by themselves, but for the one that is stopped.
rm -f R.npy is_stopped
# shellcheck disable=SC2016
bash "$here/run.sh" 4 bash on_rank.sh 2 'exec bash stop.sh 2 "$@"' \
  "$mmchain" multiply d/A1.npy d/A2.npy d/A3.npy -o R.npy --on scalapack >said 2>&1 &
started=$!
for _ in $(seq 200); do
  [ -e is_stopped ] && break
  sleep 0.05
done
kill -9 $started
wait $started 2>/dev/null || true
# Nobody is left who would show their lines.
living() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe" 2>/dev/null)" = "$mmchain" ] &&
      [ "$(readlink "$process/cwd" 2>/dev/null)" = "$work" ] && echo "${process#/proc/}"
  done
  return 0
}
for _ in $(seq 50); do
  [ "$(living | wc -l)" -le 1 ] && break
  sleep 0.1
done
[ "$(living | wc -l)" -le 1 ] || fail "a killed mpirun: ranks go on"
[ ! -e R.npy ] || fail "a killed mpirun: a result is left"

[ "$failures" = 0 ] && echo "multiply.sh: all as expected"
[ "$failures" = 0 ]
