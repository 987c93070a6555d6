"""Nothing is leaked, on success or failure: references, and bytes."""

import gc
import sys
import tracemalloc

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain


def ok():
    a, b = np.ones((3, 4)), np.ones((4, 2))
    return [a, b], None


def stack():
    return [np.ones((2, 3, 4)), np.ones((4, 2))], None


def vectors():
    return [np.ones(4), np.ones((4, 4)), np.ones(4)], None


def with_out():
    return [np.ones((3, 4)), np.ones((4, 2))], np.empty((3, 2))


def strided():
    return [np.ones((6, 8))[::2, ::2], np.ones((4, 2))], None


def integers():
    return [np.ones((3, 4), int), np.ones((4, 2), int)], None


def misaligned():
    return [np.ones((3, 4)), np.ones((5, 2))], None


def bad_out():
    return [np.ones((3, 4)), np.ones((4, 2))], np.empty((2, 3))


def read_only_out():
    out = np.empty((3, 2))
    out.flags.writeable = False
    return [np.ones((3, 4)), np.ones((4, 2))], out


def strings():
    return [np.array([["a"]]), np.array([["b"]])], None


def nothing_like_an_array():
    return [object(), np.ones((4, 2))], None


CASES = [
    ok,
    stack,
    vectors,
    with_out,
    strided,
    integers,
    misaligned,
    bad_out,
    read_only_out,
    strings,
    nothing_like_an_array,
]


def attempt(arrays, out, **options):
    try:
        mmchain.multi_dot(arrays, out=out, **options)
    except Exception:  # noqa: B902
        pass


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_references(case):
    arrays, out = case()
    held = arrays if out is None else [*arrays, out]
    attempt(arrays, out)
    before = [sys.getrefcount(x) for x in held]
    for _ in range(50):
        attempt(arrays, out)
    assert [sys.getrefcount(x) for x in held] == before
    for array in arrays:
        if isinstance(array, np.ndarray) and array.base is None:
            array.resize(array.shape, refcheck=False)  # fails while a buffer is exported


@pytest.mark.parametrize(
    "options",
    [{"objective": "beauty"}, {"precision": "x"}, {"device": "x"}, {"objective": 3}, {"device": 3}],
)
def test_references_of_options(options):
    arrays, _ = ok()
    option = next(iter(options.values()))
    attempt(arrays, None, **options)
    before = [sys.getrefcount(x) for x in (*arrays, option)]
    for _ in range(50):
        attempt(arrays, None, **options)
    assert [sys.getrefcount(x) for x in (*arrays, option)] == before


ALLOWED = 16000  # of 1000 rounds; the smallest object has 16 bytes


def grown_bytes(work, rounds=1000):
    """Bytes that Python's allocators hold more after many rounds than after a few."""
    for _ in range(20):
        work()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(20):
            work()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(rounds):
            work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_bytes(case):
    arrays, out = case()
    assert grown_bytes(lambda: attempt(arrays, out)) < ALLOWED


def test_bytes_of_plans():
    def work():
        p = mmchain.plan("3x4x5x6")
        p.execute([np.ones((3, 4)), np.ones((4, 5)), np.ones((5, 6))])
        p.explain(), p.steps, p._repr_svg_(), p.__reduce__(), p.multiplications
        with pytest.raises(ValueError):
            mmchain.plan("3x")
        _mmchain.order([3, 4, 5, 6])
        mmchain.clear_cache()

    assert grown_bytes(work) < ALLOWED


def test_bytes_of_exported_memory():
    def work():
        array = _mmchain.Array("cpu", "f64", (64, 64))
        array.__dlpack__()
        array.__dlpack__(max_version=(1, 0))
        np.from_dlpack(array)
        with pytest.raises(ValueError):
            _mmchain.Array("cpu", "f64", (-1,))
        with pytest.raises(TypeError):
            _mmchain.Array("cpu", "f64", ("x",))

    if not hasattr(np, "from_dlpack"):
        pytest.skip("NumPy without DLPack")
    assert grown_bytes(work) < ALLOWED


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def keeps_freed_memory():
    """AddressSanitizer holds what is freed back for a while."""
    with open("/proc/self/maps") as maps:
        return any("asan" in line for line in maps)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.skipif("keeps_freed_memory()", reason="AddressSanitizer keeps what is freed")
def test_resident_memory():
    """What malloc holds for the library, which tracemalloc does not see."""
    arrays = [np.ones((100, 120)), np.ones((120, 90)), np.ones((90, 100))]

    def work():
        mmchain.multi_dot(arrays)
        mmchain.plan(arrays).execute(arrays)
        mmchain.clear_cache()

    for _ in range(200):
        work()
    before = resident_bytes()
    for _ in range(1500):
        work()
    # A leaked workspace of 80 kB would make 120 MB.
    assert resident_bytes() - before < 20 << 20


def test_misuse_of_the_extension():
    a = np.ones((2, 2))
    with pytest.raises(TypeError):
        _mmchain.execute(None, [a, a])
    with pytest.raises(TypeError, match="plan: expected a Plan"):
        _mmchain.execute(3, [a, a], None, "time", None, "native", None, False)
    for arrays in (3, [], [a], "ab", [a, None], [a, 3.0], [a, b"x"]):
        done = _mmchain.execute(None, arrays, None, "time", None, "native", None, False)
        assert done is NotImplemented
    with pytest.raises(TypeError):
        _mmchain.readable(a)
    assert not _mmchain.readable(3, True)
    assert not _mmchain.readable(np.float64(3), True)
    with pytest.raises(TypeError):
        _mmchain.order(3)
    with pytest.raises(TypeError):
        _mmchain.order(["x", "y"])
    with pytest.raises(ValueError):
        _mmchain.order([])
    with pytest.raises(ValueError):
        _mmchain.order([2, -1, 2])
    assert _mmchain.order([2, 3]) == []
    with pytest.raises(ValueError, match=r"dims\[1\]: expected 0 to 2\^62"):
        _mmchain.order([2, 2**70, 2])
