"""Modules lie beside the package, in a wheel and in the build tree, and are found without being named."""

import glob
import os
import subprocess
import sys

import pytest

import mmchain

FOUND = glob.glob(os.path.join(os.path.dirname(mmchain.__file__), "mmchain-*.so"))
SAY = "import mmchain; print(mmchain.info())"


@pytest.mark.skipif(not FOUND, reason="no module was built")
@pytest.mark.parametrize("arguments", [["-c", SAY], ["-m", "mmchain", "info"]])
def test_found(arguments):
    environment = {name: value for name, value in os.environ.items() if name != "MMCHAIN_MODULE_DIR"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    for path in FOUND:
        assert f"{os.path.basename(path)}: cannot open" not in done.stdout
