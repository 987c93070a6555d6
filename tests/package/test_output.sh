#!/usr/bin/env bash
# test_output.sh FILE COMMAND...: the command succeeds and prints what is in FILE, but for what
# depends on the libraries that were found: the device, its kernels, what runs as one call.
set -euo pipefail

told() {
  sed -E '/^(workspace|device|calls) /d; s/ +(libxsmm|gemm|gemv|dot|loops) / kernel /'
}

wanted=$1
shift
"$@" | told | diff -u <(told <"$wanted") -
