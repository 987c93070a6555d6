#!/usr/bin/env bash
# test_picture.sh MMCHAIN SOURCE: docs/plan.svg is what the command in the README draws.
set -euo pipefail

command=$(sed -n 's/^\$ mmchain \(plan .*\) --svg docs\/plan.svg$/\1/p' "$2/README.md")
[ -n "$command" ] || { echo "FAILED: README.md does not say how docs/plan.svg is drawn" >&2; exit 1; }
grep -q '](docs/plan.svg)' "$2/README.md" || { echo "FAILED: README.md does not show docs/plan.svg" >&2; exit 1; }
# shellcheck disable=SC2086
MMCHAIN_WISDOM= "$1" $command --svg - | diff "$2/docs/plan.svg" -
