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
