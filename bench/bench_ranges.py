#!/usr/bin/env python3
"""Times products of a row of matrices of which one has changed, one JSON line a row.

    PYTHONPATH=build/python python3 bench/bench_ranges.py [ROUNDS [DEVICE]]

`update_s` is what mmchain.Ranges takes to change one factor at random and to give the product of
all; `slide_s` to append one, take one from the front, and to give the product of all. `multi_dot_s`
is mmchain.multi_dot of the changed stack, and `numpy_s` a loop of NumPy's products. All are medians
of calls in turns; `ratio` and `ratio_numpy` are medians of the two over update_s, round by round,
and `spread` half the range between the quartiles of `ratio` over its median. With DEVICE cuda the
rows are PyTorch's tensors of f32 and f64 there, each time is that of many calls of which the last is
waited for, and `multi_dot_s` is the only peer.
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


def measure_on_gpu(count, n, dtype, rounds):
    import torch

    torch.manual_seed(1)
    dtype = getattr(torch, dtype)
    factors = torch.linalg.qr(torch.randn(count, n, n, dtype=dtype))[0].cuda()
    changed = torch.linalg.qr(torch.randn(64, n, n, dtype=dtype))[0].cuda()
    ranges, at = mmchain.Ranges(factors), 0

    def update():
        nonlocal at
        at += 1
        ranges.update(at * 617 % count, changed[at % 64])
        return ranges.product()

    def run(call, repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / repeats

    calls = {"update_s": (update, 50), "multi_dot_s": (lambda: mmchain.multi_dot(factors), 10)}
    samples = {name: [] for name in calls}
    for name, (call, repeats) in calls.items():
        run(call, repeats)
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(run(*call))
    for number in range(1, at + 1):
        factors[number * 617 % count] = changed[number % 64]
    expected = reduce(torch.matmul, factors.double())
    error = float((ranges.product().double() - expected).abs().max())
    assert error <= 4 * count * torch.finfo(dtype).eps
    ratios = [b / a for a, b in zip(samples["update_s"], samples["multi_dot_s"])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    line = {"factors": count, "n": n, "dtype": str(dtype)[6:]}
    line.update((name, statistics.median(values)) for name, values in samples.items())
    return {**line, "ratio": middle, "spread": (high - low) / 2 / middle}


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    for row in ROWS + [(1000, 256)] if sys.argv[2:] == ["cuda"] else ROWS:
        if sys.argv[2:] == ["cuda"]:
            for dtype in ("float32", "float64"):
                print(json.dumps(measure_on_gpu(*row, dtype, rounds)), flush=True)
        else:
            print(json.dumps(measure(*row, rounds)), flush=True)
