#!/usr/bin/env python3
"""Times large products and short chains of them, untuned, beside torch on the same GPU.

    python3 bench/bench_large.py [--seed N] [--seconds S] [--joules S]

The cases depend on the seed alone, which is printed: two or three factors, sides 300 to 9000, a
third of them multiples of 8, a third of the factors stored transposed; f32 (sides from 1200), f32 as
TF32 (precision fast), bf16 and f16. torch is torch.mm or torch.linalg.multi_dot, captured once and
replayed as a CUDA graph. Both take three turns; times are medians in microseconds. Of the cases whose
plan has the library's plain calls alone only every fifth is timed. Answers of up to 3e11 flops are
compared with float64 arithmetic.

Printed are a line a case; and, by dtype, apart for plans with recipes (large_tile, padded) and
without, torch's time by ours, geometric mean and least, and how far nine of ten predictions are off.
Then a product of f32, 8192 a side, for energy: joules and time by torch's, by the driver's counter,
three windows of S seconds (2) each. Exit status: 0 all answers right, 1 one was wrong.
"""

import argparse
import ctypes
import functools
import math
import os
import random
import statistics
import sys
import tempfile
import time

KINDS = [("f32", "native")] * 3 + [("f32", "fast"), ("bf16", "native"), ("f16", "native")]
TORCH = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
TOLERANCE = {("f32", "native"): 5e-6, ("f32", "fast"): 2e-3, ("bf16", "native"): 1.2e-2, ("f16", "native"): 2e-3}
CHECKED_FLOPS = 3e11


def draw(choose):
    """Dtype, precision, dims, and which factors are stored transposed."""
    while True:
        dtype, precision = choose.choice(KINDS)
        least = 1200 if (dtype, precision) == ("f32", "native") else 300
        count = choose.choice([2, 2, 2, 3])
        dims = [round(math.exp(choose.uniform(math.log(least), math.log(9000)))) for _ in range(count + 1)]
        if choose.random() < 0.3:
            dims = [(d + 7) // 8 * 8 for d in dims]
        stored = [choose.random() < 0.3 for _ in range(count)]
        if 1e9 <= sum(2 * dims[0] * a * b for a, b in zip(dims[1:], dims[2:])) <= 1.5e12:
            return dtype, precision, dims, stored


def graph_of(torch, run):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def microseconds(torch, run):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(runs):
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3 / runs

    run()
    return timed(max(2, min(100, int(2e4 / max(timed(1), 2)))))


def joules_of():
    """Returns a function that reads the first card's energy counter, in joules; NAN without one."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return lambda: math.nan
    card, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card))

    def read():
        failed = nvml.nvmlDeviceGetTotalEnergyConsumption(card, ctypes.byref(millijoules))
        return math.nan if failed else millijoules.value / 1e3

    return read


def window(torch, run, seconds, joules):
    run()
    torch.cuda.synchronize()
    runs, before, begin = 0, joules(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(8):
            run()
        torch.cuda.synchronize()
        runs += 8
    return (joules() - before) / runs, (time.perf_counter() - begin) / runs


def show(rows):
    groups = {}
    for kind, recipes, peer, ours, predicted in rows:
        groups.setdefault((" ".join(kind), bool(recipes)), []).append((peer / ours, abs(math.log(ours / predicted))))
    for (kind, recipes), found in sorted(groups.items()):
        gains = [gain for gain, _ in found]
        off = sorted(off for _, off in found)[int(0.9 * (len(found) - 1))]
        print(
            f"{kind:12}  {'recipes' if recipes else 'plain':8}{len(found):5} cases  torch / ours: geomean "
            f"{math.exp(statistics.fmean(map(math.log, gains))):.3f}, least {min(gains):.3f}; "
            f"nine of ten predictions within {math.exp(off):.2f}"
        )


def main():
    import mmchain
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--joules", type=float, default=2)
    options = parser.parse_args()
    print(f"seed {options.seed}, {torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    choose, rows, wrong, begin = random.Random(options.seed), [], 0, time.perf_counter()
    torch.manual_seed(options.seed)
    while time.perf_counter() - begin < options.seconds:
        dtype, precision, dims, stored = draw(choose)
        timed_if_plain = choose.random() < 0.2
        torch.backends.cuda.matmul.allow_tf32 = precision == "fast"
        element = getattr(torch, TORCH[dtype])
        factors = []
        for rows_, cols, transposed in zip(dims, dims[1:], stored):
            factor = torch.randn(rows_, cols, device="cuda").div_(rows_**0.5).to(element)
            factors.append(factor.t().contiguous().t() if transposed else factor)
        plan = mmchain.plan(factors, precision=precision, device="cuda")
        text = plan.explain()
        recipes = sorted({word.strip(",") for word in text.split() if "/whole" in word or "whole@" in word})
        if not recipes and not timed_if_plain:
            continue
        out = torch.empty(dims[0], dims[-1], device="cuda", dtype=element)
        ours = functools.partial(mmchain.multi_dot, factors, out=out, precision=precision)
        call = torch.mm if len(factors) == 2 else lambda *all_: torch.linalg.multi_dot(all_)
        peer = graph_of(torch, functools.partial(call, *factors))
        ours()
        if sum(2 * dims[0] * a * b for a, b in zip(dims[1:], dims[2:])) <= CHECKED_FLOPS:
            right = functools.reduce(torch.matmul, [factor.double() for factor in factors])
            error = ((out.double() - right).norm() / right.norm()).item()
            if not error <= TOLERANCE[dtype, precision]:
                wrong += 1
                print(f"WRONG by {error:.3g}")
        turns = [(microseconds(torch, peer), microseconds(torch, ours)) for _ in range(3)]
        peer_us, ours_us = (statistics.median(column) for column in zip(*turns))
        rows.append(((dtype, precision), recipes, peer_us, ours_us, plan.predicted_seconds * 1e6))
        print(
            f"{dtype}:{'x'.join(map(str, dims))} {''.join('NT'[t] for t in stored)} {precision} {' '.join(recipes) or 'plain'}: "
            f"torch {peer_us:.0f}, ours {ours_us:.0f}, predicted {plan.predicted_seconds * 1e6:.0f}, gain {peer_us / ours_us:.3f}",
            flush=True,
        )
    show(rows)
    torch.backends.cuda.matmul.allow_tf32 = False
    factors = [torch.randn(8192, 8192, device="cuda") for _ in range(2)]
    out, joules = torch.empty(8192, 8192, device="cuda"), joules_of()
    for _ in range(3 if options.joules > 0 else 0):
        peer = window(torch, functools.partial(torch.mm, *factors, out=out), options.joules, joules)
        ours = window(
            torch, functools.partial(mmchain.multi_dot, factors, out=out, objective="energy"), options.joules, joules
        )
        print(f"f32:8192x8192x8192 for energy: joules {ours[0] / peer[0]:.3f}, time {ours[1] / peer[1]:.3f} of torch's")
    return 1 if wrong else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as store:
        os.environ.setdefault("MMCHAIN_WISDOM", os.path.join(store, "wisdom.db"))
        sys.exit(main())
