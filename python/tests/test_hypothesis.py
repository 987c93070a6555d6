"""Any chain: shapes, strides, dtypes, stacks and vectors, against NumPy in double precision."""

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings, strategies as st  # noqa: E402

import mmchain  # noqa: E402
from mmchain import _mmchain  # noqa: E402
from chains import DTYPES, random_array, wide  # noqa: E402


@st.composite
def views(draw, shape, dtype):
    """An array of a shape, cut out of a larger one with any strides, axes in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    axes = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    margins = [draw(st.integers(0, 2)) for _ in shape]
    sizes = [size * abs(step) + 2 * margin for size, step, margin in zip(shape, steps, margins)]
    base = random_array(rng, [sizes[a] for a in axes], dtype)
    view = base.transpose(np.argsort(axes)) if shape else base
    cuts = []
    for size, step, margin in zip(shape, steps, margins):
        cut = slice(margin, margin + size * abs(step), abs(step))
        cuts.append(cut)
    view = view[tuple(cuts)]
    view = view[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in steps)]
    assert view.shape == tuple(shape)
    return view


@st.composite
def chains(draw):
    n = draw(st.integers(2, 6))
    dims = draw(st.lists(st.integers(0, 7), min_size=n + 1, max_size=n + 1))
    dtypes = draw(st.sampled_from([[t] for t in DTYPES] + [["float32", "float64"], ["complex64"]]))
    stack = draw(st.lists(st.integers(0, 3), max_size=2))
    arrays = []
    for i in range(n):
        shape = [dims[i], dims[i + 1]]
        own = stack[draw(st.integers(0, len(stack))) :]
        own = [1 if draw(st.booleans()) else size for size in own]
        shape = own + shape
        if i in (0, n - 1) and draw(st.integers(0, 3)) == 0:
            shape = [dims[1]] if i == 0 else [dims[n - 1]]
        arrays.append(draw(views(shape, draw(st.sampled_from(dtypes)))))
    return arrays


def reference(arrays, take=lambda a: a):
    """The product of take(array) in double precision, as matmul has vectors and stacks."""
    first, last = arrays[0].ndim == 1, arrays[-1].ndim == 1
    values = [take(wide(array)) for array in arrays]
    if first:
        values[0] = values[0][None, :]
    if last:
        values[-1] = values[-1][:, None]
    product = values[0]
    for value in values[1:]:
        product = np.matmul(product, value)
    if last:
        product = product[..., 0]
    if first:
        product = product[..., 0] if last else product[..., 0, :]
    return product


@settings(deadline=None, max_examples=300, print_blob=True)
@given(chains(), st.booleans())
def test_any_chain(arrays, give_out):
    expected = reference(arrays)
    dtype = np.result_type(*arrays)
    out = np.full(expected.shape, np.nan, dtype) if give_out else None
    result = mmchain.multi_dot(arrays, out=out)
    assert (result is out) if give_out else result.shape == expected.shape
    assert result.dtype == dtype
    # Every element's error is bounded by the product of absolute values (Higham 2002, 3.5).
    eps = float(np.finfo(dtype).eps)
    bound = 8 * eps * (1 + sum(a.shape[-1] for a in arrays)) * reference(arrays, np.abs)
    assert (np.abs(wide(result) - expected) <= bound + eps).all()


@st.composite
def repeating_chains(draw):
    """Chains in which some arrays, or other views of the same memory, stand several times."""
    dims = [draw(st.integers(1, 6)) for _ in range(2)]
    dtype = draw(st.sampled_from(DTYPES))
    stack = draw(st.sampled_from([(), (), (3,), (2, 3), (0,), (40,)]))
    mixed = draw(st.booleans())
    kinds = {}
    for i, shape in enumerate([(dims[0], dims[1]), (dims[1], dims[0])]):
        own = draw(st.sampled_from([stack, stack[1:], (1,) * len(stack), ()]))
        kinds[i] = [
            draw(views(own + shape, "float32" if mixed and draw(st.booleans()) else dtype))
            for _ in range(2)
        ]
    arrays = []
    for i in range(draw(st.integers(2, 12))):
        array = draw(st.sampled_from(kinds[i % 2]))
        arrays.append(array[...] if draw(st.booleans()) else array)
    if stack and all(array.ndim == 2 for array in arrays):
        arrays[0] = np.broadcast_to(arrays[0], stack + arrays[0].shape)
    return arrays


@settings(deadline=None, max_examples=300, print_blob=True)
@given(st.one_of(chains(), repeating_chains()))
def test_a_plan_from_arrays_is_what_multi_dot_makes(arrays):
    mmchain.clear_cache()
    expected = mmchain.multi_dot(arrays)
    for _ in range(3):  # the first three may have no plan
        np.testing.assert_array_equal(mmchain.multi_dot(arrays), expected)
    plan = mmchain.plan(arrays)
    theirs = _mmchain.cached_plan()
    assert plan.explain("json") == theirs.describe("json")
    np.testing.assert_array_equal(plan.execute(arrays), expected)
    # A plan for one such chain makes itself one for as many.
    one = mmchain.plan(plan.chain.partition("@")[0])
    assert_close(one.execute(arrays), expected, arrays)


def assert_close(one, other, arrays):
    """Two products of the same factors differ by rounding alone, wherever no sum can overflow."""
    facts = np.finfo(other.dtype)
    sizes = reference(arrays, np.abs)
    terms = len(arrays) + max(a.shape[-1] for a in arrays)
    far = 4 * float(facts.eps) * terms * sizes + float(facts.eps)
    with np.errstate(invalid="ignore"):
        close = np.abs(wide(one) - wide(other)) <= far
    assert (close | ~(8 * sizes < float(facts.max))).all()


@settings(deadline=None, max_examples=100, print_blob=True)
@given(st.lists(st.integers(1, 50), min_size=3, max_size=9))
def test_orders_are_the_cheapest(dims):
    from functools import lru_cache

    @lru_cache(None)
    def cost(i, j):
        if j - i == 1:
            return 0
        return min(cost(i, k) + cost(k, j) + dims[i] * dims[k] * dims[j] for k in range(i + 1, j))

    plan = mmchain.plan("x".join(map(str, dims)), objective="flops")
    assert plan.multiplications == cost(0, len(dims) - 1)
    assert plan.multiplications == sum(step.multiplications for step in plan.steps)
