#!/usr/bin/env bash
# numpy.sh MMCHAIN: compares `mmchain multiply` with NumPy. Exits 77 when no python3 has NumPy.
for python in ${MMC_PYTHON:-python3 /usr/bin/python3}; do
  if "$python" -c 'import numpy' 2>/dev/null; then
    exec "$python" "$(dirname "$0")/multiply_numpy.py" "$@"
  fi
done
echo "no python3 with NumPy"
exit 77
