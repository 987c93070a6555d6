#!/usr/bin/env bash
# run.sh MMCHAIN [PART...]: runs the command on good and bad input and compares what it says, exactly.
# run.sh --update MMCHAIN [PART...]: writes what it says to expected/ instead, for people to read.
#
# A PART is a file cases_PART.sh, which runs in a folder of its own; without one, all of them run.
# Exits 1 when a case fails, 77 without python3. MMCHAIN_WRAPPER, if any, is put before the command.
#
# check NAME STATUS ARGUMENT... is a case. What goes to standard output and standard error is in
# expected/NAME.stdout and .stderr; no file means nothing. Times and residuals are shown as # or,
# in JSON, as 0.
set -u
export LC_ALL=C MMCHAIN_WISDOM= # the wisdom of whoever runs this is not looked at
export MMCHAIN_PATIENCE_S=1e9   # nothing is told of work that takes long because a disk or a machine is busy

update=no
if [ "${1:-}" = --update ]; then
  update=yes
  shift
fi
[ $# -ge 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
# What python3 names may be a program that looks for the one to start; and none of its packages is needed.
python=$(python3 -c 'import sys; print(sys.executable)')
python3() { "$python" -I -S "$@"; }
mmchain=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
expected=$here/expected
root=$(mktemp -d)
trap 'chmod -R u+w "$root"; rm -rf "$root"' EXIT
failures=0
cases=0
input=/dev/null # of the next case

environment=()
read -ra wrapper <<<"${MMCHAIN_WRAPPER:-}"
[ ${#wrapper[@]} = 0 ] || wrapper[0]=$(command -v "${wrapper[0]}") || exit 2

# Runs the command, with the variables in environment.
run() { env "${environment[@]}" "${wrapper[@]}" "$mmchain" "$@"; }

verdict() { # verdict NAME WHAT-IS-WRONG
  cases=$((cases + 1))
  if [ -z "$2" ]; then
    echo "ok   $1"
  else
    echo "FAIL $1: $2"
    failures=$((failures + 1))
  fi
}

# mask FILE...: replaces what differs from run to run.
mask() {
  sed -i -E -e 's/("(seconds|residual)": )[0-9][-+.0-9e]*/\10/g' -e 's/^(seconds +)[0-9.]+$/\1#/' \
    -e 's/(relative residual:? |backward error of solves: )[-+.0-9e]+/\1#/' "$@"
}

# compare NAME FILE STREAM: prints what is wrong.
compare() {
  local want=$expected/$1.$3
  [ -e "$want" ] || want=/dev/null
  if [ $update = yes ]; then
    if [ -s "$2" ]; then cp "$2" "$expected/$1.$3"; else rm -f "$expected/$1.$3"; fi
  elif ! cmp -s "$2" "$want"; then
    echo "$3 differs:"
    diff "$want" "$2" | sed 's/^/    /'
  fi
}

check() {
  local name=$1 status=$2 got wrong='' stream lines
  shift 2
  run "$@" <"$input" >"said/$name.stdout" 2>"said/$name.stderr"
  got=$?
  input=/dev/null
  [ $got = "$status" ] || wrong="exit status $got, expected $status; "
  for stream in stdout stderr; do
    [ ! -s "said/$name.$stream" ] || mask "said/$name.$stream"
    [ ! -s "said/$name.$stream" ] && [ ! -e "$expected/$name.$stream" ] ||
      wrong+=$(compare "$name" "said/$name.$stream" $stream)
  done
  # Bad usage and failed work are told in one line.
  mapfile -t lines <"said/$name.stderr"
  if [ "$status" != 0 ] && [ ${#lines[@]} != 1 ]; then
    wrong+="expected one line on standard error"
  fi
  verdict "$name" "$wrong"
}

# holds NAME COMMAND...: the command succeeds.
holds() {
  local name=$1
  shift
  if "$@" >said/holds 2>&1; then verdict "$name" ""; else verdict "$name" "failed: $(cat said/holds)"; fi
}

# has FEATURE: what may be left out of a build is here: a format or device by its name, libxsmm, or sqlite.
has() {
  case $1 in
  sqlite) ! "$mmchain" info | grep -q 'built without SQLite' ;;
  libxsmm) "$mmchain" plan 32x32x32 --for flops --json | grep -q '"libxsmm' ;;
  *) "$mmchain" info | grep -Eq "^  $1 +(\.[^ ]+ +)*here " ;;
  esac
}

# needs FEATURE CASE...: the case, where the feature is here.
needs() {
  local feature=$1
  shift
  if has "$feature"; then "$@"; else echo "skipped: $2: no $feature"; fi
}

absent() { # absent NAME FILE...
  local name=$1 wrong= file
  shift
  for file in "$@"; do
    if [ -e "$file" ]; then wrong+="$file was left; "; fi
  done
  verdict "$name" "$wrong"
}

# temporaries NAME DIRECTORY: no file of a half-done output is left there.
temporaries() { verdict "$1" "$(find "$2" -maxdepth 1 -name '.mmchain*')"; }

is_json() { python3 -m json.tool <"$1" >/dev/null; }
json_lines() { python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$1"; }

make_npy() { python3 "$here/make_npy.py" "$@"; }

# What several parts read: the factors of the textbook chain, three matrices, and a recorded meter.
inputs() {
  run generate $clrs -o clrs --seed 7 >/dev/null
  make_npy A.npy '<f4' 10x30
  make_npy B.npy '<f4' 5x30
  make_npy v.npy '<f4' 5
  awk 'BEGIN { for (i = 0; i < 300; i++) printf "%.1f %d 200 1500 2600 50 4\n", i / 10, 20 * i }' >steady
}

clrs=30x35x15x5x10x20x25
figure=2x9x3x1x4x11x5 # Nishida, Ito and Nakano (2011), Figure 1
if [ $# = 0 ]; then
  for file in "$here"/cases_*.sh; do set -- "$@" "$(basename "$file" .sh | sed 's/^cases_//')"; done
fi
for part; do
  work=$root/$part
  mkdir -p "$work/said" && cd "$work" || exit 1
  environment=()
  inputs
  . "$here/cases_$part.sh"
done

echo "$cases cases, $failures failures"
[ $failures = 0 ]
