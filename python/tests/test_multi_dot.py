"""multi_dot on NumPy arrays: values, dtypes, strides, stacks, out, exceptions."""

import inspect
import pickle
import pydoc
import sys
import warnings
from functools import reduce

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain
from chains import DTYPES, assert_close, random_array, random_chain, random_dims

numpy_dot = np.linalg.multi_dot


def is_direct(arrays, out=None):
    """Whether the extension takes them, without Python's help or NumPy's arithmetic."""
    done = _mmchain.execute(None, arrays, out, "time", None, "native", None, False)
    return done is not NotImplemented


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


# ---- memory ----------------------------------------------------------------------------------


def gapped(array):
    """The same matrix with a row stride larger than its columns."""
    wider = np.full((array.shape[0], array.shape[1] + 3), np.nan, array.dtype)
    wider[:, : array.shape[1]] = array
    return wider[:, : array.shape[1]]


def strided(array):
    spread = np.full((2 * array.shape[0], 2 * array.shape[1]), np.nan, array.dtype)
    spread[::2, ::2] = array
    return spread[::2, ::2]


def unaligned(array):
    data = np.empty(array.nbytes + 1, np.uint8)
    view = data[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def as_said(array):
    """The array with a dtype that says its byte order, which is this machine's, as byteswap() and ctypes
    leave it."""
    return array.astype(array.dtype.newbyteorder("<" if sys.byteorder == "little" else ">"))


LAYOUTS = {
    "C": (np.ascontiguousarray, True),
    "F": (np.asfortranarray, True),
    "row stride": (gapped, True),
    "column stride": (lambda a: gapped(a.T.copy()).T, True),
    "both strides": (strided, True),
    "rows backwards": (lambda a: a[::-1].copy()[::-1], True),
    "columns backwards": (lambda a: a[:, ::-1].copy()[:, ::-1], True),
    "byte order": (lambda a: a.astype(a.dtype.newbyteorder()), False),
    "byte order that is said": (lambda a: as_said(a), True),
    "unaligned": (unaligned, False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(rng, layout, dtype):
    lay, direct = LAYOUTS[layout]
    plain = random_chain(rng, [5, 4, 6, 3], dtype)
    arrays = [lay(a) for a in plain]
    before = [a.copy() for a in arrays]
    assert is_direct(arrays) == direct
    result = mmchain.multi_dot(arrays)
    assert result.dtype == dtype and result.dtype.isnative
    assert_close(result, plain)
    for a, b in zip(arrays, before):
        np.testing.assert_array_equal(a, b)


def test_a_byte_order_that_is_said_changes_nothing(rng):
    plain = rng.random((3, 3)) + np.eye(3)
    said, stack = as_said(plain), as_said(np.stack([plain] * 4))
    assert mmchain.plan([said, plain]).chain == mmchain.plan([plain, plain.copy()]).chain
    for call in (
        lambda a, s: mmchain.plan("f64:3x3x3").execute([a, a]),
        lambda a, s: mmchain.multi_dot(s),
        lambda a, s: mmchain.scan(s),
        lambda a, s: mmchain.recurrence(s, a),
        lambda a, s: mmchain.Ranges(s).product(),
        lambda a, s: mmchain.gradients([a, a], a)[0],
        lambda a, s: mmchain.multi_dot([mmchain.inv(a), a]),
        lambda a, s: mmchain.multi_dot([a, a], semiring="max-plus"),
        lambda a, s: mmchain.multi_dot([a, a], scaled=True)[0],
        lambda a, s: mmchain.multi_dot([as_said(a.astype(int))] * 2, mod=7),
        lambda a, s: mmchain.multi_dot([a, a], out=as_said(np.empty((3, 3)))),
    ):
        np.testing.assert_array_equal(call(said, stack), call(plain, np.stack([plain] * 4)))


def test_strided_vectors_are_not_copied(rng):
    u, b, v = rng.random(12)[::3], rng.random((4, 5)), rng.random((5, 7))[:, 2]
    assert is_direct([u, b, v])
    np.testing.assert_allclose(mmchain.multi_dot([u, b, v]), u @ b @ v)
    u, v = u[::-1], v[::-1]
    np.testing.assert_allclose(mmchain.multi_dot([u, b, v]), u @ b @ v)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
def test_lines_with_any_stride(rng, shape):
    """A dimension of one has a stride that means nothing."""
    a = np.lib.stride_tricks.as_strided(rng.random(600), shape, (1000, 24))
    b = rng.random((shape[1], 3))
    np.testing.assert_allclose(mmchain.multi_dot([a, b]), a @ b)
    np.testing.assert_allclose(mmchain.multi_dot([b.T, a.T]), b.T @ a.T)


def test_read_only_and_broadcast_factors(rng):
    a = rng.random((4, 4))
    a.flags.writeable = False
    b = np.broadcast_to(rng.random(4), (4, 4))
    assert_close(mmchain.multi_dot([a, b, b.T]), [a, b, b.T])


def any_view(rng, shape, dtype):
    """A view of random numbers of any strides, some of which are backwards, with gaps, or repeat."""
    steps = rng.choice([-2, -1, 1, 1, 2], len(shape))
    room = [size * abs(step) + rng.integers(0, 3) for size, step in zip(shape, steps)]
    axes = rng.permutation(len(shape))
    held = random_array(rng, tuple(room[a] for a in axes), dtype).transpose(np.argsort(axes))
    view = held[tuple(slice(None, None, int(step)) for step in steps)]
    view = view[tuple(slice(0, size) for size in shape)]
    if len(shape) > 2 and rng.random() < 0.3:
        view = np.broadcast_to(view[:1], shape)
    if rng.random() < 0.2:
        view = np.broadcast_to(view[..., :1, :], shape)
    return view


@pytest.mark.parametrize("round", range(40))
def test_views_of_any_strides_and_dtypes(rng, round):
    """What is written out is taken by the extension, and gives what plain arrays of the promoted dtype
    give, bit for bit."""
    kind = ["float32", "float64", "complex64", "complex128"]
    n, stack = rng.integers(2, 6), (int(rng.integers(1, 40)), 3)[: rng.integers(0, 3)]
    dims = random_dims(rng, n, [12, 70][round % 2])
    arrays = []
    for rows, cols in zip(dims, dims[1:]):
        shape = stack[rng.integers(0, len(stack) + 1) :] + (rows, cols)
        arrays.append(any_view(rng, shape, str(rng.choice(kind))))
    if rng.random() < 0.3:
        arrays.append(np.ones((dims[-1], dims[-1]), kind[0])[::-1])
        arrays.append(arrays[-1])
    dtype = np.result_type(*arrays)
    plain = [np.ascontiguousarray(np.array(a).astype(dtype)) for a in arrays]
    if len(plain) > n:
        plain[-1] = plain[-2]
    result = mmchain.multi_dot(arrays)
    assert result.dtype == dtype and is_direct(arrays)
    expected = reduce(np.matmul, [a.astype(complex) for a in plain])
    scale = reduce(np.matmul, [np.abs(a).astype(float) for a in plain])
    assert not np.any(np.abs(result - expected) > 60 * sum(dims) * np.finfo(dtype).eps * scale)
    ordered = mmchain.multi_dot(arrays, precision="reproducible", objective="flops")
    again = mmchain.multi_dot(plain, precision="reproducible", objective="flops")
    np.testing.assert_array_equal(ordered, again)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16"])
def test_views_of_any_strides_of_other_dtypes(rng, dtype):
    for _ in range(6):
        dims = random_dims(rng, 3)
        shapes = [(4, rows, cols) for rows, cols in zip(dims, dims[1:])]
        arrays = [(4 * any_view(rng, shape, "float64")).astype(dtype) for shape in shapes]
        arrays = [np.asfortranarray(a)[::-1] for a in arrays]
        assert is_direct(arrays)
        plain = [np.ascontiguousarray(a) for a in arrays]
        np.testing.assert_array_equal(mmchain.multi_dot(arrays), mmchain.multi_dot(plain))


def test_large_views_are_written_out(rng):
    """Others have the interpreter's lock meanwhile, and large pages are asked for."""
    held = rng.random((700, 1600)).astype(np.float32)
    for a in (held[::-1, ::2], held.T[::2, ::-1], np.broadcast_to(held[0], (30, 1600))):
        b = rng.random((a.shape[1], 3))
        assert is_direct([a, b])
        np.testing.assert_allclose(mmchain.multi_dot([a, b]), a.astype(float) @ b, rtol=1e-12)


def test_a_stack_of_any_strides_is_the_chain(rng):
    held = rng.random((5, 4, 8, 8)) / 8
    for stack in (held[:, :, ::-1, ::-1], held[:, ::-1, ::2, ::2], held.transpose(1, 0, 3, 2)):
        factors = [np.array(stack[:, i]) for i in range(stack.shape[1])]
        np.testing.assert_allclose(mmchain.multi_dot(stack), reduce(np.matmul, factors), rtol=1e-12)


def test_one_array_many_times(rng):
    a = rng.random((5, 5))
    assert_close(mmchain.multi_dot([a] * 6), [a] * 6)


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


# ---- stacks ----------------------------------------------------------------------------------

STACKS = [
    ((7,), (7,), (7,)),
    ((7,), (), ()),
    ((), (7,), ()),
    ((2, 1), (3,), ()),
    ((2, 3), (2, 3), (1, 3)),
    ((0,), (), ()),
    ((1,), (1,), (0,)),
    ((4, 1, 2), (5, 1), (2,)),
]


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64", "float16"])
@pytest.mark.parametrize("stacks", STACKS)
def test_stacks(rng, stacks, dtype):
    shapes = [stack + core for stack, core in zip(stacks, [(3, 4), (4, 2), (2, 5)])]
    arrays = [(4 * random_array(rng, shape, "float64")).astype(dtype) for shape in shapes]
    expected = np.matmul(np.matmul(arrays[0], arrays[1]), arrays[2])
    result = mmchain.multi_dot(arrays)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    tolerance = {"float16": 0.3, "complex64": 1e-3}.get(dtype, 1e-9)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    out = np.full(expected.shape, 7, dtype)
    assert mmchain.multi_dot(arrays, out=out) is out
    np.testing.assert_array_equal(out, result)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_stacks_between_vectors(rng, first, last):
    u = rng.random(3) if first else rng.random((6, 2, 3))
    v = rng.random(5) if last else rng.random((5, 4))
    b = rng.random((6, 3, 5))
    np.testing.assert_allclose(mmchain.multi_dot([u, b, v]), np.matmul(np.matmul(u, b), v))


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_that_all_products_share(rng, dtype):
    """Neighbours among them have one product for all, whatever stands beside them."""
    for _ in range(60):
        n, largest = int(rng.integers(2, 9)), int(rng.choice([3, 12, 40, 90]))
        dims = rng.integers(1, largest + 1, n + 1).tolist()
        if rng.random() < 0.4:
            dims = [int(rng.choice([4, 8, 16, 32]))] * (n + 1)
        batch, share = int(rng.choice([2, 7, 64, 300])), rng.choice([0.2, 0.5, 0.8])
        arrays = [
            (random_array(rng, (batch, *shape) if rng.random() < share else shape, dtype) / shape[0] ** 0.5).astype(dtype)
            for shape in zip(dims, dims[1:])
        ]
        for objective in ("time", "flops"):
            found = mmchain.multi_dot(arrays, objective=objective)
            for i in (0, batch // 2, -1) if found.ndim == 3 else (...,):
                assert_close(found[i], [a[i] if a.ndim == 3 else a for a in arrays])


@pytest.mark.parametrize("objective", ["time", "flops"])
def test_plans_know_what_all_products_share(rng, objective):
    """(A1 A2) A3 has a tenth of the multiplications of A1 (A2 A3) where the first two are matrices; what is
    planned for them is told so, and arrays of which another one is a stack have a plan of their own."""
    a, b = rng.random((40, 200)), rng.random((200, 30))
    stack = rng.random((64, 30, 20))
    for first, second in ((a, b), (np.broadcast_to(a, (64, 40, 200)), b), (a[None], b[None, None])):
        arrays = [first, second, stack]
        p = mmchain.plan(arrays, objective=objective)
        assert p.chain.startswith("f64:40x200x30x20@64:nnN") and p.order == "((A1 A2) A3)"
        assert p.multiplications == 40 * 200 * 30 + 64 * 40 * 30 * 20
        expected = np.matmul(a @ b, stack)
        for result in (mmchain.multi_dot(arrays, objective=objective), p.execute(arrays)):
            np.testing.assert_allclose(np.squeeze(result), expected, rtol=1e-12)
    others = [rng.random((64, 40, 200)), b, stack]
    expected = reduce(np.matmul, others)
    for result in (mmchain.multi_dot(others, objective=objective), p.execute(others)):
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    p = mmchain.plan("f64:40x200x30x20", objective=objective)
    np.testing.assert_allclose(p.execute([a, b, stack]), np.matmul(a @ b, stack), rtol=1e-12)


def test_reproducible_orders_know_of_no_stack(rng):
    arrays = [rng.random((40, 200)), rng.random((200, 30)), rng.random((64, 30, 20))]
    p = mmchain.plan(arrays, precision="reproducible", objective="flops")
    assert p.order == mmchain.plan("f64:40x200x30x20", precision="reproducible", objective="flops").order
    together = mmchain.multi_dot(arrays, precision="reproducible", objective="flops")
    alone = mmchain.multi_dot([*arrays[:2], arrays[2][5]], precision="reproducible", objective="flops")
    np.testing.assert_array_equal(together[5], alone)
    np.testing.assert_array_equal(p.execute(arrays), together)


def test_strided_stacks_are_not_copied(rng):
    a = rng.random((4, 3, 5, 2)).transpose(3, 0, 2, 1)  # rows have stride 2
    b = rng.random((4, 3, 6))[::-1]
    np.testing.assert_allclose(mmchain.multi_dot([a, b]), a @ b)
    a = rng.random((6, 5, 3))[::-2].swapaxes(1, 2)
    assert is_direct([a, rng.random((5, 2))])
    b = rng.random((5, 2))
    np.testing.assert_allclose(mmchain.multi_dot([a, b]), a @ b)


def test_repeated_arrays(rng):
    a, b = rng.random((4, 4)) / 2, rng.random((5, 4, 4)) / 2
    for arrays in ([a, a], [a] * 7, [a, b, a, b], [a, a.T, a, a.T], [b, b[::-1], b], [a[:2], a, a]):
        expected = reduce(np.matmul, arrays)
        for _ in range(2):
            np.testing.assert_allclose(mmchain.multi_dot(arrays), expected, rtol=1e-13)
        other = [np.array(x) for x in arrays]  # equal, but none is another
        np.testing.assert_allclose(mmchain.multi_dot(other), expected, rtol=1e-13)


@pytest.mark.parametrize("n", [8, 9, 16, 17, 100])
def test_many_arrays_at_one_address(rng, n):
    base = rng.standard_normal((8, 8)) / 4
    parts = [p for m in (base, base.copy()) for p in (m, m[:4], m[:, :4], m[:4, :4])]
    pool = [x for part in parts for x in (part, part.T)]
    arrays = [pool[0]]
    while len(arrays) < n:
        fitting = [x for x in pool if x.shape[0] == arrays[-1].shape[1]]
        arrays.append(fitting[rng.integers(len(fitting))])
    scale = reduce(np.matmul, [np.abs(x) for x in arrays]).max()
    found = mmchain.multi_dot(arrays)
    assert np.abs(found - reduce(np.matmul, arrays)).max() <= n * 8 * np.finfo("d").eps * scale


def test_powers(rng):
    a = rng.standard_normal((9, 9)) / 6
    for dtype in ("f", "d", "F", "D"):
        x = a.astype(dtype)
        expected = np.linalg.matrix_power(x.astype("D"), 60)
        found = mmchain.multi_dot([x] * 60, objective="flops")
        scale = np.abs(np.linalg.matrix_power(np.abs(a), 60)).max()
        assert np.abs(found - expected).max() <= 60 * 9 * np.finfo(dtype).eps * scale


def test_a_stack_in_one_call(rng):
    arrays = [rng.random((200, 3, 4)), rng.random((200, 4, 5)), rng.random((5, 2))]
    expected = arrays[0] @ arrays[1] @ arrays[2]
    for text in ("f64:3x4x5x2@200", "f64:3x4x5x2"):  # together, and one after the other
        plan = mmchain.plan(text, device="ref")
        np.testing.assert_allclose(plan.execute(arrays), expected, rtol=1e-13)
    assert mmchain.plan("f64:3x4x5x2@200").multiplications == 200 * 64
    with pytest.raises(ValueError, match="expected the shapes of f64:3x4x5x2@199"):
        mmchain.plan("f64:3x4x5x2@199").execute(arrays)
    with pytest.raises(ValueError, match="expected the shapes of f64:3x4x5x2@200"):
        mmchain.plan("f64:3x4x5x2@200").execute([x[0] for x in arrays[:2]] + arrays[2:])


def factors_of(stack):
    return [stack[..., i, :, :] for i in range(stack.shape[-3])]


@pytest.mark.parametrize("shape", [(2, 3, 3), (7, 4, 4), (100, 5, 5), (6, 7, 3, 3), (2, 3, 4, 5, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16", "int64"])
def test_one_stack_is_the_chain(rng, shape, dtype):
    scale = 2 if dtype == "int64" else 1 / shape[-1] ** 0.5
    a = (scale * rng.standard_normal(shape)).astype(dtype)
    tolerance = {"float16": 0.05, "float32": 1e-4}.get(dtype, 1e-12)
    layouts = [a, np.asfortranarray(a), a[..., ::-1, :, :], a.swapaxes(-1, -2), a[..., :1, :, :].repeat(4, -3)]
    for x in layouts:
        expected = reduce(np.matmul, factors_of(x))
        result = mmchain.multi_dot(x)
        assert result.shape == expected.shape and result.dtype == expected.dtype
        scale = np.abs(expected).max() + 1e-300
        least = 1e-5 if dtype == "float16" else 0  # subnormal there
        assert np.abs(result - expected).max() <= tolerance * scale + least
        if dtype != "int64":
            np.testing.assert_array_equal(mmchain.plan(x).execute(x), result)
        out = np.full(expected.shape, 7, dtype)
        assert mmchain.multi_dot(x, out=out) is out
        np.testing.assert_array_equal(out, result)


def test_a_stack_is_not_taken_apart(rng):
    a = rng.random((1000, 2, 2)) / 2
    execute = _mmchain.execute
    assert execute(None, a, None, "time", None, "native", None, False) is not NotImplemented
    assert execute(None, a[:, :, ::2], None, "time", None, "native", None, False) is NotImplemented
    np.testing.assert_array_equal(mmchain.multi_dot(a), mmchain.multi_dot(list(a)))
    p = np.broadcast_to(rng.random((3, 3)) / 2, (50, 3, 3))
    assert mmchain.plan(p).chain == "f64:3x3^50"
    np.testing.assert_allclose(mmchain.multi_dot(p), np.linalg.matrix_power(p[0], 50), rtol=1e-12)
    # Where one of several stacks is broadcast unevenly, factors are given one by one.
    b = np.broadcast_to(rng.random((2, 1, 4, 3, 3)), (2, 5, 4, 3, 3))
    np.testing.assert_allclose(mmchain.multi_dot(b), reduce(np.matmul, factors_of(b)), rtol=1e-12)
    one = rng.random((1, 2, 3))
    np.testing.assert_array_equal(mmchain.plan(one).execute(one), one[0])
    np.testing.assert_array_equal(mmchain.multi_dot(np.ones((4, 0, 0))), np.ones((0, 0)))
    assert mmchain.multi_dot(np.ones((0, 4, 2, 2))).shape == (0, 2, 2)


@pytest.mark.parametrize("shape", [(1, 3, 3), (0, 3, 3), (3, 2, 3), (3, 3)])
def test_stacks_that_are_no_chain(shape):
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        mmchain.multi_dot(np.ones(shape))
    with pytest.raises(ValueError, match="out"):
        mmchain.multi_dot(np.ones((3, 2, 2)), out=np.empty((2, 3)))


def test_mixed_broadcasting(rng):
    a, b, c = rng.random((6, 1, 3, 4)), rng.random((5, 4, 2)), rng.random((6, 5, 2, 3))
    views = [a, a[::-1], np.broadcast_to(a, (6, 5, 3, 4)), a[:, :, ::-1].copy()]
    for x in views:
        for z in (c, c[::-2][:, ::-1], c[:, ::-1]):
            x_cut = x[: z.shape[0]]
            np.testing.assert_allclose(mmchain.multi_dot([x_cut, b, z]), x_cut @ b @ z, rtol=1e-13)


def test_stacks_with_strides_of_no_whole_elements(rng):
    records = np.zeros((7, 3), dtype=[("x", "c16", (2, 2)), ("y", "f8")])
    records["x"] = rng.random((7, 3, 2, 2)) + 1j
    x = records["x"]  # 72 bytes apart, and an element is 16
    np.testing.assert_allclose(mmchain.multi_dot([x, x]), x @ x, rtol=1e-13)


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
    with pytest.raises(TypeError, match="precision: expected"):
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


def test_arrays_that_change_between_calls(rng):
    """The same objects come again, with other memory, shapes, strides and dtypes."""

    def check(given):
        expected = given[0]
        for factor in given[1:]:
            expected = expected @ factor
        for _ in range(2):
            result = mmchain.multi_dot(given)
            assert result.dtype == expected.dtype and result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=1e-6)

    for count in (2, 30):
        given = [rng.random((6, 6)) / 3 for _ in range(count)]
        check(given)
        given[1] *= 0.5
        check(given)
        given[-1] = rng.random((6, 8))
        check(given)
        given[-1].resize((6, 3), refcheck=False)
        check(given)
        given[0].resize((40, 6), refcheck=False)
        given[0][:] = rng.random((40, 6))
        check(given)
        given[0] = rng.random((6, 6)).astype(">f8")
        check(given)
        given[0] = np.asfortranarray(rng.random((6, 6)))
        check(given)
        given[0] = rng.random((12, 12))[::2, ::2]
        check(given)
        given[0] = rng.random((6, 6))[::-1]
        check(given)
        given[0] = rng.random(6)
        check(given)
        given[0] = np.broadcast_to(rng.random(6), (4, 6))
        check(given)
        given[0] = np.empty(289, np.uint8)[1:].view(np.float64).reshape(6, 6)  # not aligned
        given[0][:] = rng.random((6, 6))
        check(given)
        given[0].flags.writeable = False
        check(given)


def test_dtypes_that_are_the_same_under_other_names():
    for given in (np.longlong, np.intc, np.dtype("f8", metadata={"of": "nothing"}), "<u8", "=f4"):
        a = np.arange(12).reshape(3, 4).astype(given)
        expected = a @ a.T @ a
        result = mmchain.multi_dot([a, a.T, a])
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def _rows(rng, stack, m, k, dtype, kind):
    """A stack of m x k matrices whose rows are those of one matrix, or not."""
    whole = np.asarray(rng.standard_normal((*stack, m, k + 3)), dtype)
    if kind == "padded":
        return whole[..., :k]
    if kind == "turned":
        return np.ascontiguousarray(np.swapaxes(whole[..., :k], -1, -2)).swapaxes(-1, -2)
    if kind == "every other":
        return np.asarray(rng.standard_normal((*stack, 2 * m, k)), dtype)[..., ::2, :]
    if kind == "apart":
        return np.asarray(rng.standard_normal((*stack, m + 1, k)), dtype)[..., :m, :]
    if kind == "swapped" and len(stack) == 2:
        return np.asarray(rng.standard_normal((*stack[::-1], m, k)), dtype).swapaxes(0, 1)
    return np.ascontiguousarray(whole[..., :k])


@pytest.mark.parametrize("kind", ["plain", "padded", "turned", "every other", "apart", "swapped"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128", "int32"])
def test_rows_by_shared_factors(rng, kind, dtype):
    """Products that differ in their first factor alone, which may be computed as rows of one."""
    for stack in [(64,), (5, 40), (1, 300), (300, 1)]:
        for m, dims in [(1, [48, 40]), (3, [5, 5, 5]), (4, [32, 8, 32]), (2, [1, 7])]:
            scale = 9 if dtype == "int32" else 1
            first = (_rows(rng, stack, m, dims[0], "float64", kind) * scale).astype(dtype)
            first = first if kind == "plain" else _rows(rng, stack, m, dims[0], dtype, kind)
            others = [
                np.asarray(rng.standard_normal(shape) * scale, dtype)
                for shape in zip(dims, dims[1:])
            ]
            if m == 4:
                others[0] = others[0].reshape((1,) * len(stack) + others[0].shape)
            if m == 3:
                others.append(np.asarray(rng.standard_normal(5) * scale, dtype))
            arrays = [first, *others]
            if m == 3:  # a vector stands at the end
                expected = reduce(np.matmul, [a.astype("complex128") for a in arrays[:-1]]) @ arrays[-1]
            else:
                expected = reduce(np.matmul, [a.astype("complex128") for a in arrays])
            if dtype == "int32":
                expected = np.round(expected.real)
            tolerance = {"float16": 2e-2, "float32": 1e-5}.get(dtype, 1e-12)
            out = np.full(expected.shape, 1, dtype)
            plan = mmchain.plan(arrays)
            one = mmchain.plan(arrays, precision="reproducible") if dtype != "int32" else plan
            for result in [
                mmchain.multi_dot(arrays),
                mmchain.multi_dot(arrays),
                mmchain.multi_dot(arrays, out=out),
                plan.execute(arrays),
                one.execute(arrays),
            ]:
                assert result.shape == expected.shape and result.dtype == dtype
                assert np.abs(result - expected).max() <= tolerance * np.abs(expected).max() + 1e-30


def test_rows_are_planned_as_they_are_multiplied(rng):
    x = rng.standard_normal((64, 1, 512))
    v, w = rng.standard_normal((2, 512, 512))
    plan = mmchain.plan([x, v, w])
    assert plan.chain == "f64:64x512x512x512"
    mmchain.multi_dot([x, v, w])
    assert _mmchain.cached_plan().chain == plan.chain
    # What is not rows of one matrix stays a batch, and so does what must not depend on its size.
    assert mmchain.plan([x, v, w], precision="reproducible").chain == "f64:1x512x512x512@64:Nnn"
    assert mmchain.plan([x, v, w], order="A1 (A2 A3)").chain == "f64:1x512x512x512@64:Nnn"
    assert mmchain.plan([x, v, w], memory_limit=10**9).chain == "f64:1x512x512x512@64:Nnn"
    assert mmchain.plan([x, x.swapaxes(-1, -2)]).chain == "f64:1x512x1@64"
    # A NaN stays in its own product.
    x[3, 0, 7] = np.nan
    result = mmchain.multi_dot([x, v, w])
    assert np.isnan(result[3]).all() and np.isfinite(np.delete(result, 3, axis=0)).all()


def test_rows_of_nothing(rng):
    w = rng.standard_normal((4, 3))
    for shape in [(0, 2, 4), (5, 0, 4), (3, 0, 0, 4)]:
        assert mmchain.multi_dot([np.ones(shape), w, w.T]).shape == (*shape[:-1], 4)
