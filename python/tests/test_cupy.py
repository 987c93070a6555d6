"""CuPy arrays, where CuPy and a GPU are."""

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")

import mmchain  # noqa: E402
from chains import DTYPES, assert_close, random_chain  # noqa: E402

try:
    found = cupy.cuda.runtime.getDeviceCount() > 0
except cupy.cuda.runtime.CUDARuntimeError:
    found = False
pytestmark = [
    pytest.mark.skipif(not found, reason="CuPy sees no GPU"),
    pytest.mark.skipif(
        not any(d["name"].startswith("cuda") and d["available"] for d in mmchain.info()["devices"]),
        reason="mmchain is built without CUDA",
    ),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(rng, dtype):
    plain = random_chain(rng, [40, 30, 50, 20], dtype)
    arrays = [cupy.asarray(a) for a in plain]
    arrays[1] = cupy.asfortranarray(arrays[1])
    result = mmchain.multi_dot(arrays)
    assert isinstance(result, cupy.ndarray) and result.dtype == dtype
    assert_close(cupy.asnumpy(result), plain)
    out = cupy.zeros((40, 20), dtype)
    assert mmchain.multi_dot(arrays, out=out) is out
    assert_close(cupy.asnumpy(out), plain)


def test_strides_stacks_vectors_integers(rng):
    a, b = cupy.asarray(rng.random((8, 6))), cupy.asarray(rng.random((3, 5)))
    cupy.testing.assert_allclose(mmchain.multi_dot([a[::2, ::2], b]), a[::2, ::2] @ b)
    stack = cupy.asarray(rng.random((7, 2, 3)))
    cupy.testing.assert_allclose(mmchain.multi_dot([stack, b]), stack @ b)
    u, v = cupy.asarray(rng.random(3)), cupy.asarray(rng.random(5))
    assert mmchain.multi_dot([u, b, v]).shape == ()
    cupy.testing.assert_allclose(mmchain.multi_dot([u, b, v]), u @ b @ v)
    i = cupy.arange(9).reshape(3, 3)
    cupy.testing.assert_array_equal(mmchain.multi_dot([i, i, i]), i @ i @ i)


@pytest.mark.parametrize("side", [7, 560])
def test_integers_checked_and_modulo(rng, side):
    """The larger ones are those of tensor cores, where there are any."""
    plain = [rng.integers(-(2**40), 2**40, (side, side)) for _ in range(3)]
    arrays = [cupy.asarray(a) for a in plain]
    result = mmchain.multi_dot(arrays, mod=2**61 - 1)
    assert isinstance(result, cupy.ndarray) and result.dtype == np.int64
    assert np.array_equal(cupy.asnumpy(result), mmchain.multi_dot(plain, mod=2**61 - 1))
    small = [a % 1000 for a in plain]
    arrays = [cupy.asarray(a) for a in small]
    out = cupy.zeros((side, side), np.int64)
    assert mmchain.multi_dot([arrays[0].T, arrays[1], arrays[2]], checked=True, out=out) is out
    assert np.array_equal(cupy.asnumpy(out), small[0].T @ small[1] @ small[2])
    unsigned = [array.astype(np.uint64) for array in arrays]
    assert mmchain.multi_dot(unsigned, mod=97).dtype == np.uint64
    with pytest.raises(OverflowError, match="factors 1 to 2"):
        mmchain.multi_dot([array.astype(np.int16) for array in arrays[:2]], checked=True)
    with pytest.raises(TypeError, match="uint64 everywhere or nowhere"):
        mmchain.multi_dot([unsigned[0], arrays[1]], mod=97)


def test_streams(rng):
    """Work is ordered on the current stream, behind what makes a factor, before what reads it."""
    a = cupy.asarray(rng.random((700, 700)))
    expected = a @ a @ (2 * a)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(5):
            b = a * 1
            for _ in range(20):
                b = b * 1
            c = b + b
            result = mmchain.multi_dot([b, b, c])
            total = result.copy()
            del b, c, result
        stream.synchronize()
    cupy.testing.assert_allclose(total, expected)


def test_overlap_and_exceptions(rng):
    a = cupy.asarray(rng.random((4, 4)))
    b = a.copy()
    expected = a @ a @ a
    assert mmchain.multi_dot([b, b, b], out=b) is b
    cupy.testing.assert_allclose(b, expected)
    with pytest.raises(ValueError, match="where the arrays are, got 'cpu'"):
        mmchain.multi_dot([a, a], device="cpu")
    with pytest.raises(ValueError, match="out"):
        mmchain.multi_dot([a, a], out=cupy.zeros((3, 3)))
    with pytest.raises(TypeError, match="one library"):
        mmchain.multi_dot([a, np.ones((4, 4))])
