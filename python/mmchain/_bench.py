"""Times of a chain on this machine, beside NumPy's."""

from __future__ import annotations

from functools import reduce
from statistics import median
from time import perf_counter
from typing import Any, Callable, Dict, List, Sequence, Union

import numpy as np

from ._plan import plan


def _random(shape: Sequence[int], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _random_factors(factors: Sequence[Any], dtype: np.dtype, rng: np.random.Generator) -> List[np.ndarray]:
    """Matrices, or stacks of them, of which those are one that a plan says to be the same."""
    if not all(is_plain for *_, is_plain in factors):
        raise TypeError("chain: expected no factors with structure, as matrices are random")
    arrays: List[np.ndarray] = []
    for number, (count, rows, columns, same, _) in enumerate(factors):
        shape = (rows, columns) if count == 1 else (count, rows, columns)
        arrays.append(_random(shape, dtype, rng) if same == number else arrays[same])
    return arrays


def _samples(calls: Dict[str, Callable[[], Any]], seconds: float) -> Dict[str, List[float]]:
    """Seconds of each call, taken in turns until the time is up, and at least three times."""
    samples: Dict[str, List[float]] = {name: [] for name in calls}
    end = perf_counter() + seconds
    while len(next(iter(samples.values()))) < 3 or perf_counter() < end:
        for name, call in calls.items():
            start = perf_counter()
            call()
            samples[name].append(perf_counter() - start)
    return samples


def bench(
    chain: Union[str, Sequence[Any]], *, seconds: float = 1.0, seed: int = 1, **options: Any
) -> Dict[str, Any]:
    """Median seconds of `multi_dot` and of `execute` of its plan, of `numpy.linalg.multi_dot` (of
    stacks, which it has not, as below), and of multiplying from left to right with NumPy, on random matrices. The options are `plan`'s.

    >>> result = mmchain.bench("f64:10x30x5x60", seconds=0.01)
    >>> result["order"], sorted(result["seconds"])
    ('((A1 A2) A3)', ['execute', 'left_to_right', 'multi_dot', 'numpy'])
    """
    from . import multi_dot

    made = plan(chain, **options)
    names = {"f16": "e", "f32": "f", "f64": "d", "c64": "F", "c128": "D"}
    name = made.chain.partition(":")[0]
    if name not in names:
        raise TypeError(f"dtype: expected one of {', '.join(names)}, got {name}")
    arrays = _random_factors(made._factors, np.dtype(names[name]), np.random.default_rng(seed))
    stack = any(array.ndim > 2 for array in arrays)
    if len(arrays) < 2:
        raise ValueError("chain: expected at least two factors")
    known = {key: options[key] for key in ("objective", "device", "precision") if key in options}
    calls = {
        "multi_dot": lambda: multi_dot(arrays, **known),
        "execute": lambda: made.execute(arrays),
        "numpy": lambda: reduce(np.matmul, arrays) if stack else np.linalg.multi_dot(arrays),
        "left_to_right": lambda: reduce(np.matmul if stack else np.dot, arrays),
    }
    samples = _samples(calls, seconds)
    return {
        "chain": made.chain,
        "order": made.order,
        "device": made.device,
        "multiplications": made.multiplications,
        "seconds": {name: median(values) for name, values in samples.items()},
    }
