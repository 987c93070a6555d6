"""Random chains of NumPy arrays, how far a product may be off, and which way it was computed."""

import numpy as np

import mmchain
from mmchain import _mmchain

DTYPES = ["float16", "float32", "float64", "complex64", "complex128"]


def can_tune():
    """Whether there is a wisdom store."""
    try:
        mmchain.tune(set=[(1, 1, 1)], device="ref", budget=1)
    except RuntimeError as error:
        assert "no wisdom store" in str(error)
        return False
    return True


def random_array(rng, shape, dtype):
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def random_chain(rng, dims, dtype="float64"):
    return [random_array(rng, shape, dtype) for shape in zip(dims, dims[1:])]


def random_dims(rng, n, high=12):
    return [int(p) for p in rng.integers(1, high, n + 1)]


def strided(array):
    """The same matrix with every second row and every second column of a larger one."""
    spread = np.full((2 * array.shape[0], 2 * array.shape[1]), np.nan, array.dtype)
    spread[::2, ::2] = array
    return spread[::2, ::2]


def wide(array):
    array = np.asarray(array)
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def left_to_right(arrays):
    """The product in double precision, and the product of the norms, which bounds its error."""
    product, norms = wide(arrays[0]), np.linalg.norm(wide(arrays[0]))
    for array in arrays[1:]:
        product = product @ wide(array)
        norms = norms * np.linalg.norm(wide(array))
    return product, norms


def assert_close(result, arrays, eps=None):
    expected, norms = left_to_right(arrays)
    assert np.shape(result) == np.shape(expected)
    eps = np.finfo(np.asarray(result).dtype).eps if eps is None else eps
    inner = sum(array.shape[-1] for array in arrays) + 1
    error = np.linalg.norm(wide(result) - expected)
    assert error <= 4 * eps * inner * norms + 1e-300, f"error {error}, norms {norms}"


def is_direct(arrays, out=None):
    """Whether the extension takes them, without Python's help or NumPy's arithmetic."""
    done = _mmchain.execute(None, arrays, out, "time", None, "native", None, False)
    return done is not NotImplemented
