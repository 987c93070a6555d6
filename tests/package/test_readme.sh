#!/usr/bin/env bash
# test_readme.sh MMCHAIN README: what the README shows of `mmchain plan` is what it prints, and the
# commands of its tour and of the pages of docs/ work one after the other in an empty folder, but for
# those that measure or need a GPU. The large matrices are multiplied with MMCHAIN_TEST_LONG=1. Options
# of the command stand on some page, and those of pages are options of the command.
set -euo pipefail

mmchain=$(realpath "$1")
readme=$(realpath "$2")
docs=$(dirname "$readme")/docs
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

# Those of other pages, in the same folder, with files of the names that they have; one that says that
# it is an error has status 2.
for factor in X=50x10 y=50x1 T=8x8@9; do
  "$mmchain" generate "f64:${factor#*=}" -o "made_$factor" --no-sync >said
  ln -s "made_$factor/A1.npy" "${factor%=*}.npy"
done
printf '%%%%MatrixMarket matrix coordinate real general\n50 50 1\n1 1 1\n' >T.mtx
"$mmchain" multiply T.mtx -o S.npz --no-sync 2>said || left_out+='|S.npz'
left_out+='|model.npz'
count=0
while IFS= read -r line; do
  wanted=0
  case $line in *'# an error'*) wanted=2 ;; esac
  status=0
  bash -c "$line" >said 2>&1 || status=$?
  [ $status = $wanted ] || { echo "FAILED: docs/: $line: status $status"; cat said; exit 1; } >&2
  count=$((count + 1))
done < <(sed -n 's/^\(    \|\$ \|    \$ \)\(mmchain .*\)/\2/p' "$docs"/*.md | grep -vE -- "$left_out")
[ $count -ge 8 ] || { echo "FAILED: $count commands of other pages" >&2; exit 1; }
echo "$count commands of other pages"

# Every option of the command is named on some page, and those that pages give it are its own.
export LC_ALL=C
for command in $("$mmchain" --help | awk '/^  [a-z]+ / {print $1} /^A chain/ {exit}') "bench --experiment help"; do
  # shellcheck disable=SC2086
  "$mmchain" $command --help | grep -oE -- '--[a-z][a-z-]*' | sed "s/^/${command%% *} /"
done >options
grep -ohE "(mmchain |\`)[a-z]+ [^\`#|]*--[^\`#|]*" "$readme" "$docs"/*.md | sed -E 's/^(mmchain |`)//' |
  awk '{for (w = 2; w <= NF; w++) if (match($w, /^--[a-z-]+/)) print $1, substr($w, 1, RLENGTH)}' >given
unnamed=$(awk 'NR == FNR {named[$1]; next} !($2 in named)' \
  <(grep -ohE -- '--[a-z][a-z-]*' "$readme" "$docs"/*.md) options)
unknown=$(awk 'NR == FNR {known[$0]; commands[$1]; next} $1 in commands && !($0 in known)' options given)
[ -z "$unnamed" ] || { echo "FAILED: no page tells of $unnamed" >&2; exit 1; }
[ -z "$unknown" ] || { echo "FAILED: pages have options that no command has: $unknown" >&2; exit 1; }
