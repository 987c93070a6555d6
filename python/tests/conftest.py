"""Fixtures of all tests. Every random number comes from a seed that a failure shows."""

import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture(params=[1, 2, 3], ids="seed={}".format)
def rng(request):
    return np.random.default_rng(request.param)


def pytest_report_header():
    import mmchain

    names = [d["name"] for d in mmchain.info()["devices"] if d["available"]]
    return f"mmchain {mmchain.__version__} on {', '.join(names)}; NumPy {np.__version__}"
