"""multi_dot on NumPy arrays: values, dtypes, out, exceptions."""

import functools
import inspect
import pickle
import pydoc
import warnings

import numpy as np
import pytest

import mmchain
from chains import DTYPES, assert_close, is_direct, random_array, random_chain, random_dims, strided

numpy_dot = np.linalg.multi_dot


# ---- values ----------------------------------------------------------------------------------


def test_it_is_looked_at_as_a_function(rng):
    names = list(inspect.signature(mmchain.multi_dot).parameters)
    assert names[:3] == ["arrays", "out", "objective"] and inspect.isroutine(mmchain.multi_dot)
    assert mmchain.multi_dot.__name__ == "multi_dot" and mmchain.multi_dot.__module__ == "mmchain"
    assert mmchain.multi_dot.__doc__.startswith("The product of arrays")
    assert pickle.loads(pickle.dumps(mmchain.multi_dot)) is mmchain.multi_dot
    assert repr(mmchain.multi_dot).startswith("<function multi_dot")
    assert pydoc.render_doc(mmchain.multi_dot).count("precision")

    class Holder(list):
        product = mmchain.multi_dot

    arrays = random_chain(rng, random_dims(rng, 3))
    for result in (mmchain.multi_dot(arrays=arrays), Holder(arrays).product()):
        np.testing.assert_array_equal(result, mmchain.multi_dot(arrays))
    for given in ((), (arrays, arrays)):
        with pytest.raises(TypeError, match=r"multi_dot\(\)"):
            mmchain.multi_dot(*given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_values(rng, dtype, n):
    arrays = random_chain(rng, random_dims(rng, n), dtype)
    result = mmchain.multi_dot(arrays)
    assert type(result) is np.ndarray and result.dtype == dtype
    assert result.flags.c_contiguous and result.flags.writeable
    assert is_direct(arrays)
    assert_close(result, arrays)


def test_four_hundred_factors(rng):
    arrays = [a / 3 for a in random_chain(rng, random_dims(rng, 400))]
    expected = np.linalg.multi_dot(arrays[:200]) @ np.linalg.multi_dot(arrays[200:])
    scale = np.linalg.norm(expected)
    error = np.linalg.norm(mmchain.multi_dot(arrays) - expected)
    assert error <= 1e-9 * scale


@pytest.mark.parametrize(
    "dims",
    [
        [1, 2, 1],
        [2, 0, 2],
        [0, 2, 2],
        [2, 2, 2, 2],
        [2, 3, 4, 5],
        [5, 4, 0, 2],
        [2, 4, 3, 5, 3, 2],
        [0, 0, 0],
        [3, 0, 0, 4],
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sample_shapes(rng, dims, dtype):
    arrays = random_chain(rng, dims, dtype)
    result = mmchain.multi_dot(arrays)
    assert_close(result, arrays)
    assert result.dtype == numpy_dot(arrays).dtype


def test_nan_and_infinity_pass_through():
    a, b, c = np.ones((3, 3)), np.ones((3, 3)), np.ones((3, 3))
    a[1, 1], b[2, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(mmchain.multi_dot([a, b, c]), a @ b @ c)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_vectors_at_the_ends(rng, first, last, n, dtype):
    arrays = (
        [(4 * a).astype(dtype) for a in random_chain(rng, random_dims(rng, n), "complex128")]
        if dtype == "complex64"
        else [(4 * a).astype(dtype) for a in random_chain(rng, random_dims(rng, n))]
    )
    if first:
        arrays[0] = arrays[0][0]
    if last:
        arrays[-1] = arrays[-1][:, 0]
    expected = numpy_dot(arrays)
    result = mmchain.multi_dot(arrays)
    assert type(result) is type(expected)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


# ---- dtypes ----------------------------------------------------------------------------------

MIXED = [
    ("float32", "float64"),
    ("int32", "float32"),
    ("int8", "float16"),
    ("bool", "bool"),
    ("int8", "uint8"),
    ("int64", "uint64"),
    ("float64", "complex64"),
    ("bool", "int16"),
    ("float32", "complex64"),
    ("longdouble", "float32"),
    ("clongdouble", "float64"),
    ("object", "float64"),
    ("float16", "float32"),
]


@pytest.mark.parametrize("left, right", MIXED)
def test_promotion(rng, left, right):
    shapes = [(3, 4), (4, 5), (5, 2)]
    arrays = [(rng.integers(0, 3, s)).astype(t) for s, t in zip(shapes, [left, right, left])]
    expected = numpy_dot(arrays)
    result = mmchain.multi_dot(arrays)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_integers_are_exact_and_wrap():
    a = np.full((2, 2), 2**40)
    np.testing.assert_array_equal(mmchain.multi_dot([a, a, a]), numpy_dot([a, a, a]))


def test_lists_and_scalars():
    rows = [[1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_array_equal(
        mmchain.multi_dot([rows, rows, rows]), numpy_dot([rows, rows, rows])
    )
    np.testing.assert_array_equal(mmchain.multi_dot([3, rows]), numpy_dot([3, rows]))
    np.testing.assert_array_equal(
        mmchain.multi_dot((rows, np.array(2))), numpy_dot((rows, np.array(2)))
    )
    stack = np.arange(12.0).reshape(3, 2, 2)
    np.testing.assert_array_equal(mmchain.multi_dot(stack), numpy_dot(stack))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses():
    a = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    result, expected = mmchain.multi_dot([a, a, a]), numpy_dot([a, a, a])
    assert type(result) is type(expected) is np.matrix
    np.testing.assert_array_equal(result, expected)
    masked = np.ma.array(np.ones((2, 2)), mask=[[0, 1], [0, 0]])
    assert type(mmchain.multi_dot([masked] * 3)) is type(numpy_dot([masked] * 3))


def test_bfloat16(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    arrays = random_chain(rng, [4, 5, 6, 3], ml_dtypes.bfloat16)
    for given in (arrays, [np.asfortranarray(a) for a in arrays], [strided(a) for a in arrays]):
        result = mmchain.multi_dot(given)
        assert result.dtype == ml_dtypes.bfloat16
        assert_close(result, arrays, eps=2.0**-7)
    scalar = mmchain.multi_dot([arrays[0][0], arrays[1], arrays[2][:, 0]])
    assert scalar.shape == () and scalar.dtype == ml_dtypes.bfloat16


def test_dtypes_that_are_the_same_under_other_names():
    for given in (np.longlong, np.intc, np.dtype("f8", metadata={"of": "nothing"}), "<u8", "=f4"):
        a = np.arange(12).reshape(3, 4).astype(given)
        expected = a @ a.T @ a
        result = mmchain.multi_dot([a, a.T, a])
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
    for one, other in [("l", "q"), ("q", "l"), ("L", "Q")]:
        a = np.ones((8, 8), one)
        if a.dtype == np.dtype(other):
            for factor in (a, a[::2, ::2], a.astype(a.dtype.newbyteorder())):
                out = np.empty(factor.shape, other)
                assert mmchain.multi_dot([factor, factor], out=out) is out
                np.testing.assert_array_equal(out, len(factor))


# ---- out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [[3, 4, 5], [3, 4, 5, 6], [6, 2, 5, 3, 4]])
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128"])
def test_out(rng, dims, dtype):
    arrays = [(3 * a).astype(dtype) for a in random_chain(rng, dims)]
    out = np.full((dims[0], dims[-1]), 5, dtype)
    assert mmchain.multi_dot(arrays, out=out) is out
    np.testing.assert_allclose(out, numpy_dot(arrays), rtol=1e-12, atol=1e-12)


BAD_OUT = {
    "dtype": np.empty((3, 5), "float32"),
    "shape": np.empty((5, 3)),
    "dimensions": np.empty(15),
    "Fortran": np.empty((3, 5), order="F"),
    "strides": np.empty((3, 10))[:, ::2],
    "list": [[0.0] * 5] * 3,
}


@pytest.mark.parametrize("what", BAD_OUT)
def test_out_that_numpy_refuses(rng, what):
    out = BAD_OUT[what]
    for dims in ([3, 4, 5], [3, 4, 2, 5]):
        arrays = random_chain(rng, dims)
        with pytest.raises(Exception) as theirs:
            numpy_dot(arrays, out=out)
        with pytest.raises(type(theirs.value)) as ours:
            mmchain.multi_dot(arrays, out=out)
        assert str(ours.value) == str(theirs.value)


def test_read_only_out(rng):
    out = np.zeros((3, 5))
    out.flags.writeable = False
    with pytest.raises(ValueError):
        mmchain.multi_dot(random_chain(rng, [3, 4, 5]), out=out)
    assert not out.any()


@pytest.mark.parametrize("first, last", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_out_of_vectors(rng, first, last, n):
    """NumPy wants the result's shape of two arrays, and of more a matrix; we take both."""
    arrays = random_chain(rng, random_dims(rng, n))
    if first:
        arrays[0] = arrays[0][0]
    if last:
        arrays[-1] = arrays[-1][:, 0]
    expected = numpy_dot(arrays)
    out = np.zeros(expected.shape)
    assert mmchain.multi_dot(arrays, out=out) is out
    np.testing.assert_allclose(out, expected)
    if n > 2:
        rows, columns = 1 if first else arrays[0].shape[0], 1 if last else arrays[-1].shape[-1]
        theirs, ours = np.zeros((rows, columns)), np.zeros((rows, columns))
        a, b = numpy_dot(arrays, out=theirs), mmchain.multi_dot(arrays, out=ours)
        assert type(a) is type(b) and np.shape(a) == np.shape(b)
        assert np.shares_memory(a, theirs) == np.shares_memory(b, ours)
        np.testing.assert_allclose(ours, theirs)


def test_out_that_is_a_factor(rng):
    a, b, c = random_chain(rng, [4, 4, 4, 4])
    expected = a @ b @ c
    assert mmchain.multi_dot([a, b, c], out=b) is b
    np.testing.assert_allclose(b, expected)
    wide = rng.random((6, 4))
    expected = wide[1:5] @ a
    assert np.shares_memory(mmchain.multi_dot([wide[1:5], a], out=wide[:4]), wide)
    np.testing.assert_allclose(wide[:4], expected)


# ---- exceptions ------------------------------------------------------------------------------

BAD = {
    "none": [],
    "one": [np.ones((3, 3))],
    "scalar among three": [np.ones((3, 3)), np.float64(2), np.ones((3, 3))],
    "vector in the middle": [np.ones((3, 3)), np.ones(3), np.ones((3, 3))],
    "scalar first": [np.float64(2), np.ones((3, 3)), np.ones((3, 3))],
    "two matrices": [np.ones((2, 3)), np.ones((4, 5))],
    "vector and matrix": [np.ones(3), np.ones((4, 5))],
    "matrix and vector": [np.ones((2, 3)), np.ones(4)],
    "two vectors": [np.ones(2), np.ones(3)],
    "strings": [np.array([["a"]])] * 3,
}


@pytest.mark.parametrize("what", BAD)
def test_exceptions_are_numpys(what):
    with pytest.raises(Exception) as theirs:
        numpy_dot(BAD[what])
    with pytest.raises(type(theirs.value)) as ours:
        mmchain.multi_dot(BAD[what])
    if what != "strings":
        assert str(ours.value) == str(theirs.value)


def test_first_mismatch_of_a_chain_is_named():
    with pytest.raises(
        ValueError, match=r"shapes \(3,4\) and \(5,6\) not aligned: 4 \(dim 1\) != 5"
    ):
        mmchain.multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones((5, 6))])
    with pytest.raises(ValueError, match="broadcast"):
        mmchain.multi_dot([np.ones((2, 3, 3)), np.ones((4, 3, 3))])


def test_iterators_are_refused_as_numpy_does():
    with pytest.raises(TypeError):
        mmchain.multi_dot(iter([np.ones((2, 2))] * 3))


def test_options_are_checked():
    arrays = [np.ones((2, 2))] * 3
    for name, message in [("objective", "beauty"), ("precision", "sloppy")]:
        with pytest.raises(ValueError, match=f"{name}.*{message}"):
            mmchain.multi_dot(arrays, **{name: message})
        with pytest.raises(TypeError, match=f"{name}: expected a str, got int"):
            mmchain.multi_dot(arrays, **{name: 3})
    with pytest.raises(Exception, match="abacus"):
        mmchain.multi_dot(arrays, device="abacus")
    with pytest.raises(TypeError, match="device: expected a str, got int"):
        mmchain.multi_dot(arrays, device=3)
    with pytest.raises(TypeError):
        mmchain.multi_dot(arrays, None)
    for precision in ("native", "faithful", "fast", "reproducible", "reproducible+faithful"):
        for objective in ("time", "flops"):
            result = mmchain.multi_dot(arrays, precision=precision, objective=objective)
            np.testing.assert_array_equal(result, np.full((2, 2), 4.0))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_reproducible(rng, dtype):
    """The same bits on both devices, in a stack, in other layouts, by a plan that was pickled."""
    arrays = [(rng.standard_normal((a, b)) * (1 + 1j)).astype(dtype) if dtype[0] == "c" else
              rng.standard_normal((a, b)).astype(dtype) for a, b in [(30, 41), (41, 70), (70, 9)]]
    order = "((A1 A2) A3)"
    plan = mmchain.plan(arrays, precision="reproducible", order=order)
    bits = plan.execute(arrays).tobytes()
    on_ref = mmchain.plan(arrays, precision="reproducible", order=order, device="ref")
    assert on_ref.execute(arrays).tobytes() == bits
    assert pickle.loads(pickle.dumps(plan)).execute(arrays).tobytes() == bits
    assert plan.execute([np.asfortranarray(array) for array in arrays]).tobytes() == bits
    stack = plan.execute([np.stack([array] * 5) for array in arrays])
    assert all(stack[i].tobytes() == bits for i in range(5))
    out = np.zeros((9, 30), dtype).T
    assert np.ascontiguousarray(mmchain.multi_dot(arrays, precision="reproducible")).dtype == dtype
    assert mmchain.multi_dot(arrays, out=np.zeros((30, 9), dtype), precision="reproducible").shape == out.shape
    small = mmchain.plan(arrays, precision="reproducible+faithful", order=order)
    assert small.execute(arrays).tobytes() == bits


def test_reproducible_and_faithful(rng):
    """Large products by whole numbers: near the exact ones, and the same bits in a stack and other layouts."""
    arrays = [rng.standard_normal(shape).astype("float32") for shape in [(600, 11000), (11000, 1000)]]
    options = {"precision": "reproducible+faithful"}
    result = mmchain.multi_dot(arrays, **options)
    exact = arrays[0].astype(float) @ arrays[1].astype(float)
    own = np.abs(mmchain.multi_dot(arrays) - exact).max()
    assert np.abs(result - exact).max() < own
    assert result.tobytes() != mmchain.multi_dot(arrays, precision="reproducible").tobytes()
    assert mmchain.multi_dot([np.asfortranarray(array) for array in arrays], **options).tobytes() == result.tobytes()
    stack = mmchain.multi_dot([np.stack([array] * 2) for array in arrays], **options)
    assert all(stack[i].tobytes() == result.tobytes() for i in range(2))
    assert "reproducible+faithful" in mmchain.plan(arrays, **options).explain("json")


def test_reproducible_by_others():
    """What is left to another library is refused."""
    for array in (np.ones((2, 2), np.longdouble), np.ones((2, 2), object), np.ones((2, 2)).view(np.matrix)):
        with pytest.raises(TypeError, match="precision: expected"):
            mmchain.multi_dot([array] * 3, precision="reproducible")
        with pytest.raises(TypeError, match="precision: expected"):
            mmchain.multi_dot([array] * 3, precision="reproducible+faithful")
    with pytest.raises(RuntimeError, match="precision: factors that are inverses are not computed reproducibly"):
        mmchain.multi_dot([mmchain.inv(np.eye(3)), np.eye(3)], precision="reproducible")
    assert mmchain.multi_dot([np.ones((2, 2), int)] * 3, precision="reproducible")[0, 0] == 4


def test_device_ref(rng):
    arrays = random_chain(rng, [3, 4, 5, 2], "float32")
    assert_close(mmchain.multi_dot(arrays, device="ref"), arrays)


# ---- the swap --------------------------------------------------------------------------------


def test_numpy_multi_dot(rng):
    arrays = random_chain(rng, [3, 4, 5, 2])
    before = np.linalg.multi_dot
    mmchain.clear_cache()
    with mmchain.numpy_multi_dot():
        assert np.linalg.multi_dot is not before
        for _ in range(4):  # what is little has a plan from the fourth time on
            assert_close(np.linalg.multi_dot(arrays), arrays)
        with pytest.raises(ZeroDivisionError):
            with mmchain.numpy_multi_dot():
                raise ZeroDivisionError
        assert np.linalg.multi_dot is not before
    assert np.linalg.multi_dot is before
    assert mmchain.info()["cache"]["plans"] == 1


def test_matrices_with_vectors_at_the_ends():
    m, v, w = np.matrix(np.ones((3, 5))), np.ones(3), np.ones(5)
    for arrays in ([v, m, m.T, m], [m, m.T, v], [v, m, m.T, v], [m, m.T, m], [v, m], [m.T, m, w]):
        expected, result = np.linalg.multi_dot(arrays), mmchain.multi_dot(arrays)
        assert type(result) is type(expected) and result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("round", range(60))
def test_what_numpy_multiplies(rng, round):
    """Dtypes that mmchain lacks, integers beside others, matrices and lists are NumPy's products, of which the
    extension finds the order."""
    count = int(rng.integers(2, 8))
    dims = rng.integers(1, 7, count + 1)
    dtypes = rng.choice([*"?bhilBHILefdFDgGO"], 1 + round % 3)
    arrays = [rng.integers(0, 120, shape).astype(rng.choice(dtypes)) for shape in zip(dims, dims[1:])]
    arrays = [array.astype(array.dtype.newbyteorder()) if rng.random() < 0.2 else array for array in arrays]
    if round % 5 == 0:
        arrays = [array.view(np.matrix) for array in arrays]
    if round % 5 == 1:
        arrays[0] = arrays[0][0]
    if round % 5 in (1, 2):
        arrays[-1] = arrays[-1][:, 0]
    if round % 5 == 3:
        arrays[0] = arrays[0].tolist()
    expected, result = np.linalg.multi_dot(arrays), mmchain.multi_dot(arrays)
    assert type(result) is type(expected) and np.shape(result) == np.shape(expected)
    assert np.asarray(result).dtype == np.asarray(expected).dtype
    if np.asarray(expected).dtype.kind in "biuO":
        np.testing.assert_array_equal(result, expected)
    elif not any(np.asarray(array).dtype == "e" for array in arrays):  # whose orders overflow, or not
        np.testing.assert_allclose(result, expected, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_what_numpy_multiplies_leaves_the_extension_at_once(tmp_path):
    wide, whole = np.ones((3, 3), np.longdouble), np.ones((3, 3), int)
    mapped = np.memmap(tmp_path / "A", np.longdouble, "w+", shape=(3, 3))
    mapped[...] = 1
    for arrays in (
        [wide, wide],
        [wide] * 5,
        [wide, wide, wide[0]],
        [whole, np.ones((3, 3))],
        [np.stack([whole] * 2), whole.astype("i2"), whole],
        [wide, np.stack([wide] * 2), whole],
        [whole, whole.astype("i2"), whole],
        [np.matrix(whole), whole, whole],
        [whole.tolist(), whole],
        [whole.astype(object), whole],
        [whole.astype(">i2"), np.ones((3, 3))],
        [whole, whole.astype("q"), whole.astype(">i4")],
        [np.matrix(whole, ">f8"), whole],
        [wide.astype(">g"), wide],
        [mapped, whole],
    ):
        result = mmchain._mmchain.execute(None, arrays, None, "time", None, "native", None, False)
        assert result is not NotImplemented, arrays
        expected = functools.reduce(np.matmul, map(np.asarray, arrays))
        np.testing.assert_array_equal(np.asarray(result).astype(float), expected.astype(float))
        out = np.zeros(expected.shape, np.asarray(result).dtype)
        assert mmchain.multi_dot(arrays, out=out) is out
        np.testing.assert_array_equal(out.astype(float), expected.astype(float))
    for arrays in ([whole, wide[:2]], [[[1.0], [2.0, 3.0]], whole], [whole, whole.astype("i2"), whole[:2]]):
        with pytest.raises(ValueError):
            mmchain.multi_dot(arrays)


def test_mixed_integers_are_numpys(rng):
    dtypes = ["uint8", "int8", "uint16", "int64", "float32", "float64", "bool"]
    for _ in range(200):
        n = int(rng.integers(2, 6))
        dims = rng.integers(1, 6, n + 1)
        arrays = [
            rng.integers(0, 120, shape).astype(rng.choice(dtypes)) for shape in zip(dims, dims[1:])
        ]
        if all(array.dtype.kind == "f" for array in arrays):
            continue
        expected, result = np.linalg.multi_dot(arrays), mmchain.multi_dot(arrays)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
    with mmchain.numpy_multi_dot():
        a, b = np.full((2, 2), 10, "f4"), np.full((2, 2), 99, "u1")
        assert np.linalg.multi_dot([a, b, b])[0, 0] == 2920


class Dispatched:
    """Says what NumPy's functions do with it."""

    def __init__(self, value):
        self.value = value

    def __array_function__(self, function, types, args, kwargs):
        if function is not numpy_dot:
            return NotImplemented
        return "ours", len(args[0])

    def __array__(self, *args, **kwargs):
        return np.asarray(self.value)


def test_types_that_say_what_functions_do():
    one = Dispatched(np.eye(2))
    assert mmchain.multi_dot([one, one, np.eye(2)]) == ("ours", 3)
    with mmchain.numpy_multi_dot():
        assert mmchain.multi_dot([np.eye(2), one]) == ("ours", 2)


def test_stacks_that_do_not_fit():
    with pytest.raises(np.linalg.LinAlgError, match="not aligned"):
        mmchain.multi_dot([np.ones((7, 2, 3)), np.ones((4, 5)), np.ones((5, 5))])
    with pytest.raises(np.linalg.LinAlgError, match="broadcast"):
        mmchain.multi_dot([np.ones((7, 2, 3)), np.ones((6, 3, 5))])


def errors_of(function, mode):
    """What NumPy says, or mmchain, by numpy.errstate's mode."""
    seen = []
    with np.errstate(all=mode, call=lambda kind, flag: seen.append((kind, flag))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                function()
            except FloatingPointError as error:
                seen.append(("raised", str(error).partition(" encountered")[0]))
    return seen + [str(warning.message).partition(" encountered")[0] for warning in caught]


@pytest.mark.parametrize("mode", ["warn", "raise", "call", "ignore"])
def test_floating_point_errors(mode):
    large = np.full((3, 5), 1e300)
    infinite = np.array([[np.inf, 1.0, 2.0], [1.0, 2.0, 3.0]])
    zeros = np.zeros((3, 5))
    quiet = np.full((2, 3), np.nan)
    for arrays in ([large, large.T], [infinite, zeros], [infinite, large], [quiet, zeros]):
        expected = [errors_of(lambda: np.matmul(*arrays), mode)]
        if arrays[0] is infinite and arrays[1] is large:  # some kernels of OpenBLAS add 0 * inf, which C has not
            expected.append([])
        mmchain.clear_cache()
        for _ in range(2):
            assert errors_of(lambda: mmchain.multi_dot(arrays), mode) in expected
