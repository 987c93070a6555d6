#!/usr/bin/env bash
# test_symbols.sh LIBRARY HEADER: the shared library exports what the header declares, no more and
# no less. test_symbols.sh MODULE: a module exports its entry alone.
set -euo pipefail

exported=$(nm -D --defined-only "$1" | awk '$2 ~ /[A-Za-z]/ {print $NF}' | sed 's/@.*//' | sort -u)
if [ $# -gt 1 ]; then
  wanted=$(awk '/^MMC_API /, /;/' "$2" | grep -oE 'mmc_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u)
else
  wanted=mmci_module_entry
fi
[ -n "$wanted" ] || { echo "no declarations found in $2"; exit 1; }
diff <(echo "$wanted") <(echo "$exported") && exit 0
echo "FAILED: '<' is declared and not exported, '>' is exported and not declared" >&2
exit 1
