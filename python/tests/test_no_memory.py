"""Every allocation of Python's fails once: what is asked for is right, or MemoryError is raised."""

import functools
import gc
import subprocess
import sys

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain

capi = pytest.importorskip("_testcapi", reason="Python was built without its tests")

rng = np.random.default_rng(5)
A, B, C = (rng.standard_normal(shape) for shape in [(3, 4), (4, 5), (5, 2)])
STACK = rng.standard_normal((6, 3, 4))
OUT = np.empty((3, 2))
EXPECTED = A @ B @ C


def execute(arrays, out=None):
    return _mmchain.execute(None, arrays, out, "time", None, "native", None, False)


def planned_again():
    mmchain.clear_cache()
    return execute([A, B, C])


def by_plan():
    plan = _mmchain.Plan("f64:3x4x5x2", "time", None, "native", "auto", None, None, False)
    return _mmchain.execute(plan, [A, B, C], None, "", None, "", None, False)


def described():
    plan = _mmchain.Plan("f64:3x4x5x2", "flops", "ref", "native", "auto", None, None, False)
    return plan.describe("json"), plan.products(), plan.chain, plan._arguments, plan.multiplications


def exported():
    array = _mmchain.Array("cpu", "f64", (3, 4))
    return repr(array.__dlpack_device__()), array.__dlpack__() is not None


def near(result, expected):
    return np.allclose(result, expected) if isinstance(expected, np.ndarray) else result == expected


ROW = rng.standard_normal((1, 3, 3, 3))
PRODUCT = np.empty((1, 1, 3, 3))


def ranged():
    ranges = _mmchain.Ranges("f64", 3, 1, None, None)
    for _ in range(2):
        ranges.append(ROW, 3)
    ranges.update(ROW[:, :1], [5])
    ranges.product(0, 6, PRODUCT)
    return PRODUCT.copy()


WORK = {
    "ranges": ranged,
    "execute": lambda: execute([A, B, C]),
    "execute, planned again": planned_again,
    "execute into": lambda: execute([A, B, C], OUT),
    "execute views": lambda: execute([A.T.copy().T, B, C.T.copy().T]),
    "execute a stack": lambda: execute([STACK, B, C]),
    "execute vectors": lambda: execute([A[0], B, C]),
    "execute float16": lambda: execute([A.astype("f2"), B.astype("f2")]),
    "multi_dot of views": lambda: mmchain.multi_dot([A, B[::-1], C[:, ::-1]]),
    "multi_dot mixed": lambda: mmchain.multi_dot([A.astype("f4"), B]),
    "execute by a plan": by_plan,
    "describe": described,
    "order": lambda: _mmchain.order([30, 35, 15, 5, 10, 20, 25]),
    "chain": lambda: _mmchain.chain_of([A, B, C, C.T, C], False),
    "memory": exported,
    "multi_dot": lambda: mmchain.multi_dot([A, B, C]),
    "plan": lambda: mmchain.plan([A, B, C]).order,
}


# So many allocations after the last one that was refused are none that matters.
QUIET = 60


# CPython 3.12 and 3.13 crash themselves where a generator is refused its memory.
_GENERATORS = """
import _testcapi


def given(count):
    every = [x for x in range(3)]
    return all(type(x) is int for x in every)


def refused(depth, number):
    if depth > 0:
        return refused(depth - 1, number)
    _testcapi.set_nomemory(number, number + 1)
    try:
        given(number)
    except MemoryError as error:
        return error
    finally:
        _testcapi.remove_mem_hooks()


for depth in range(0, 30, 3):
    for number in range(1, 100):
        error = refused(depth, number)
        error = None
"""


@functools.lru_cache(None)
def generators_survive():
    return subprocess.run([sys.executable, "-c", _GENERATORS], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", WORK)
def test_each_allocation(name):
    """The extension may also leave the work to Python's code, by NotImplemented."""
    if (name.startswith("multi_dot ") or name == "plan") and not generators_survive():
        pytest.skip("this CPython crashes where a generator is refused its memory")
    work = WORK[name]
    expected = work()
    assert expected is not NotImplemented
    gc.collect()
    number = last = 0
    while number - last < QUIET:
        number += 1
        result = error = None
        capi.set_nomemory(number, number + 1)
        try:
            result = work()
        except MemoryError as caught:
            error = caught
        finally:
            capi.remove_mem_hooks()
        if error is not None or result is NotImplemented:
            last = number
        else:
            assert near(result, expected), number
    assert last > 0
    assert near(work(), expected)
