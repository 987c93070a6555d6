"""NumPy's own tests of multi_dot, as installed, with ours in its place."""

import pytest

import mmchain

theirs = pytest.importorskip("numpy.linalg.tests.test_linalg")


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    calls = []

    def multi_dot(arrays, *, out=None):
        calls.append(len(arrays))
        return mmchain.multi_dot(arrays, out=out)

    monkeypatch.setattr(theirs, "multi_dot", multi_dot)
    yield calls


class TestMultiDot(theirs.TestMultiDot):
    pass


def test_it_is_ours_that_they_call(ours):
    theirs.TestMultiDot().test_basic_function_with_three_arguments()
    assert ours == [3, 3]
