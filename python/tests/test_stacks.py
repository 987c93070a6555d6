"""multi_dot on stacks of NumPy arrays: what products share, one stack as a chain, rows of one matrix."""

from functools import reduce

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain
from chains import DTYPES, assert_close, is_direct, random_array


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


# ---- rows of one matrix ----------------------------------------------------------------------


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
