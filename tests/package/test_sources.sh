#!/usr/bin/env bash
# test_sources.sh BUILD [FOLDER...]: every source in the tree is compiled by BUILD, so that no test
# is written and never run. What lies in a FOLDER is left out: it is not compiled here.
set -euo pipefail

commands=$(realpath "$1")/compile_commands.json
shift
cd "$(dirname "$0")/../.."
root=$(pwd -P)
left_out=(-path tests/package)
for folder in "$@"; do
  left_out+=(-o -path "$folder")
done

missing=$(comm -23 \
  <(find src cli wrapper bench examples python tests \( "${left_out[@]}" \) -prune -o -type f \
    \( -name '*.c' -o -name '*.cpp' -o -name '*.cu' \) -print | sed "s|^|$root/|" | LC_ALL=C sort) \
  <(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' "$commands" | LC_ALL=C sort -u))
[ -z "$missing" ] && exit 0
echo "$missing"
echo "FAILED: no target compiles these; list them in the CMakeLists.txt of their folder" >&2
exit 1
