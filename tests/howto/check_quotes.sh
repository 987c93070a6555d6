#!/usr/bin/env bash
# check_quotes.sh: what docs/howto-*.md quotes of tests/howto is what stands there.
#
# A quotation is a fenced block after a line `From [FILE](../tests/howto/FILE):`; its lines stand in that file, one
# after the other, and a line "..." in it stands for any number of lines. What a block of diff leaves or takes away
# stands in the file that it changes. Exits 1 when a line does not, or when a page quotes nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

failures=0
for page in docs/howto-*.md; do
  awk -v page="$page" '
    function look(   i, at, line) {
      at = 1
      for (i = 1; i <= quoted; i++) {
        if (quote[i] == "...") { loose = 1; continue }
        found = 0
        for (; at <= lines; at++) {
          if (text[at] == quote[i]) { found = 1; at++; break }
          if (!loose && i > 1) break
        }
        loose = 0
        if (!found) {
          printf "%s:%d: %s has no such line here: %s\n", page, begin + i, file, quote[i]
          bad = 1
          return
        }
      }
    }
    /^```diff/ { changes = 1; next }
    changes && /^--- a\// {
      file = substr($0, 7)
      split("", there)
      while ((getline line < file) > 0) there[line]
      close(file)
      next
    }
    changes && /^[- ]/ && !(substr($0, 2) in there) {
      printf "%s:%d: %s has no such line: %s\n", page, NR, file, substr($0, 2)
      bad = 1
    }
    /^```/ && changes { changes = 0; next }
    match($0, /^From \[[^]]*\]\(\.\.\/tests\/howto\/[^)]*\):$/) {
      file = $0
      sub(/^[^(]*\(\.\.\//, "", file)
      sub(/\):$/, "", file)
      lines = 0
      while ((getline line < file) > 0) text[++lines] = line
      close(file)
      if (lines == 0) { printf "%s:%d: there is no %s\n", page, NR, file; bad = 1 }
      expected = 1
      next
    }
    /^```/ && inside { inside = 0; look(); next }
    /^```/ && expected { inside = 1; expected = 0; quoted = 0; begin = NR; loose = 0; quotations++; next }
    inside { quote[++quoted] = $0 }
    END {
      if (!quotations) { printf "%s: quotes nothing of tests/howto\n", page; bad = 1 }
      exit bad
    }' "$page" || failures=$((failures + 1))
done
[ $failures = 0 ]
