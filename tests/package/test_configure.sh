#!/usr/bin/env bash
# test_configure.sh CMAKE SOURCE: CMake configures where optional libraries are missing. A pkg-config that
# does not know them stands for a machine that lacks them: cmocka, which users lack, and then all.
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
