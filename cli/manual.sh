#!/bin/sh
# manual.sh MMCHAIN HEADER FOLDER: writes what is installed beside the command, from what it says of
# itself with --help: manual pages of it and of each of its commands, and completions for bash, zsh
# and fish; and a manual page of the library from HEADER.
#
# The build runs it, so that text stands in one place. The form of --help is what is relied upon:
# usage, paragraphs, and terms that are indented by two spaces with their text beside or below them.
set -eu
export LC_ALL=C
mmchain=$1
header=$2
folder=$3
mkdir -p "$folder/man1" "$folder/man3"
version=$("$mmchain" --version | awk '{print $2}')
seconds=${SOURCE_DATE_EPOCH:-$(date +%s)}
day=$(date -u -d "@$seconds" '+%B %-d, %Y' 2>/dev/null || date -u '+%B %d, %Y')
commands=$("$mmchain" --help | awk '/^  [a-z]+ / {print $1} /^A chain/ {exit}')
# help_of COMMAND: what it says of itself; bench tells of its experiments apart.
help_of() {
  "$mmchain" "$1" --help
  [ "$1" != bench ] || "$mmchain" bench --experiment help | sed 1d
}
summary() { "$mmchain" --help | awk -v name="$1" '$1 == name {sub(/^ *[a-z]+ +/, ""); print; exit}'; }

# Awk functions of both kinds of pages: text as mdoc takes it, without a backslash, a line that begins
# like a macro, a second sentence in a line, or a line of more than 80 characters.
# shellcheck disable=SC2016 # awk expands it
text_functions='
  function plain(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/\(\)/, "\\\\\\&()", text)
    sub(/ +$/, "", text)
    return text ~ /^[.\047]/ ? "\\&" text : text
  }
  function add(text) { words = words (words == "" ? "" : " ") text }
  function flush(   count, word, w, line) {
    count = split(words, word, / +/)
    line = ""
    for (w = 1; w <= count; w++) {
      if (line != "" && (length(plain(line " " word[w])) > 78 || line ~ /[.!?][)\047"]?$/)) {
        print plain(line)
        line = ""
      }
      line = line (line == "" ? "" : " ") word[w]
    }
    if (line != "") print plain(line)
    words = ""
  }'

# ---- manual pages ----------------------------------------------------------------------------

# page NAME TITLE SUMMARY: the manual page of the --help on standard input.
page() {
  awk -v name="$1" -v title="$2" -v summary="$3" -v version="$version" -v day="$day" \
    -v commands="$(echo "$commands" | sort)" "$text_functions"'
    function close_list() {
      flush()
      if (listing) print ".El"
      listing = 0
    }
    function paragraph() {
      flush()
      if (pending) print ".Pp"
      pending = 0
    }
    BEGIN {
      printf ".Dd %s\n.Dt %s 1\n.Os mmchain %s\n.Sh NAME\n.Nm %s\n.Nd %s\n.Sh SYNOPSIS\n", day,
        title, version, name, plain(summary)
      print ".Bd -literal -compact"
    }
    /^usage: / || (usage && /^  +mmchain /) {
      sub(/^(usage:)? +/, "")
      print plain($0)
      usage = 1
      next
    }
    usage {
      print ".Ed\n.Sh DESCRIPTION"
      usage = 0
      fresh = 1
      next
    }
    # A term and its text are two spaces apart; a term too long stands alone.
    /^  [^ ]/ {
      line = substr($0, 3)
      at = match(line, /  +/)
      term = at ? substr(line, 1, at - 1) : line
      text = at ? substr(line, at + RLENGTH) : ""
      if (!at && match(line, /^(-[^ ]* [A-Z]+|[^- ][^ ]*) [a-z]/)) {
        term = substr(line, 1, RLENGTH - 2)
        text = substr(line, RLENGTH)
      }
      flush()
      if (!listing) print ".Bl -tag -width Ds"
      listing = 1
      pending = fresh = 0
      print ".It " plain(term)
      if (text != "") add(text)
      next
    }
    /^   +/ && listing { sub(/^ +/, ""); add($0); next }
    /^$/ { close_list(); pending = !fresh; next }
    {
      if (listing) {
        close_list()
        pending = 1
      }
      if (pending) paragraph()
      fresh = 0
      add($0)
    }
    END {
      close_list()
      print ".Sh SEE ALSO"
      count = split(commands, other, "\n")
      if (name != "mmchain") print ".Xr mmchain 1 ,"
      for (c = 1; c <= count; c++)
        if ("mmchain-" other[c] != name) print ".Xr mmchain-" other[c] " 1 ,"
      print ".Xr mmchain 3"
    }'
}

"$mmchain" --help | page mmchain MMCHAIN "multiply a chain of matrices in the cheapest order" \
  >"$folder/man1/mmchain.1"
for command in $commands; do
  title=$(echo "mmchain-$command" | tr '[:lower:]' '[:upper:]')
  help_of "$command" | page "mmchain-$command" "$title" "$(summary "$command")" \
    >"$folder/man1/mmchain-$command.1"
done

# The header is the manual of the library: its comments, with the declarations that they are about.
awk -v version="$version" -v day="$day" "$text_functions"'
  # Lines that are indented stay as they are, and what has a word and a colon before such.
  function stays(lines, l) {
    return lines[l] ~ /^ +[^ ]|[^.!?]  +[^ ]/ || (lines[l] ~ /^[A-Za-z]+: / && lines[l + 1] ~ /^ +[^ ]/)
  }
  function tell(   lines, count, l, kept) {
    count = split(comment, lines, "\n")
    for (l = 1; l <= count; l++) {
      if (stays(lines, l) && !kept) {
        flush()
        print ".Bd -literal"
        kept = 1
      }
      if (kept && !stays(lines, l)) {
        print ".Ed"
        kept = 0
      }
      if (kept) print plain(lines[l])
      else if (lines[l] != "") add(lines[l])
      else if (l < count) {
        flush()
        print ".Pp"
      }
    }
    flush()
    if (kept) print ".Ed"
    comment = ""
  }
  function literal() { if (!coding) print ".Bd -literal"; coding = 1 }
  function text() { if (coding) print ".Ed"; if (coding) print ".Pp"; coding = 0 }
  BEGIN {
    printf ".Dd %s\n.Dt MMCHAIN 3\n.Os mmchain %s\n.Sh NAME\n.Nm mmchain\n", day, version
    print ".Nd library that multiplies a chain of matrices in the cheapest order"
    print ".Sh LIBRARY\nlibmmchain (\\-lmmchain)\n.Sh SYNOPSIS\n.In mmchain.h\n.Sh DESCRIPTION"
  }
  /^#ifndef MMC_API/ { skip = 1 }
  /^#endif/ { skip = 0; next }
  skip || /^#(ifdef|ifndef|include|endif|undef|define MMCHAIN_H)/ || /^extern "C"/ || /^}$/ && !open_type { next }
  /^\/\* ---- / {
    text()
    name = $3
    for (f = 4; f <= NF && $f !~ /^-+$/; f++) name = name " " $f
    print ".Ss " plain(name)
    next
  }
  # A comment of its own.
  /^\/\*/ || in_comment {
    line = $0
    in_comment = line !~ /\*\/$/
    sub(/ ?\*\/$/, "", line)
    sub(/^ ?\/?\*+ ?/, "", line)
    comment = comment (comment == "" ? "" : "\n") line
    if (!in_comment) {
      text()
      tell()
    }
    next
  }
  /^$/ { next }
  {
    literal()
    line = $0
    sub(/^MMC_API /, "", line)
    print plain(line)
    open_type = (open_type || $0 ~ /\{$/) && $0 !~ /^}/
  }
  END { text(); print ".Sh SEE ALSO\n.Xr mmchain 1" }' "$header" |
  awk '
    NF == 0 || ($0 == ".Pp" && held) { next }
    $0 == ".Pp" { held = 1; next }
    held && !/^\.(Bd|Ss|Sh)/ && !fresh { print ".Pp" }
    { print; held = 0; fresh = /^\.(Ss|Sh)/ }' >"$folder/man3/mmchain.3"

# ---- completions -----------------------------------------------------------------------------

# options COMMAND: its options, one a line: the name, a tab, the word that its argument has, or -, a tab,
# and the beginning of what it is about.
options() {
  help_of "$1" | awk '
    # Up to the first colon, semicolon or full stop that is in no parentheses.
    function beginning(text,   c, open, letter) {
      for (c = 1; c <= length(text); c++) {
        letter = substr(text, c, 1)
        open += (letter == "(") - (letter == ")")
        if (!open && substr(text, c) ~ /^[;.:]( |$)/) return substr(text, 1, c - 1)
      }
      return text
    }
    function flush(   count, each, f) {
      if (names == "") return
      text = beginning(text)
      count = split(names, each, /, /)
      for (f = 1; f <= count; f++)
        if (!told[each[f]]++) print each[f] "\t" (argument == "" ? "-" : argument) "\t" text
      names = ""
    }
    # Options that stand in the usage alone.
    /^(usage:|      ) mmchain / {
      for (f = 3; f < NF; f++) if ($f ~ /^--/) alone[$f] = $(f + 1)
      next
    }
    /^  -/ {
      flush()
      text = substr($0, 3)
      match(text, /^-[^ ,]*(, -[^ ]*)?/)
      names = substr(text, 1, RLENGTH)
      text = substr(text, RLENGTH + 1)
      argument = ""
      if (match(text, /^ [A-Z][A-Za-z.]*( \.\.\.)?/)) {
        argument = substr(text, 2, RLENGTH - 1)
        sub(/ .*/, "", argument)
        text = substr(text, RLENGTH + 1)
      }
      sub(/^ +/, "", text)
      listed[names] = 1
      next
    }
    names != "" && /^       / { sub(/^ +/, ""); text = text (text == "" ? "" : " ") $0; next }
    { flush() }
    END {
      flush()
      for (name in alone) if (!(name in listed)) print name "\t" alone[name] "\t"
    }'
}
# values COMMAND OPTION: the words that may follow it, where they are few; nothing for files and numbers.
values() {
  case $1:$2 in
  plan:--on | multiply:--on | tune:--on) echo cpu blas ref cuda scalapack ;;
  order:--on) echo cpu cuda ;;
  wisdom:--on) echo blas ref cuda ;;
  *:--on) echo cpu blas ref cuda ;;
  plan:--for | multiply:--for) echo flops traffic time energy words ;;
  *:--for) echo time energy ;;
  *:--precision) echo native faithful fast ;;
  *:--solver) echo auto hu-shing table brute left-to-right ;;
  *:--semiring) echo max-plus min-plus log or-and ;;
  *:--fuse) echo exact none poster joint ;;
  *:--kernel) echo auto avx512 avx2 portable tiled thread block blocks paper ;;
  *:--location) echo device host ;;
  bench:--dtype) echo f32 f64 c64 c128 f16 bf16 i8 i64 u8 u64 bool ;;
  *:--dtype) echo f32 f64 c64 c128 f16 bf16 ;;
  *:--ops) echo NN NT TN TT ;;
  *:--meter) echo rapl nvml ;;
  bench:--experiment) echo tee-acm2 us9836434 nishida-2011 ;;
  esac
}
# first_words COMMAND: what comes first behind it, where that is no file and no chain.
first_words() {
  case $1 in
  wisdom) echo show export import forget ;;
  help) echo "$names" ;;
  esac
}
# What may follow a colon behind the name of a file.
factor_words='T H N each inv lower upper unit diagonal symmetric hermitian spd tridiagonal orthogonal permutation identity zero'
of_factors='plan multiply bench report'
names=$(echo "$commands" | tr '\n' ' ' | sed 's/ $//')
quoted() { sed "s/'/'\\\\''/g"; }

{
  echo "# bash completion of mmchain; made from mmchain --help."
  echo '_mmchain() {'
  # What is printed is expanded later. Bash takes a colon as a word.
  cat <<'END'
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= file=
  local command=${COMP_WORDS[1]}
  if [ "$word" = : ] || [ "$before" = : ]; then
    [ "$word" != : ] || { word=; file=$before; }
    [ -n "$file" ] || file=${COMP_WORDS[COMP_CWORD-2]}
    case $command:$file in
END
  echo "    *:cuda) words='all 0 1' ;;"
  for command in $of_factors; do echo "    $command:*.*) words='$factor_words' ;;"; done
  # shellcheck disable=SC2016
  echo '    esac
  elif [ "$COMP_CWORD" = 1 ]; then'
  echo "    words='$names help --help --version'"
  echo '  else'
  # shellcheck disable=SC2016
  echo '    case $command:$before in'
  for command in $commands; do
    options "$command" | while IFS="$(printf '\t')" read -r option argument text; do
      words=$(values "$command" "$option")
      [ -z "$words" ] || echo "    $command:$option) words='$words' ;;"
    done
  done
  for command in wisdom help; do echo "    $command:$command) words='$(first_words $command)' ;;"; done
  echo '    esac'
  # shellcheck disable=SC2016
  echo '    case $command:$word in'
  for command in $commands; do
    echo "    $command:-*) words='$(options "$command" | cut -f 1 | tr '\n' ' ')' ;;"
  done
  echo '    esac'
  echo '  fi'
  # shellcheck disable=SC2016
  echo '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
  echo '}'
  echo 'complete -o default -F _mmchain mmchain'
} >"$folder/mmchain.bash"

# argument_of COMMAND OPTION ARGUMENT: its part of a specification of zsh.
argument_of() {
  words=$(values "$1" "$2")
  [ "$1:$2" = order:--on ] || [ "$2" != --on ] || words="$words cuda\\:all"
  case $3 in
  -) ;;
  FILE* | I.npy | *.csv) echo ":$3:_files" ;;
  DIR) echo ":$3:_files -/" ;;
  *) echo ":$3:${words:+($words)}" ;;
  esac
}

{
  echo '#compdef mmchain'
  echo '# zsh completion of mmchain; made from mmchain --help.'
  echo 'local -a commands'
  echo 'commands=('
  for command in $commands; do echo "  '$command:$(summary "$command" | quoted)'"; done
  echo "  'help:the help of a command'"
  echo ')'
  echo 'if (( CURRENT == 2 )); then'
  echo '  _describe command commands'
  echo '  return'
  echo 'fi'
  echo '# A file, or behind a colon what its matrix is.'
  echo '_mmchain_factor() {'
  echo "  if compset -P '*:'; then compadd -- $factor_words; else _files; fi"
  echo '}'
  # shellcheck disable=SC2016
  echo 'case $words[2] in'
  for command in $commands; do
    echo "$command) _arguments -s \\"
    options "$command" | while IFS="$(printf '\t')" read -r option argument text; do
      joint=
      [ "$argument" = - ] || case $option in
      --*) joint='=' ;;
      *) joint='+' ;;
      esac
      text=$(echo "$text" | quoted | sed 's/[][]/\\&/g')
      echo "  '*$option${joint}[$text]$(argument_of "$command" "$option" "$argument")' \\"
    done
    [ -z "$(first_words "$command")" ] || echo "  '2:word:($(first_words "$command"))' \\"
    rest=_files
    case " $of_factors " in *" $command "*) rest=_mmchain_factor ;; esac
    echo "  '*:file:$rest' ;;"
  done
  echo 'help) _describe command commands ;;'
  echo 'esac'
} >"$folder/_mmchain"

{
  echo '# fish completion of mmchain; made from mmchain --help.'
  echo 'function __mmchain_factor'
  # shellcheck disable=SC2016
  echo '  set -l word (commandline -ct)
  string match -q "*:*" -- $word; or return
  set -l file (string replace -r ":[^:]*\$" ":" -- $word)'
  printf "  printf '%%s\\\\n' \$file{%s}\n" "$(echo "$factor_words" | tr ' ' ',')"
  echo 'end'
  echo "complete -c mmchain -n __fish_use_subcommand -f -l help -d 'what there is'"
  echo "complete -c mmchain -n __fish_use_subcommand -f -l version -d 'which one this is'"
  echo "complete -c mmchain -n __fish_use_subcommand -f -a help -d 'the help of a command'"
  for command in $commands help; do
    when="-n '__fish_seen_subcommand_from $command'"
    [ -z "$(first_words "$command")" ] || echo "complete -c mmchain $when -f -a '$(first_words "$command")'"
    case " $of_factors " in *" $command "*) echo "complete -c mmchain $when -a '(__mmchain_factor)'" ;; esac
    [ "$command" != help ] || continue
    echo "complete -c mmchain -n __fish_use_subcommand -f -a $command -d '$(summary "$command" | sed "s/['\\\\]/\\\\&/g")'"
    options "$command" | while IFS="$(printf '\t')" read -r option argument text; do
      words=$(values "$command" "$option")
      [ "$command:$option" = order:--on ] || [ "$option" != --on ] || words="$words cuda:all"
      case $option in
      --*) kind="-l ${option#--}" ;;
      *) kind="-s ${option#-}" ;;
      esac
      case $argument in
      -) ;;
      FILE* | I.npy | *.csv | DIR) kind="$kind -r -F" ;;
      *) kind="$kind -x${words:+ -a '$words'}" ;;
      esac
      echo "complete -c mmchain $when $kind -d '$(echo "$text" | sed "s/['\\\\]/\\\\&/g")'"
    done
  done
} >"$folder/mmchain.fish"
