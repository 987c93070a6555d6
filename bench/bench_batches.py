#!/usr/bin/env python3
"""Times batches of one product, drawn at random, against numpy.matmul, in turns.

    python3 bench/bench_batches.py [--seconds 60] [--seed N] [--dtypes f32 f64 c64 c128] [--worst 30]

Sides are drawn evenly by their logarithms, up to 8, 24, 64, 130 or 260, one case in three of equal
sides; batches are of 1 to 1000. Each figure is the least of three to six runs of 2.5 ms, results in
an array that is there, planning included after the first call. Printed are, by dtype and by the
kernel that the plan names, the cases, NumPy's time by ours as geometric mean and least, and the
share below 0.95; then the worst cases, one a line.
"""

import argparse
import collections
import json
import math
import random
import time

import numpy as np

import mmchain

SIDES = [4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 32, 33, 40, 48, 50, 60, 64, 72, 80, 96, 100, 128]
MOST_MULTIPLICATIONS, MOST_ELEMENTS = 4e7, 3e6


def draw(choose):
    """One case: rows, terms and columns, and the batch."""
    while True:
        most = choose.choice([8, 24, 64, 130, 260])
        dims = [max(1, round(math.exp(choose.uniform(0, math.log(most))))) for _ in range(3)]
        if choose.random() < 1 / 3:
            dims = [choose.choice(SIDES)] * 3
        batch = choose.choice([1, 2, 5, 16, 100, 1000])
        m, k, n = dims
        if m * k * n * batch <= MOST_MULTIPLICATIONS and (m * k + k * n + m * n) * batch <= MOST_ELEMENTS:
            return dims, batch


def factor(values, shape, dtype):
    real = values.standard_normal(shape)
    return np.ascontiguousarray((real + 1j * values.standard_normal(shape) if dtype[0] == "c" else real).astype(dtype))


def least_us(call, window_s=0.0025, runs=3):
    """The least time of a call in so many runs of so many seconds, in microseconds."""
    call()
    begin = time.perf_counter()
    call()
    count = max(2, int(window_s / max(time.perf_counter() - begin, 1e-7)))
    least = math.inf
    for _ in range(runs):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        least = min(least, (time.perf_counter() - begin) / count)
    return 1e6 * least


def measure(a, b, out):
    """NumPy's time and ours; where ours is longer, both again."""
    peer = least_us(lambda: np.matmul(a, b, out=out))
    ours = least_us(lambda: mmchain.multi_dot([a, b], out=out))
    if ours > 0.95 * peer:
        peer = min(peer, least_us(lambda: np.matmul(a, b, out=out)))
        ours = min(ours, least_us(lambda: mmchain.multi_dot([a, b], out=out)))
    return peer, ours


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "f64", "c64", "c128"], choices=["f32", "f64", "c64", "c128"])
    parser.add_argument("--worst", type=int, default=30)
    args = parser.parse_args()
    choose, values = random.Random(args.seed), np.random.default_rng(args.seed)
    names = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}
    results, begin = [], time.time()
    while time.time() < begin + args.seconds:
        dtype = choose.choice(args.dtypes)
        (m, k, n), batch = draw(choose)
        stack = (batch,) if batch > 1 else ()
        a, b = factor(values, stack + (m, k), names[dtype]), factor(values, stack + (k, n), names[dtype])
        peer, ours = measure(a, b, np.empty(stack + (m, n), names[dtype]))
        kernel = json.loads(mmchain.plan([a, b]).explain("json"))["steps"][0]["kernel"]
        results.append((peer / ours, dtype, f"{m}x{k}x{n}@{batch}", kernel, peer, ours))
    kinds = collections.defaultdict(list)
    for result in results:
        kinds[result[1], result[3]].append(result[0])
        kinds["all", ""].append(result[0])
    print(f"seed {args.seed}, NumPy {np.__version__}, {len(results)} cases")
    for (dtype, kernel), ratios in sorted(kinds.items()):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = 100 * sum(ratio < 0.95 for ratio in ratios) / len(ratios)
        print(f"{dtype:5} {kernel:10} {len(ratios):5} cases, geomean {mean:.2f}, least {min(ratios):.2f}, below 0.95: {below:.1f} %")
    for ratio, dtype, shape, kernel, peer, ours in sorted(results)[: args.worst]:
        print(f"{ratio:.2f} {dtype}:{shape} {kernel}, NumPy {peer:.1f} us, ours {ours:.1f} us")


if __name__ == "__main__":
    main()
