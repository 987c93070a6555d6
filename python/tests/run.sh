#!/bin/sh
# run.sh PYTHON PACKAGES TEST: one file of tests by pytest, with the package in the folder PACKAGES.
# Exit status 77: pytest or what the tests are about is not here.
"$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pytest") is None)' || {
  echo "no pytest for $1 (Debian: python3-pytest)"
  exit 77
}
PYTHONPATH=$2 PYTHONDONTWRITEBYTECODE=1 "$1" -m pytest -q -ra -p no:cacheprovider "$3"
status=$?
[ $status = 5 ] && exit 77 # nothing was collected: the module skipped itself
exit $status
