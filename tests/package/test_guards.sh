#!/usr/bin/env bash
# test_guards.sh LIBRARY COMMAND: what cmake/MmcFlags.cmake asks of the compiler and the linker is in the
# library and in the command. Exits 77 without readelf.
set -euo pipefail
command -v readelf >/dev/null || { echo "no readelf"; exit 77; }
failures=0

# expect FILE WHAT PATTERN READELF-OPTION...
expect() {
  local file=$1 what=$2 pattern=$3
  shift 3
  if readelf -W "$@" "$file" | grep -E "$pattern" >/dev/null; then
    echo "ok   ${file##*/}: $what"
  else
    echo "FAIL ${file##*/}: $what"
    failures=$((failures + 1))
  fi
}

for file in "$1" "$2"; do
  expect "$file" "relocations are read-only" GNU_RELRO -l
  expect "$file" "everything is resolved before main()" 'BIND_NOW|FLAGS.* NOW' -d
  expect "$file" "a stack that is not executable" 'GNU_STACK .* RW ' -l
  expect "$file" "return addresses are guarded" __stack_chk_fail --dyn-syms
  expect "$file" "functions of libc check sizes" '__[a-z]+_chk' --dyn-syms
done
expect "$2" "addresses that are chosen at random" 'Type: +DYN' -h
exit $((failures > 0))
