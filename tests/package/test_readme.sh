#!/usr/bin/env bash
# test_readme.sh MMCHAIN README: what the README shows of `mmchain plan` is what it prints, and the
# commands of its tour work one after the other in an empty folder, but for those that measure or need
# a GPU. The large matrices are multiplied with MMCHAIN_TEST_LONG=1.
set -euo pipefail

mmchain=$(realpath "$1")
readme=$(realpath "$2")
command=$(sed -n 's/^\$ mmchain \(plan [^ ]*\)$/\1/p' "$readme")
shown=$(sed -n "/^\\$ mmchain $command\$/,/^\`\`\`/p" "$readme" | sed '1d;$d')
[ -n "$shown" ] || { echo "FAILED: $readme shows no plan" >&2; exit 1; }
# shellcheck disable=SC2086
diff <(echo "$shown") <("$mmchain" $command)

# Options of the build that are not for its developers alone.
options=$(grep -oE '^(option\(MMC_[A-Z_]+|set\(MMC_[A-Z_]+ .* CACHE)' "$(dirname "$readme")/CMakeLists.txt" |
  grep -oE 'MMC_[A-Z_]+' | grep -vE 'DEVELOPER|FEW_SIDES|SANITIZE|FUZZ')
[ "$(wc -w <<<"$options")" -ge 8 ] || { echo "FAILED: only these options were found: $options" >&2; exit 1; }
for option in $options; do
  grep -qF "$option" "$readme" || { echo "FAILED: $readme does not tell $option" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/docs"
ln -s "$mmchain" "$work/bin/mmchain"
export PATH=$work/bin:$PATH
cd "$work"
left_out='--on cuda|mmchain (bench|tune|report)'
[ -n "${MMCHAIN_TEST_LONG:-}" ] || left_out+='|factors'
mapfile -t tour < <(sed -n 's/^\$ \(.*\)/\1/p' "$readme" | grep -vE -- "$left_out")
[ ${#tour[@]} -ge 8 ] || { echo "FAILED: a tour of ${#tour[@]} commands" >&2; exit 1; }
for line in "${tour[@]}"; do
  case $line in
  *.mat*) "$mmchain" info | grep -qE '^ +matlab .* here ' || continue ;;
  esac
  bash -c "$line" >said 2>&1 || { echo "FAILED: $line"; cat said; exit 1; } >&2
done
echo "${#tour[@]} commands of the tour"

# Those of other pages, in the same folder; one that says that it is an error has status 2.
count=0
for page in integers reproducible; do
  while IFS= read -r line; do
    wanted=0
    case $line in *'# an error'*) wanted=2 ;; esac
    status=0
    bash -c "$line" >said 2>&1 || status=$?
    [ $status = $wanted ] || { echo "FAILED: $page.md: $line: status $status"; cat said; exit 1; } >&2
    count=$((count + 1))
  done < <(sed -n 's/^    \(mmchain .*\)/\1/p' "$(dirname "$readme")/docs/$page.md" | grep -vE -- "$left_out")
done
[ $count -ge 4 ] || { echo "FAILED: $count commands of other pages" >&2; exit 1; }
echo "$count commands of other pages"
