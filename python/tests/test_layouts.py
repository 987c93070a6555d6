"""multi_dot on NumPy arrays however they lie in memory: strides, byte orders, views, and what changes between calls."""

import sys
from functools import reduce

import numpy as np
import pytest

import mmchain
from chains import DTYPES, assert_close, is_direct, random_array, random_chain, random_dims, strided


def gapped(array):
    """The same matrix with a row stride larger than its columns."""
    wider = np.full((array.shape[0], array.shape[1] + 3), np.nan, array.dtype)
    wider[:, : array.shape[1]] = array
    return wider[:, : array.shape[1]]


def unaligned(array):
    data = np.empty(array.nbytes + 1, np.uint8)
    view = data[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def in_records(array):
    """A field of packed records, whose other one is a byte."""
    records = np.zeros(array.shape, [("byte", "u1"), ("number", array.dtype)])
    records["number"] = array
    return records["number"]


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
    "byte order": (lambda a: a.astype(a.dtype.newbyteorder()), True),
    "byte order, both strides": (lambda a: strided(a.astype(a.dtype.newbyteorder())), True),
    "byte order, backwards": (lambda a: a[::-1, ::-1].astype(a.dtype.newbyteorder())[::-1, ::-1], True),
    "byte order that is said": (lambda a: as_said(a), True),
    "unaligned": (unaligned, True),
    "unaligned, byte order": (lambda a: unaligned(a.astype(a.dtype.newbyteorder())), True),
    "in records": (lambda a: in_records(a), True),
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


def test_arrays_of_files(rng, tmp_path):
    """They are arrays like any other, for every dtype and option, and may be written to."""
    for dtype in ("i8", "f2", "f8", "c16"):
        a = (rng.random((5, 5)) * 9).astype(dtype)
        np.save(tmp_path / "a.npy", a)
        read = np.load(tmp_path / "a.npy", mmap_mode="r")
        wanted = mmchain.multi_dot([a, a, a])
        assert is_direct([read, read])
        for result in (mmchain.multi_dot([read] * 3), mmchain.plan([read] * 3).execute([read] * 3)):
            assert type(result) is np.ndarray
            np.testing.assert_array_equal(result, wanted)
        mmchain.multi_dot([read, read], precision="reproducible")
        out = np.lib.format.open_memmap(tmp_path / "r.npy", "w+", a.dtype, (3, 5, 5))
        assert mmchain.multi_dot([read, read], out=out[0]).base is not None
        np.testing.assert_array_equal(out[0], mmchain.multi_dot([a, a]))
        stack = np.stack([a, a, a])
        assert mmchain.scan(stack, out=out) is out
        np.testing.assert_array_equal(out, mmchain.scan(stack))
        if dtype in ("f8", "c16"):
            assert mmchain.multi_dot([mmchain.permutation(range(5)), read], out=out[1]) is not None
            np.testing.assert_array_equal(out[1], a)


def test_stacks_in_records(rng):
    """Some of their matrices are aligned and others are not."""
    for shape in ((2, 7, 1, 1), (2, 7, 3, 3)):
        stack = in_records(rng.random(shape, np.float32))
        factors = [stack[:, i] for i in range(7)]
        for found in (mmchain.multi_dot(stack), mmchain.multi_dot(factors)):
            np.testing.assert_allclose(found, reduce(np.matmul, factors), rtol=1e-5)


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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_every_half_beside_others(dtype):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)[:, None]
    arrays = [halves, np.ones((1, 1), dtype)]
    assert is_direct(arrays)
    result, expected = mmchain.multi_dot(arrays), halves.astype(dtype)
    assert result.dtype == expected.dtype
    kept = np.isfinite(halves) if dtype.startswith("c") else slice(None)
    np.testing.assert_array_equal(result[kept], expected[kept])


@pytest.mark.parametrize("stack", [(), (2,), (2, 3), (2, 1, 3)])
def test_out_that_may_be_written_and_that_may_not(rng, stack):
    a = rng.random((*stack, 4, 4))
    warns = np.broadcast_arrays(np.zeros((*stack, 4, 4)), 0)[0]  # NumPy warns who writes this one
    for out in (np.zeros_like(a), warns):
        assert mmchain.multi_dot([a, a], out=out) is out
        assert_close(out, [a, a])
    kept = np.zeros_like(a)
    kept.flags.writeable = False
    with pytest.raises(ValueError, match="output array is not acceptable"):
        mmchain.multi_dot([a, a], out=kept)
    assert not kept.any()


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
        order = str(rng.choice(["=", "=", "S"]))
        of = kind if not arrays else [*kind, "float16"]
        arrays.append(any_view(rng, shape, np.dtype(str(rng.choice(of))).newbyteorder(order)))
    if rng.random() < 0.3:
        arrays.append(np.ones((dims[-1], dims[-1]), kind[0])[::-1])
        arrays.append(arrays[-1])
    dtype = np.result_type(*arrays).newbyteorder("=")
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
