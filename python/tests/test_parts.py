"""Parts of a chain that depend on some axes of its stack only are multiplied by themselves first."""

from functools import reduce

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain


def _draw(rng, shape, dtype):
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return (values * 4).astype(dtype)


def _expect(arrays, result):
    wide = [np.asarray(a, complex) for a in arrays]
    want, scale = reduce(np.matmul, wide), reduce(np.matmul, [abs(a) for a in wide])
    assert result.shape == want.shape and result.dtype == arrays[0].dtype
    eps = np.finfo(result.dtype).eps if result.dtype.kind in "fc" else 0
    assert not np.any(abs(result - want) > 100 * eps * scale)


@pytest.mark.parametrize(
    "stacks",
    [
        [(4,), (4,), (3, 4), ()],
        [(3, 4), (4,), (1, 4)],
        [(3, 1), (3, 1), (4,), (1, 4)],
        [(2, 3, 1), (3, 1), (1, 3, 1), (2, 1, 4)],
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
def test_parts_are_factors(rng, stacks, dtype):
    arrays = [_draw(rng, (*stack, 40, 40), dtype) for stack in stacks]
    _mmchain.clear_cache()
    for _ in range(4):  # the first three times what is little has no plan
        _expect(arrays, mmchain.multi_dot(arrays))
    if dtype == "float64":
        made = _mmchain.cached_plan().chain
        assert made.partition("@")[0].count("x") < len(arrays)  # one factor is a part's product
    out = np.empty_like(mmchain.multi_dot(arrays))
    assert mmchain.multi_dot(arrays, out=out) is out
    _expect(arrays, out)
    given = reduce("({} {})".format, ["A%d" % (i + 1) for i in range(len(arrays))])
    for plan in (mmchain.plan(arrays), mmchain.plan(arrays, order=given)):
        _expect(arrays, plan.execute(arrays))
        with pytest.raises(ValueError):
            plan.execute([*arrays[:-1], arrays[-1][..., :39]])


@pytest.mark.parametrize("case", range(40))
def test_any_axes(rng, case):
    n = int(rng.integers(3, 7))
    sizes, dims = rng.integers(1, 5, 3), rng.integers(1, [60, 12][case % 2], n + 1)
    dtype = ["float32", "float64", "complex128"][case % 3]
    arrays = []
    for rows, cols in zip(dims, dims[1:]):
        stack = [int(size) if rng.random() < 0.6 else 1 for size in sizes[int(rng.integers(0, 4)) :]]
        made = _draw(rng, (*stack, rows, cols), dtype)
        arrays.append(np.swapaxes(np.swapaxes(made, -1, -2).copy(), -1, -2) if rng.random() < 0.4 else made)
    _expect(arrays, mmchain.multi_dot(arrays))


def test_what_is_left_alone(rng):
    """Reproducible products, whose bits are those of the plan's order, and what is said of errors."""
    arrays = [_draw(rng, (*stack, 40, 40), "float64") for stack in [(4,), (4,), (3, 4)]]
    alone = np.stack([mmchain.multi_dot([arrays[0], arrays[1], part], precision="reproducible") for part in arrays[2]])
    assert np.array_equal(mmchain.multi_dot(arrays, precision="reproducible"), alone)
    with pytest.raises(ValueError, match="broadcast"):
        mmchain.multi_dot([*arrays, arrays[2][:, :3]])
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([arrays[0], arrays[1], arrays[2][..., :7, :]])
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        mmchain.multi_dot([arrays[0] * 1e200, arrays[1] * 1e200, arrays[2]])
