#!/usr/bin/env bash
# test_output.sh FILE COMMAND...: the command succeeds and prints what is in FILE.
set -euo pipefail

wanted=$1
shift
"$@" | diff -u "$wanted" -
