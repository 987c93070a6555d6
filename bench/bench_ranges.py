#!/usr/bin/env python3
"""Times products of a row of matrices of which one has changed, one JSON line a row.

    PYTHONPATH=build/python python3 bench/bench_ranges.py [ROUNDS]

`update_s` is what mmchain.Ranges takes to change one factor at random and to give the product of
all; `slide_s` to append one, take one from the front, and to give the product of all. `multi_dot_s`
is mmchain.multi_dot of the changed stack, and `numpy_s` a loop of NumPy's products. All are medians
of calls in turns; `ratio` and `ratio_numpy` are medians of the two over update_s, round by round,
and `spread` half the range between the quartiles of `ratio` over its median.
"""

import json
import statistics
import sys
import time
from functools import reduce

import numpy as np

import mmchain

ROWS = [(1000, 64), (1000, 16), (1000, 4), (100, 64), (100, 256)]


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(count, n, rounds):
    rng = np.random.default_rng(1)
    factors = np.linalg.qr(rng.standard_normal((count, n, n)))[0]
    changed = np.linalg.qr(rng.standard_normal((64, n, n)))[0]
    ranges, sliding = mmchain.Ranges(factors), mmchain.Ranges(factors)
    expected = reduce(np.matmul, factors)
    assert np.abs(ranges.product() - expected).max() <= 1e-11
    sliding.product()

    def update():
        i, a = int(rng.integers(count)), changed[rng.integers(64)]
        factors[i] = a
        ranges.update(i, a)
        ranges.product()

    def slide():
        sliding.append(changed[rng.integers(64)])
        sliding.pop_front()
        sliding.product()

    calls = {
        "update_s": update,
        "multi_dot_s": lambda: mmchain.multi_dot(factors),
        "numpy_s": lambda: reduce(np.matmul, factors),
        "slide_s": slide,
    }
    samples = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            repeats = 10 if name in ("update_s", "slide_s") else 1
            samples[name].append(sum(seconds(call) for _ in range(repeats)) / repeats)
    assert np.abs(ranges.product() - reduce(np.matmul, factors)).max() <= 1e-11
    line = {"factors": count, "n": n}
    line.update((name, statistics.median(values)) for name, values in samples.items())
    for name, peer in (("ratio", "multi_dot_s"), ("ratio_numpy", "numpy_s")):
        ratios = [b / a for a, b in zip(samples["update_s"], samples[peer])]
        line[name] = statistics.median(ratios)
        if name == "ratio":
            low, middle, high = statistics.quantiles(ratios, n=4)
            line["spread"] = (high - low) / 2 / middle
    return line


if __name__ == "__main__":
    for row in ROWS:
        print(json.dumps(measure(*row, int(sys.argv[1]) if len(sys.argv) > 1 else 21)), flush=True)
