#!/usr/bin/env bash
# pblas.sh: the testers of PBLAS that the distribution has (Debian: scalapack-mpi-test,
# scalapack-test-common) on 4 ranks, with the ScaLAPACK that mmchain loads: that of the system, or
# what MMCHAIN_SCALAPACK names, which is preloaded. Matrix products in double; with
# MMCHAIN_TEST_LONG all levels and types. Exits with 77 where they are not installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
testers=$(echo /usr/lib/*/scalapack/openmpi-tests/PBLAS) data=/usr/share/scalapack/PBLAS
if [ ! -d "$testers" ] || [ ! -d "$data" ] || ! command -v mpirun >/dev/null; then
  echo "no testers of PBLAS (Debian: scalapack-mpi-test scalapack-test-common openmpi-bin)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$data"/*.dat "$work"
cd "$work"
wanted="dpb3tst"
[ -z "${MMCHAIN_TEST_LONG:-}" ] || wanted=$(cd "$testers" && echo ?pb?tst)
preload=()
[ -z "${MMCHAIN_SCALAPACK:-}" ] || preload=(-x "LD_PRELOAD=$MMCHAIN_SCALAPACK")
failures=0
for tester in $wanted; do
  if ! timeout 300 bash "$here/run.sh" 4 "${preload[@]}" "$testers/$tester" >said 2>&1; then
    echo "FAILED: $tester ended badly"
    tail -5 said
    failures=$((failures + 1))
    continue
  fi
  # The summary: name, tests, passed, failed, skipped.
  awk -v tester="$tester" '
    /TOTAL TESTS +PASSED +FAILED/ { in_summary = 1 }
    in_summary && $1 == "|" && NF == 6 && $3 ~ /^[0-9]+$/ { tests += $3; passed += $4; failed += $5 }
    END {
      printf "%s: %d tests, %d passed, %d failed\n", tester, tests, passed, failed
      exit !(passed > 0 && failed == 0)
    }' said || { failures=$((failures + 1)); tail -30 said; }
done
[ "$failures" -eq 0 ]
