"""What may change nothing, and what may not be worse: properties of plans of chains drawn at random."""

import json

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain

DTYPES = ["float32", "float64", "complex64", "complex128"]


def draw(rng):
    """Arrays of a chain of 2 to 9 factors, of equal or mixed dims, one chain or a batch."""
    n = int(rng.integers(2, 10))
    most = int(rng.choice([4, 16, 50, 130]))
    dims = [int(rng.integers(1, most + 1))] * (n + 1)
    if rng.random() < 0.6:
        dims = [int(rng.integers(1, most + 1)) for _ in range(n + 1)]
    batch = int(rng.choice([1, 1, 2, 40, 700]))
    dtype = rng.choice(DTYPES)
    stack = (batch,) if batch > 1 else ()
    return [np.ones(stack + shape, dtype) for shape in zip(dims, dims[1:])]


def facts(plan):
    """All that a plan says, but for the limit."""
    said = json.loads(plan.describe("json"))
    said.pop("memory_limit_bytes", None)
    return said


@pytest.mark.parametrize("objective", ["time", "flops", "energy"])
def test_a_limit_that_does_not_bind_changes_nothing(rng, objective):
    for _ in range(60):
        arrays = draw(rng)
        free = mmchain.plan(arrays, objective=objective)
        for limit in (1 << 28, 1 << 60):
            bound = mmchain.plan(arrays, objective=objective, memory_limit=limit)
            assert facts(bound) == facts(free), (free.chain, limit)


def test_plan_and_multi_dot_choose_the_same(rng):
    for _ in range(60):
        arrays = draw(rng)
        for objective in ("time", "flops"):
            for _ in range(4):  # the first three times some have no plan
                mmchain.multi_dot(arrays, objective=objective)
            assert facts(_mmchain.cached_plan()) == facts(mmchain.plan(arrays, objective=objective))


def test_a_batch_is_not_predicted_to_take_more_than_its_chains(rng):
    for _ in range(60):
        arrays = [array[:1] if array.ndim > 2 else array[None] for array in draw(rng)]
        one = mmchain.plan([array[0] for array in arrays]).predicted_seconds
        for batch in (2, 17, 400):
            many = mmchain.plan([np.repeat(array, batch, 0) for array in arrays])
            assert many.predicted_seconds <= 1.02 * batch * one, many.chain
