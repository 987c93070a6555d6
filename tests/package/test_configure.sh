#!/usr/bin/env bash
# test_configure.sh CMAKE SOURCE: CMake configures where optional libraries are missing. A pkg-config that
# does not know them stands for a machine that lacks them: cmocka, which users lack, and then all. Within
# another project it leaves that one's kind of build and its documents alone, and a wheel knows no folder of
# modules but those beside it.
set -euo pipefail

cmake=$1
source=$2
pkg_config=$(command -v pkg-config) || { echo "no pkg-config"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for hidden in cmocka '[a-z]'; do
  printf '#!/bin/sh\ncase " $*" in *" "%s*) exit 1 ;; esac\nexec "%s" "$@"\n' "$hidden" "$pkg_config" >"$work/pkg-config"
  chmod +x "$work/pkg-config"
  rm -rf "$work/build"
  said=$("$cmake" -S "$source" -B "$work/build" -DPKG_CONFIG_EXECUTABLE="$work/pkg-config" -DMMC_WITH_CUDA=OFF 2>&1) &&
    [[ $said =~ cmocka\ *none\ found ]] && continue
  echo "FAILED without $hidden: $said" >&2
  exit 1
done

cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C)
include(GNUInstallDirs)
add_subdirectory("$source" mmchain)
END
said=$("$cmake" -S "$work" -B "$work/parent" -G "Unix Makefiles" -DMMC_WITH_CUDA=OFF -DSKBUILD=2 2>&1) ||
  { echo "FAILED within another project: $said" >&2; exit 1; }
grep -qx 'CMAKE_BUILD_TYPE:STRING=' "$work/parent/CMakeCache.txt" || { echo "FAILED: the kind of build changed" >&2; exit 1; }
rules=$work/parent/mmchain/cmake_install.cmake
if grep -q 'share/doc/parent' "$rules" || ! grep -q 'share/doc/mmchain' "$rules"; then
  echo "FAILED: documents go to the other project's folder" >&2
  exit 1
fi
grep -qF 'MMCI_MODULE_DIR="";' "$work"/parent/mmchain/src/CMakeFiles/mmchain_base.dir/flags.make ||
  { echo "FAILED: a wheel knows where it was built" >&2; exit 1; }
