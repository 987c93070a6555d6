#!/usr/bin/env bash
# scripts.sh FOLDER: each script in FOLDER says its usage for --help, with status 0, and for a word that it does not
# know, with status 2, from any folder and before it does anything.
set -u
folder=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# A script that goes on installs and builds nothing here.
for program in apt-get sudo cmake; do
  mkdir -p bin
  printf '#!/bin/sh\ntouch "%s/%s"\nexit 1\n' "$work" "$program" >"bin/$program"
  chmod +x "bin/$program"
done
PATH=$work/bin:$PATH
failures=0

# says WORD STATUS SCRIPT
says() {
  local said status=0
  said=$(timeout 60 "$3" "$1" 2>&1 </dev/null) || status=$?
  if [ $status != "$2" ] || [[ $said != *"$(basename "$3")"* ]] || [ "$(ls)" != bin ]; then
    echo "FAIL $(basename "$3") $1: status $status, not $2; it said: ${said:0:300}"
    failures=$((failures + 1))
    rm -f apt-get sudo cmake
  fi
}

count=0
for script in "$folder"/*; do
  [[ -f $script && -x $script ]] || continue
  count=$((count + 1))
  says --help 0 "$script"
  says --no-such-word 2 "$script"
done
echo "$count scripts, $failures failures"
[ $failures = 0 ] && [ $count -gt 0 ]
