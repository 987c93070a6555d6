#!/usr/bin/env bash
# test_install.sh BUILD VERSION EXPECTED: installs BUILD into a prefix of its own and uses what lies
# there as others would: the command, the libraries through pkg-config and through find_package, the
# header from C++. EXPECTED is what examples/hello.c prints.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$1
version=$2
hello_expected=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cc=${CC:-cc}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# expect FILE COMMAND...: the command prints what is in FILE.
expect() {
  local wanted=$1
  shift
  "$here/test_output.sh" "$wanted" "$@" >&2 || fail "$* fails or prints something else"
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || fail "cmake --install"

echo "the command runs from the prefix"
env -u LD_LIBRARY_PATH "$prefix/bin/mmchain" --version >"$work/printed"
grep -qwF "$version" "$work/printed" || fail "mmchain --version prints $(cat "$work/printed")"

echo "a moved prefix still works"
mv "$prefix" "$work/moved"
prefix=$work/moved
"$prefix/bin/mmchain" --version >/dev/null || fail "the command does not run when moved"
modules=$(dirname "$(find "$prefix" -name libmmchain.so)")/mmchain
mkdir -p "$modules"
[ -e "$modules/mmchain-cuda.so" ] || touch "$modules/mmchain-cuda.so"
if env -u MMCHAIN_MODULE_DIR "$prefix/bin/mmchain" info | grep -q "needs the module"; then
  env -u MMCHAIN_MODULE_DIR "$prefix/bin/mmchain" info | grep -qF "($modules/mmchain-cuda.so: file too short" ||
    fail "the module is not looked for beside the library"
fi
[ -f "$prefix/include/mmchain.h" ] || fail "no mmchain.h"
[ "$(find "$prefix/include" -type f | wc -l)" = 1 ] || fail "more than one header"

echo "links of installed pages lead to what is installed"
docs=$(dirname "$(find "$prefix" -name CHANGELOG.md)")
links=$(grep -roE --include='*.md' '\]\([^)#: ]+' "$docs" | sed 's/](//')
[ "$(wc -l <<<"$links")" -ge 100 ] || fail "few links are in the installed pages: $links"
while IFS=: read -r page link; do
  [ -e "$(dirname "$page")/$link" ] || fail "$page: $link is not installed"
done <<<"$links"
# Pages have names of their own, so that page#anchor says a heading.
grep -roE --include='*.md' '^#+ .*' "$docs" | sed -E 's|.*/([^/:]*\.md):#+ |\1#|; s/.*/\L&/' |
  sed -E 's/ /-/g; :again; s/(#.*)[^[:alnum:]_-]/\1/; t again' | sort -u >"$work/headings"
grep -roE --include='*.md' '\]\([^)#: ]*#[^) ]+' "$docs" |
  sed -E 's|.*/([^/:]*\.md):\]\(#|\1#|; s|.*/([^/:]*\.md):\]\(||; s|.*/||; s/.*/\L&/' | sort -u >"$work/anchors"
dead=$(comm -13 "$work/headings" "$work/anchors")
[ -z "$dead" ] || fail "no heading is called $dead"

pc=$(find "$prefix" -name mmchain.pc)
libdir=$(cd "$(dirname "$pc")/.." && pwd)
export PKG_CONFIG_PATH=$libdir/pkgconfig
[ "$(pkg-config --modversion mmchain)" = "$version" ] || fail "pkg-config --modversion"

echo "pkg-config, shared"
# shellcheck disable=SC2046 # flags are words
$cc -std=c17 -Wall -Wextra -Wpedantic -Werror "$source/examples/hello.c" -o "$work/hello_shared" \
  $(pkg-config --cflags --libs mmchain)
expect "$hello_expected" env LD_LIBRARY_PATH="$libdir" "$work/hello_shared"

echo "pkg-config, static"
# shellcheck disable=SC2046
$cc -std=c17 "$source/examples/hello.c" -o "$work/hello_static" $(pkg-config --cflags mmchain) \
  $(pkg-config --static --libs mmchain | sed 's/-lmmchain/-l:libmmchain.a/')
expect "$hello_expected" env -u LD_LIBRARY_PATH "$work/hello_static"

echo "find_package, shared and static, C and C++"
cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DWANTED_VERSION="${version%.*}" -DEXAMPLE="$source/examples/hello.c" >"$work/consumer.log" 2>&1 ||
  { cat "$work/consumer.log" >&2; fail "the consumer does not configure"; }
cmake --build "$work/consumer" >"$work/consumer.log" 2>&1 ||
  { cat "$work/consumer.log" >&2; fail "the consumer does not build"; }
for program in hello_shared hello_static; do
  expect "$hello_expected" "$work/consumer/$program"
done
echo "$version" >"$work/version"
expect "$work/version" "$work/consumer/header_cxx"

echo "find_package, static, a project of C++ alone"
mkdir "$work/cxx"
cat >"$work/cxx/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(cxx LANGUAGES CXX)
find_package(mmchain REQUIRED COMPONENTS static)
add_executable(header_static "$here/header.cpp")
target_compile_features(header_static PRIVATE cxx_std_17)
target_link_libraries(header_static PRIVATE mmchain::mmchain_static)
EOF
{ cmake -S "$work/cxx" -B "$work/cxx/build" -DCMAKE_PREFIX_PATH="$prefix" &&
  cmake --build "$work/cxx/build"; } >"$work/cxx.log" 2>&1 ||
  { cat "$work/cxx.log" >&2; fail "a consumer of C++ alone is not built"; }
expect "$work/version" "$work/cxx/build/header_static"

echo "find_package, shared, a project of neither"
mkdir "$work/neither"
cat >"$work/neither/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(neither LANGUAGES NONE)
find_package(mmchain REQUIRED)
EOF
cmake -S "$work/neither" -B "$work/neither/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/neither.log" 2>&1 ||
  { cat "$work/neither.log" >&2; fail "a consumer of neither C nor C++ does not configure"; }
