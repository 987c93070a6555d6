"""Fixtures of all tests. Every random number comes from a seed that a failure shows. What tests
learn about times goes to a store of their own."""

import os
import signal
import sys
import tempfile

import numpy as np
import pytest

_store = tempfile.TemporaryDirectory(prefix="mmchain-")
os.environ["MMCHAIN_WISDOM"] = os.path.join(_store.name, "wisdom.db")
sys.path.insert(0, os.path.dirname(__file__))
# A shell's background jobs ignore it, and tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# One of three seeds in short; another with MMCHAIN_TEST_SEED.
_seeds = [1, 2, 3] if "MMCHAIN_TEST_LONG" in os.environ else [int(os.environ.get("MMCHAIN_TEST_SEED", "1"))]


@pytest.fixture(params=_seeds, ids="seed={}".format)
def rng(request):
    return np.random.default_rng(request.param)


def pytest_report_header():
    import mmchain

    names = [d["name"] for d in mmchain.info()["devices"] if d["available"]]
    return f"mmchain {mmchain.__version__} on {', '.join(names)}; NumPy {np.__version__}"
