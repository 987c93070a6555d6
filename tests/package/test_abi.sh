#!/usr/bin/env bash
# test_abi.sh [--write] CC HEADER DIRECTORY: what programs were built with still fits: the functions and types of the
# header are compared, by libabigail, with those kept in DIRECTORY for this version.
#
# A program that was built with an older header must run with a newer library of the same major and minor
# version. Functions may be added, and fields at the end of structs that begin with their size; anything
# else needs a new version, and then --write, which keeps what the header says now. Exits 77 without abidw.
set -euo pipefail
write=no
if [ "$1" = --write ]; then
  write=yes
  shift
fi
compiler=$1 header=$2 kept=$3
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  echo "no abidw (Debian: abigail-tools): the ABI is not compared"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number() { sed -n "s/^#define MMC_VERSION_$1 //p" "$header"; }
baseline=$kept/mmchain-$(number MAJOR).$(number MINOR).abi

# A library of the header's functions, empty, has the types that the library's programs see.
{
  echo "#include \"$header\""
  "$compiler" -E -P -DMMC_API=MMC_DECLARED "$header" | tr '\n' ' ' | sed 's/[;}] */&\n/g' |
    sed -nE 's/^ *MMC_DECLARED (.*\)) *;.*$/__attribute__((visibility("default"))) \1 { __builtin_trap(); }/p'
} >"$work/stub.c"
count=$(grep -c __builtin_trap "$work/stub.c")
[ "$count" -gt 50 ] || { echo "only $count functions were found in $header"; exit 1; }
"$compiler" -std=gnu2x -w -g -O0 -fPIC -shared -fvisibility=hidden -Wl,-soname,libmmchain.so \
  "$work/stub.c" -o "$work/libmmchain.so"
abidw --no-show-locs --no-corpus-path --no-comp-dir-path --drop-undefined-syms --type-id-style hash \
  --no-elf-needed "$work/libmmchain.so" | sed "s|path='[^']*'||" >"$work/now.abi"

if [ $write = yes ]; then
  cp "$work/now.abi" "$baseline"
  echo "$baseline: $count functions"
  exit 0
fi
[ -f "$baseline" ] || { echo "no $baseline: test_abi.sh --write keeps what the header says now"; exit 1; }
# members FILE: "STRUCT OFFSET TYPE NAME", a line for every field.
members() {
  sed -nE "s/.*<class-decl name='([^']*)'.*/struct \1/p; s/.*layout-offset-in-bits='([0-9]+)'.*/offset \1/p
           s/.*<var-decl name='([^']*)' type-id='([^']*)'.*/field \2 \1/p; s/.*<\/class-decl>.*/end/p" "$1" |
    awk '$1 == "struct" {name = $2} $1 == "end" {name = ""} $1 == "offset" {offset = $2}
         $1 == "field" && name != "" {print name, offset, $2, $3}'
}
members "$baseline" >"$work/old"
members "$work/now.abi" >"$work/new"
[ -s "$work/old" ] || { echo "no fields in $baseline"; exit 1; }
: >"$work/allowed"
while read -r name; do
  count=$(grep -c "^$name " "$work/old")
  # What was there is there in the same place; what is new comes after it.
  if diff <(grep "^$name " "$work/old") <(grep "^$name " "$work/new" | head -n "$count") >"$work/changed"; then
    printf '[suppress_type]\n  name = %s\n' "$name" >>"$work/allowed"
  else
    cat "$work/changed"
  fi
done < <(awk '$1 ~ /_(options|filter|operands)$/ {print $1}' "$work/old" | sort -u)
abidiff --suppr "$work/allowed" --no-added-syms "$baseline" "$work/now.abi" && exit 0
echo "FAILED: programs built with the header of this version would not fit: give a new version, then --write" >&2
exit 1
