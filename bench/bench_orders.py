#!/usr/bin/env python3
"""Compares the orders of opt_einsum with those of mmchain.order, one JSON line a length.

    PYTHONPATH=build/python python3 bench/bench_orders.py

Chains of random dims from 1 to 1000, uniform, from a fixed seed; opt_einsum's optimizer is "auto", its
default. The multiplications of each order are counted exactly, and the seconds are those of planning.
"""

import json
import statistics
import time

import opt_einsum

import mmchain


def count(dims, path):
    """The multiplications of a path of pairwise contractions, as opt_einsum has it."""
    parts, total = [(d, d + 1) for d in range(len(dims) - 1)], 0
    for pair in path:
        a, b = (parts.pop(i) for i in sorted(pair, reverse=True))
        (first, split), (other, last) = sorted([a, b])
        if split == other:
            total += dims[first] * dims[split] * dims[last]
        else:  # an outer product of two matrices that are no neighbours: not within this count
            return None
        parts.append((first, last))
    return total


def bench(n, trials, rng):
    ratios, theirs_s, ours_s = [], [], []
    for _ in range(trials):
        dims = [rng.randint(1, 1000) for _ in range(n + 1)]
        labels = [opt_einsum.get_symbol(i) for i in range(n + 1)]
        text = ",".join(a + b for a, b in zip(labels, labels[1:])) + "->" + labels[0] + labels[-1]
        start = time.perf_counter()
        path, _ = opt_einsum.contract_path(text, *zip(dims, dims[1:]), shapes=True, optimize="auto")
        middle = time.perf_counter()
        best = mmchain.order(dims)
        end = time.perf_counter()
        theirs = count(dims, path)
        if theirs is not None:
            ratios.append(theirs / best.multiplications)
        theirs_s.append(middle - start)
        ours_s.append(end - middle)
    return {
        "n": n,
        "trials": trials,
        "counted": len(ratios),
        "multiplications_ratio": statistics.median(ratios) if ratios else None,
        "least": min(ratios, default=None),
        "most": max(ratios, default=None),
        "opt_einsum_s": statistics.median(theirs_s),
        "ours_s": statistics.median(ours_s),
    }


def main():
    import random

    print(json.dumps({"opt_einsum": opt_einsum.__version__, "mmchain": mmchain.__version__}))
    rng = random.Random(1)
    for n, trials in ((6, 101), (20, 101), (100, 31), (200, 31), (1000, 11)):
        print(json.dumps(bench(n, trials, rng)), flush=True)


if __name__ == "__main__":
    main()
