#!/usr/bin/env bash
# test_readme.sh MMCHAIN README: what the README shows of `mmchain plan` is what it prints.
set -euo pipefail

command=$(sed -n 's/^\$ mmchain \(plan [^ ]*\)$/\1/p' "$2")
shown=$(sed -n "/^\\$ mmchain $command\$/,/^\`\`\`/p" "$2" | sed '1d;$d')
[ -n "$shown" ] || { echo "FAILED: $2 shows no plan" >&2; exit 1; }
# shellcheck disable=SC2086
diff <(echo "$shown") <("$1" $command)
