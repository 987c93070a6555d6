"""Which OpenBLAS multiplies: NumPy's, where its wheel brought one. Each case is a process of its own,
as that is settled at the import."""

import ctypes
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import mmchain

HERE = os.path.dirname(__file__)
# By tests/CMakeLists.txt: plain loops by the names of NumPy's, and the same without one of them.
LOOPS = os.environ.get("MMC_FAKE_NUMPY_BLAS")
INCOMPLETE = os.environ.get("MMC_FAKE_NUMPY_BLAS_INCOMPLETE")
WHEEL = [
    line.split()[-1]
    for line in open("/proc/self/maps")
    if "/numpy.libs/" in line and "openblas64_" in line
]

MULTIPLY = """
from chains import assert_close, random_array
rng = np.random.default_rng(7)
for dtype in ("float32", "float64", "complex64", "complex128", "float16"):
    for dims in ([70, 80, 90], [1, 130, 90], [130, 80, 1], [1, 10000, 1], [70, 80, 90, 75, 1]):
        shapes = list(zip(dims, dims[1:]))
        for turned in (False, True):
            a = [random_array(rng, s[::-1], dtype).T if turned else random_array(rng, s, dtype) for s in shapes]
            assert_close(mmchain.multi_dot(a), a)
"""


def openblas():
    return [d for d in mmchain.info()["devices"] if d["name"] == "blas" and "OpenBLAS" in d["description"]]


needs_openblas = pytest.mark.skipif(not openblas(), reason="this build calls no OpenBLAS")
needs_loops = pytest.mark.skipif(not LOOPS, reason="MMC_FAKE_NUMPY_BLAS names no library")


def run(load, code="", **environment):
    """Loads a library before mmchain; what blas is by then, and how often the library was called."""
    text = f"""
import ctypes, json, sys
sys.path.insert(0, {HERE!r})
library = ctypes.CDLL({load!r}) if {load!r} else None
import numpy as np, mmchain
{code}
count = getattr(library, "fake_numpy_blas_calls", None)
calls = [count(i) for i in range(3)] if count else None
text = next(d["description"] for d in mmchain.info()["devices"] if d["name"] == "blas")
print(json.dumps([text, calls]))
"""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_openblas
@needs_loops
@pytest.mark.skipif(bool(WHEEL), reason="NumPy brought one itself, which comes first")
def test_numpys_is_called():
    text, calls = run(LOOPS, MULTIPLY)
    assert text == "plain loops, 3 threads"
    assert all(count > 0 for count in calls), calls


@needs_openblas
@needs_loops
def test_not_when_told_otherwise():
    text, calls = run(LOOPS, MULTIPLY, MMCHAIN_BLAS="own")
    assert text.startswith("OpenBLAS")
    assert calls == [0, 0, 0]


@needs_openblas
@pytest.mark.skipif(not INCOMPLETE, reason="MMC_FAKE_NUMPY_BLAS_INCOMPLETE names no library")
@pytest.mark.skipif(bool(WHEEL), reason="NumPy brought one itself")
def test_not_when_it_lacks_something():
    text, calls = run(INCOMPLETE, MULTIPLY)
    assert text.startswith("OpenBLAS")
    assert calls == [0, 0, 0]


def python(*arguments, **environment):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(mmchain.__file__)), **environment}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


def test_without_any_it_is_an_error():
    done = python("-c", "import mmchain", MMCHAIN_BLAS="/nowhere/libopenblas.so")
    assert done.returncode != 0
    assert "ImportError: mmchain has no BLAS" in done.stderr
    assert "/nowhere/libopenblas.so" in done.stderr and "pip install scipy-openblas64" in done.stderr


def test_plain_loops_when_asked_for():
    done = python("-c", "import mmchain; print(mmchain.plan([3, 4, 5]).device)", MMCHAIN_BLAS="none")
    assert (done.returncode, done.stdout) == (0, "ref\n"), done.stderr


@pytest.mark.parametrize("module", ["mmchain", "_mmchain_command"])
def test_the_command(module):
    done = python("-m", module, "--version")
    assert (done.returncode, done.stdout) == (0, f"mmchain {mmchain.__version__}\n"), done.stderr
    assert python("-m", module, "plan", "3x").returncode == 2
    if openblas():
        description = openblas()[0]["description"]
        assert description in python("-m", module, "info").stdout


@needs_openblas
@pytest.mark.skipif(not WHEEL, reason="this NumPy brought no OpenBLAS of 64-bit integers")
def test_the_wheels_own():
    library = ctypes.CDLL(WHEEL[0])
    for prefix in ("scipy_openblas", "openblas"):
        config = getattr(library, prefix + "_get_config64_", None)
        if config is not None:
            break
    config.restype = ctypes.c_char_p
    assert run(None, MULTIPLY)[0].startswith(config().decode())
    assert not run(None, MULTIPLY, MMCHAIN_BLAS="own")[0].startswith(config().decode())
