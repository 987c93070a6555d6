#!/usr/bin/env python3
"""Times mmchain.multi_dot under jax.jit against jnp.linalg.multi_dot, one JSON line a chain.

    PYTHONPATH=build/python python3 bench/bench_jax.py

The two take turns, on JAX's default device; seconds are of one call, among many of which the last is
waited for. ratio is the median of the peer's seconds by ours, and the quartiles follow. Results are
compared first; inputs are normal numbers from a fixed seed.
"""

import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import mmchain

jax.config.update("jax_enable_x64", True)

CHAINS = [
    [10, 30, 5, 60],
    [30, 35, 15, 5, 10, 20, 25],
    [64] * 9,
    [3, 3022, 78, 1598, 3],
    [300, 350, 150, 50, 100, 200, 250],
]


def seconds(function, arrays, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        result = function(arrays)
    result.block_until_ready()
    return (time.perf_counter() - start) / repeats


def bench(dims, dtype, rounds=31):
    rng = np.random.default_rng(1)
    arrays = [jnp.asarray(rng.standard_normal(shape), dtype) for shape in zip(dims, dims[1:])]
    ours, theirs = jax.jit(lambda x: mmchain.multi_dot(x)), jax.jit(lambda x: jnp.linalg.multi_dot(x))
    expected = np.asarray(theirs(arrays))
    error = float(np.abs(np.asarray(ours(arrays)) - expected).max() / np.abs(expected).max())
    assert error <= 1e3 * np.finfo(dtype).eps, error
    repeats = max(1, int(0.01 / seconds(theirs, arrays, 10)))
    pairs = [(seconds(theirs, arrays, repeats), seconds(ours, arrays, repeats)) for _ in range(rounds)]
    quartiles = statistics.quantiles([a / b for a, b in pairs], n=4)
    return {
        "chain": "x".join(map(str, dims)),
        "dtype": dtype,
        "jnp_s": min(a for a, _ in pairs),
        "ours_s": min(b for _, b in pairs),
        "ratio": quartiles[1],
        "quartiles": [quartiles[0], quartiles[2]],
    }


def main():
    print(json.dumps({"jax": jax.__version__, "device": str(jax.devices()[0]), "mmchain": mmchain.__version__}))
    for dims in CHAINS:
        for dtype in ("float32", "float64"):
            print(json.dumps(bench(dims, dtype)), flush=True)


if __name__ == "__main__":
    main()
