#!/usr/bin/env bash
# small_inputs.sh MMCHAIN: whatever is said in less than 1 KiB takes at most a second of a processor and 100 MB of
# memory, or ends with an error: texts of chains, orders, wisdom and recordings, files of dims and matrices
# whose headers promise more than there is.
#
# What is meant to take long is left out: `multiply`, `bench` and `generate` of the large matrices that they were
# asked for. A program that exceeds its limits is killed, which is a failure here. Exit status 77 without
# a limit on memory, as under the sanitizers. MMCHAIN_TEST_LONG plans every text in every way.
set -u
export LC_ALL=C MMCHAIN_WISDOM='' OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
mmchain=$(realpath "$1")
corpus=$(realpath "$(dirname "$0")/../fuzz/corpus")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
cases=0

# brief ARGUMENT...: the command ends in time, with status 0 to 2. The address space holds the libraries,
# and memory that is promised and not used, beside what is resident.
brief() {
  local status seconds kilobytes within
  cases=$((cases + 1))
  # A processor that others use too may be slow once.
  for _ in 1 2; do
    printf '%s\0' $(($# + 1)) "$mmchain" "$@" >&"${measure[1]}"
    read -r status seconds kilobytes within <&"${measure[0]}"
    [ "$within" = yes ] && return
  done
  printf 'FAIL status %s, %s s, %s KiB: %.200s\n' "$status" "$seconds" "$kilobytes" "$*"
  failures=$((failures + 1))
}

# Runs commands, each told as the number of its words and these, and tells of each the status, processor seconds and
# resident KiB at most, and whether that is brief. One process for all: starting it takes longer than most commands.
measuring='
import os, resource, subprocess, sys
def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
def word():
    got = b""
    while (byte := sys.stdin.buffer.read(1)) != b"\0":
        if byte == b"": sys.exit()
        got += byte
    return got
nothing = subprocess.DEVNULL
while True:
    command = [word() for _ in range(int(word()))]
    child = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, preexec_fn=limit)
    _, waited, used = os.wait4(child.pid, 0)
    child.returncode = status = os.waitstatus_to_exitcode(waited)
    seconds = used.ru_utime + used.ru_stime
    within = 0 <= status <= 2 and seconds <= 1 and used.ru_maxrss <= 100 * 1024
    print(status, f"{seconds:.2f}", used.ru_maxrss, "yes" if within else "no", flush=True)
'

command -v python3 >/dev/null || { echo "no python3"; exit 77; }
(ulimit -v 700000 && "$mmchain" --version >/dev/null 2>&1) || { echo "no limit on memory can be set"; exit 77; }

coproc measure { exec python3 -S -c "$measuring"; }

# join N TEXT: TEXT so often, with x between.
join() { yes "$2" | head -n "$1" | paste -sd x; }

# structured N WORDS: N factors of 8x8, each with WORDS; what WORDS open, N times ).inv closes at the end.
structured() {
  printf '8x%s:' "$(join "$1" 8)"
  yes "$2" | head -n "$1" | paste -sd , | tr -d '\n'
  case $2 in '('*) yes ').inv' | head -n "$1" | tr -d '\n' ;; esac
}

long=$(join 340 97)
wide=$(join 45 4611686018427387904)
uneven=$(seq 1 330 | awk '{print 10 + $1 * $1 % 89}' | paste -sd x)
limit=$("$mmchain" plan "$uneven" --memory-limit 1 2>&1 | grep -oE 'leanest needs [0-9]+' | grep -oE '[0-9]+')
all_options=("--for time")
[ -n "${MMCHAIN_TEST_LONG:-}" ] && all_options+=("" "--memory-limit 100K" "--for energy" "--for traffic" "--for traffic --fuse joint"
  "--solver table" "--solver brute" "--json" "--dot")
for chain in "$long" "$wide" "$uneven" 'f16:64x64^131072' 'f16:4^1000611686018427387904' '64x64^1000000000' \
  "1x1^131072" "f32:3x3^100x3^100x3^100x3^100:TTTT" '0x4x5@1000000000' '3x4x5@4611686018427387904' \
  "$(join 100 2)=$(seq 1 99 | paste -sd ,)" "f64:8x9x8x9x8=1,2,1,2" "$(head -c 1000 /dev/zero | tr '\0' '(')" \
  "$(join 120 9999999)" 'f64:x' '' '@' '^' "2x2^131072:$(head -c 900 /dev/zero | tr '\0' T)" \
  '8x8^131072:upper' '8x8^256:lower.inv' '8x8^131072:tridiagonal.inv' "$(structured 60 'permutation')" \
  "$(structured 30 'orthogonal.inv')" "$(structured 30 'banded(2,1).inv')" '8x8x8:banded(9223372036854775807,1),N' "$(structured 64 N)" "$(structured 64 lower.inv)" "$(structured 64 '(N')" \
  "$(structured 40 '(spd')" "i64%9223372036854775807:9x9^131072" 'i64!:9x9^131072' 'i8%256:3x3^1000'; do
  for options in "${all_options[@]}"; do
    # shellcheck disable=SC2086 # options are words
    brief plan "$chain" $options
  done
done
for chain in 'f32~max-plus:9x9^131072' 'i64~min-plus:9x9^1000000000' 'f64~log:64x64^131072' 'bool~or-and:1x1^131072' \
  "f32~max-plus:$uneven"; do
  brief plan "$chain"
  [ -z "${MMCHAIN_TEST_LONG:-}" ] || brief plan "$chain" --memory-limit 100K
done
for chain in 'f16:64x64^131072' "$uneven" '8x8^256:lower.inv' 'i64%1000:9x9^131072'; do
  brief report "$chain" -o page.html
  brief report "$chain" -o page.html --for energy
done
brief plan "$uneven" --memory-limit "${limit:-1}"
brief plan "$uneven" --memory-limit $((${limit:-1} * 3 / 2))
brief plan "$uneven" --memory-limit "${limit:-1}" --for time
printf '%s' "$(seq 1 250 | tr '\n' ' ')" >dims
for solver in auto table hu-shing left-to-right brute; do brief order --dims dims --solver $solver; done
brief order --dims dims --tables --solver table

# Matrices whose headers promise more than there is, or nothing in many parts.
npy() { # npy FILE SHAPE BYTES [DTYPE]
  local header="{'descr': '${4:-<f8}', 'fortran_order': False, 'shape': ($2), }"
  header=$(printf '%-117s' "$header")
  printf '\x93NUMPY\x01\x00\x76\x00%s\n' "$header" >"$1"
  head -c "$3" /dev/zero >>"$1"
}
npy huge.npy '1099511627776, 1099511627776' 0
npy none.npy '1099511627776, 0, 3' 0
npy stack.npy '4611686018427387904, 0, 0' 0
npy small.npy '3, 3' 72
npy row.npy '0, 4611686018427387904' 0
npy column.npy '4611686018427387904, 0' 0
for files in 'huge.npy small.npy' 'none.npy small.npy' 'stack.npy stack.npy' 'row.npy column.npy' 'column.npy row.npy' \
  'small.npy^131072' 'small.npy^1000000000' 'small.npy small.npy:T small.npy:H' 'none.npy small.npy^1000'; do
  # shellcheck disable=SC2086 # files are words
  brief multiply $files -o R.npy
  # shellcheck disable=SC2086
  brief plan $files
done

for files in 'small.npy:lower:inv^256' 'small.npy:lower:inv^131072 small.npy' '(small.npy:T small.npy):inv^256 small.npy' \
  "$(yes '(small.npy' | head -n 60 | paste -sd ' ') $(yes ').inv' | head -n 60 | tr -d '\n')" 'huge.npy:upper small.npy' \
  'none.npy:each small.npy:spd:inv'; do
  # shellcheck disable=SC2086 # files are words
  brief multiply $files -o R.npy
done

# Files of every format, whole and damaged, by what the fuzz targets begin with.
for pair in matlab:mat npz:npz npy:npy safetensors:safetensors matrix_market:mtx; do
  for file in "$corpus/${pair%:*}"/*; do
    cp "$file" "factor.${pair#*:}"
    brief multiply "factor.${pair#*:}" -o R.npy
  done
done

# Integers, residues and running products.
moduli=9223372036854775807
[ -n "${MMCHAIN_TEST_LONG:-}" ] && moduli='1 2 1000000007 9223372036854775807 9223372036854775808 99999999999999999999'
npy integers.npy '3, 3' 72 '<i8'
npy none_of_integers.npy '1099511627776, 0, 0' 0 '<i8'
npy many_of_none.npy '1000000, 0, 0' 0
npy sixteen.npy '16, 2, 2' 512
for files in 'integers.npy^131072' 'integers.npy^1000000000' 'none_of_integers.npy integers.npy' 'none_of_integers.npy:each'; do
  # shellcheck disable=SC2086
  brief multiply $files -o R.npy
  for modulus in $moduli; do
    # shellcheck disable=SC2086
    brief multiply $files -o R.npy --mod $modulus
  done
done
for files in 'small.npy^131072' 'small.npy^1000000000' 'none.npy small.npy' 'row.npy column.npy'; do
  # shellcheck disable=SC2086 # files are words
  brief multiply $files -o R.npy --semiring log
  # shellcheck disable=SC2086
  brief multiply $files -o R.npy --scaled E.npy
done
for file in stack.npy none.npy huge.npy many_of_none.npy none_of_integers.npy small.npy sixteen.npy; do
  brief scan $file -o R.npy --check
  [ -z "${MMCHAIN_TEST_LONG:-}" ] && continue
  brief scan $file -o R.npy --reverse
  brief scan $file -o R.npy --semiring min-plus
  brief scan $file -o R.npy --scaled E.npy
  brief scan $file -o R.npy --exclusive --initial small.npy
done

# Plans that are said to have been saved.
saved() { # saved CHAIN ORDER STEPS
  printf '{"chain": "%s", "objective": "flops", "device": "ref", "precision": "native", "order": "%s", "steps": [%s]}' \
    "$1" "$2" "$3" >plan.json
  brief multiply --plan plan.json small.npy small.npy -o R.npy
  brief multiply --plan plan.json small.npy small.npy^131071 -o R.npy
}
saved f64:3x3x3 '(A1 A2)' ''
saved f64:3x3^131072 '(A1 A2)' ''
saved f64:3x3^1000000000 '' ''
saved 'i64%9223372036854775807:3x3^131072' '' ''
saved f64:3x3x3 "$(head -c 700 /dev/zero | tr '\0' '(')" ''
saved f64:3x3x3 '(A1 A2)' "$(yes '{}' | head -n 200 | paste -sd ,)"
saved '8x8^256:lower.inv' '' ''
for text in "$(head -c 1000 /dev/zero | tr '\0' '[')" "$(yes '{"a":' | head -n 160 | tr -d '\n')" '{"chain": "f64:3x3' ''; do
  printf '%s' "$text" >plan.json
  brief multiply --plan plan.json small.npy small.npy -o R.npy
done

# Other texts.
printf 'mmchain wisdom 1\nfingerprint "a" "b" "" "" "0" "f32" "native"\narray N N time 1024 1024 1024 1\n' >wisdom
export MMCHAIN_WISDOM=$work/wisdom.db
brief wisdom import wisdom
head -c 1000 /dev/zero >zeros
brief wisdom import zeros
head -c 1000 /dev/urandom >noise
brief wisdom import noise
brief wisdom export
brief multiply small.npy small.npy -o R.npy --meter replay:noise
brief multiply noise small.npy -o R.npy
brief bench --suite noise
eval "exec ${measure[1]}>&-"
wait
echo "$cases cases, $failures failed"
[ $failures = 0 ]
