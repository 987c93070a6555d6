#!/usr/bin/env bash
# test_manual.sh MMCHAIN SHARE: the manual pages and completions in SHARE say what the command says of
# itself, every option of every command; mandoc has nothing to say of the pages, and the shells that
# are here can read the completions. Exits 77 without mandoc.
set -euo pipefail

mmchain=$1
share=$2
failures=0
fail() {
  echo "FAIL $*"
  failures=$((failures + 1))
}

commands=$("$mmchain" --help | awk '/^  [a-z]+ / {print $1} /^A chain/ {exit}')
[ "$(wc -w <<<"$commands")" -ge 8 ] || fail "only these commands were found: $commands"
# shellcheck disable=SC2016 # the completion expands it
completed() {
  bash -c '. "$0"; COMP_WORDS=(mmchain "$@"); COMP_CWORD=$#; _mmchain; printf "%s\n" "${COMPREPLY[@]}"' \
    "$share/mmchain.bash" "$@"
}
for command in $commands; do
  page=$share/man1/mmchain-$command.1
  help=$("$mmchain" "$command" --help)
  [ "$command" != bench ] || help+=$'\n'$("$mmchain" bench --experiment help)
  options=$(grep -oE '^  -[^ ,]+(, --[a-z-]+)?' <<<"$help" | tr -d ' ' | tr ',' '\n')
  proposed=$(completed "$command" -)
  [ -n "$options" ] || fail "$command: no options were found"
  for option in $options; do
    grep -qF -- "${option//-/\\-}" "$page" || fail "$page: no $option"
    grep -qxF -- "$option" <<<"$proposed" || fail "bash: $command has no $option"
    grep -qE -- "'\*${option}[=+]?\[" "$share/_mmchain" || fail "zsh: no $option"
    grep -qE -- "from $command' -[ls] ${option##*-}|from $command' -l ${option#--} " "$share/mmchain.fish" ||
      fail "fish: $command has no $option"
  done
done
[ "$(completed pl)" = plan ] || fail "bash: pl is not completed"
[ "$(completed plan --solver hu)" = hu-shing ] || fail "bash: hu is not completed"
[ "$(completed multiply A.npy : tri)" = tridiagonal ] || fail "bash: what a factor is is not completed"
[ "$(completed multiply A.npy :T B.npy : | wc -l)" -gt 12 ] || fail "bash: nothing is proposed behind a colon"
[ "$(completed plan --on cuda : a)" = all ] || fail "bash: cuda:all is not completed"
[ "$(completed multiply --for w)" = words ] || fail "bash: words, which ranks send, is not completed"
[ "$(completed wisdom ex)" = export ] || fail "bash: what wisdom does is not completed"
if command -v fish >/dev/null; then
  [ "$(fish --no-config -c "source $share/mmchain.fish; complete -C 'mmchain scan --semiring o'" | cut -f 1)" = or-and ] ||
    fail "fish: or-and is not completed"
fi
# The words that completions propose stand in --help, but for pairs of ops and for experiments.
helps=$(for command in $commands; do "$mmchain" "$command" --help; done; "$mmchain" info)
proposals=$(sed -n "/:--ops)\|:--experiment)/d; s/^    [a-z]*:--[a-z]*) words='\(.*\)' ;;/\1/p" "$share/mmchain.bash")
[ "$(wc -w <<<"$proposals")" -gt 20 ] || fail "few words are proposed: $proposals"
for word in $proposals; do
  grep -wqF -- "$word" <<<"$helps" || fail "$word: --help does not know it"
done
# The variables that the library reads.
variables=$(grep -rhoE '"MMCHAIN_[A-Z_]+"' "$(dirname "$0")/../../src" | tr -d '"' | sort -u)
[ "$(wc -w <<<"$variables")" -ge 4 ] || fail "only these variables were found: $variables"
for variable in $variables; do
  grep -qF ".It $variable" "$share/man1/mmchain.1" || fail "mmchain.1: no $variable"
done
functions=$(awk '/^MMC_API /, /;/' "$(dirname "$0")/../../include/mmchain.h" | grep -oE 'mmc_[a-z0-9_]+ *\(')
for function in $functions; do
  grep -qF "${function%(}(" "$share/man3/mmchain.3" || fail "mmchain.3: no $function"
done

# What goes on in an indented line is in one piece with it.
awk '/^Returns: E_ARG, E_NOMEM, E_OVERFLOW \(fewest/ {first = NR} /^ +E_DEVICE, E_INTERRUPTED\.$/ && NR == first + 1 {found = 1}
  END {exit !found}' "$share/man3/mmchain.3" || fail "mmchain.3: what mmc_order_create() returns is torn apart"

version=$("$mmchain" --version | awk '{print $2}')
grep -qxF "version: $version" "$(dirname "$0")/../../CITATION.cff" || fail "CITATION.cff is of another version than $version"

bash -n "$share/mmchain.bash" || fail "bash cannot read its completion"
if command -v zsh >/dev/null; then zsh -n "$share/_mmchain" || fail "zsh cannot read its completion"; fi
if command -v fish >/dev/null; then fish -n "$share/mmchain.fish" || fail "fish cannot read its completion"; fi
if command -v mandoc >/dev/null; then
  for page in "$share"/man*/*; do
    # The other pages are not installed here.
    said=$(mandoc -T lint -W style "$page" | grep -v 'referenced manual not found' || true)
    [ -z "$said" ] || fail "$said"
  done
fi
[ $failures = 0 ] || exit 1
command -v mandoc >/dev/null || { echo "no mandoc: the pages were not checked by it"; exit 77; }
