#!/usr/bin/env python3
"""Times products and running products over semirings, by turns with those of a peer.

    PYTHONPATH=build/python python3 bench/bench_semirings.py [--on cpu|cuda] [--seed N] [--cases N] [--rounds N]

On the CPU the peer is NumPy, on a GPU PyTorch, tensors and results in the GPU's memory: the greatest or the
least of sums, or the logarithm of a sum of exponentials, of so many rows of A at a time that the sums take
256 MB at most. Shapes of chains, semirings and dtypes are drawn from the seed, after those of the issue of
fixed size: one product of 2048 x 2048 x 2048 and a chain of eight of 2048 x 2048 in f32 (a quarter of the side
on the CPU). Every result is compared with the peer's: the greatest and the least must be the same, where no
sums of sums are rounded; logarithms and longer chains within roundings.

A line tells the seconds of ours and the peer's, medians of the rounds, the ratio with its spread (the
least and the greatest of the rounds' ratios), and our terms, additions with their comparisons, a second.
"""

import argparse
import statistics
import sys
import time

import numpy as np

import mmchain

SUM_BYTES = 256 << 20
SEMIRINGS = ("max-plus", "min-plus", "log")


class OnCpu:
    name = "numpy"

    def array(self, x):
        return x

    def host(self, x):
        return x

    def product(self, semiring, a, b):
        out = np.empty((a.shape[0], b.shape[1]), a.dtype)
        rows = max(1, SUM_BYTES // (b.size * b.itemsize))
        for first in range(0, len(a), rows):
            sums = a[first : first + rows, :, None] + b
            if semiring == "log":
                out[first : first + rows] = np.logaddexp.reduce(sums, axis=1)
            else:
                out[first : first + rows] = sums.max(1) if semiring == "max-plus" else sums.min(1)
        return out

    def seconds(self, function, count):
        start = time.perf_counter()
        for _ in range(count):
            function()
        return (time.perf_counter() - start) / count


class OnGpu:
    name = "torch"

    def __init__(self):
        import torch

        self.torch = torch

    def array(self, x):
        return self.torch.tensor(x, device="cuda")

    def host(self, x):
        return x.cpu().numpy()

    def product(self, semiring, a, b):
        out = a.new_empty((a.shape[0], b.shape[1]))
        rows = max(1, SUM_BYTES // (b.numel() * b.element_size()))
        for first in range(0, len(a), rows):
            sums = a[first : first + rows, :, None] + b
            part = out[first : first + rows]
            if semiring == "log":
                part.copy_(self.torch.logsumexp(sums, 1))
            else:
                part.copy_(sums.amax(1) if semiring == "max-plus" else sums.amin(1))
        return out

    def seconds(self, function, count):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count


def chain(on, semiring, factors):
    """The peer's product, in the order that we take."""
    order = mmchain.plan([tuple(x.shape) for x in factors], objective="flops")
    made = list(factors)
    for left, right in order.products():
        made.append(on.product(semiring, made[left], made[right]))
    return made[-1]


def draw(random, most):
    """Dims, a semiring and a dtype."""
    count = int(random.integers(1, 5))
    dims = [int(2 ** random.uniform(2, np.log2(most))) for _ in range(count + 1)]
    return dims, str(random.choice(SEMIRINGS)), str(random.choice(["float32", "float64"]))


def cases(random, on, drawn):
    side = 2048 if on == "cuda" else 512
    yield [side] * 3, "max-plus", "float32"
    yield [side] * 9, "max-plus", "float32"
    yield [side] * 3, "log", "float32"
    for _ in range(drawn):
        yield draw(random, side)


def expect_same(got, expected, semiring, dtype, products):
    exact = semiring != "log" and products == 1
    if exact and np.array_equal(got, expected):
        return
    epsilon = np.finfo(dtype).eps
    error = np.abs(got.astype(np.float64) - expected).max()
    if exact or not error <= 64 * epsilon * products * (1 + np.abs(expected).max()):
        sys.exit(f"bench_semirings: {semiring} of {dtype} is off by {error}")


def measure(on, dims, semiring, dtype, random, rounds):
    factors = [on.array(random.normal(size=s).astype(dtype)) for s in zip(dims, dims[1:])]
    count = len(factors)
    if count == 1:
        factors.append(factors[0].T)
        dims = dims + dims[:1]

    def ours():
        return mmchain.multi_dot(factors, semiring=semiring)

    def theirs():
        return chain(on, semiring, factors)

    expect_same(on.host(ours()), on.host(theirs()), semiring, dtype, len(factors) - 1)
    once = on.seconds(ours, 1)
    repeats = max(1, min(100, int(0.01 / max(once, 1e-6))))
    pairs = [(on.seconds(ours, repeats), on.seconds(theirs, 1)) for _ in range(rounds)]
    ratios = [theirs_s / ours_s for ours_s, theirs_s in pairs]
    own, other = (statistics.median(x) for x in zip(*pairs))
    plan = mmchain.plan([tuple(x.shape) for x in factors], objective="flops")
    print(
        f"{semiring:8} {dtype:7} {'x'.join(map(str, dims)):34} ours {own * 1e6:11.1f} us, {on.name} "
        f"{other * 1e6:12.1f} us, ratio {statistics.median(ratios):8.1f} ({min(ratios):.1f} to {max(ratios):.1f}), "
        f"{plan.multiplications / own * 1e-9:8.1f} G/s",
        flush=True,
    )
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--on", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    on = OnGpu() if options.on == "cuda" else OnCpu()
    random = np.random.default_rng(options.seed)
    print(f"mmchain {mmchain.__version__}, seed {options.seed}, {options.rounds} rounds by turns with {on.name}")
    ratios = [
        measure(on, *case, random, options.rounds) for case in cases(random, options.on, options.cases)
    ]
    print(f"least ratio {min(ratios):.1f}, median {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
