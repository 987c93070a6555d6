#!/usr/bin/env python3
"""Times mmchain on a GPU against torch.linalg.multi_dot, one JSON line a measurement.

    python3 bench/bench_torch.py libmmchain.so [--part small|large|host] [--rounds N]

All in one process, on torch's tensors and torch's stream, the methods taking turns:

    torch        torch.linalg.multi_dot
    torch_graph  the same calls, captured once and replayed as a CUDA graph
    torch_left   torch.matmul from left to right
    ours         mmc_enqueue() of a plan made once

small: chains of small factors, repeated; seconds of one by CUDA events around many.
large: the six chains of the TEE-ACM2 poster, FP32 and TF32.
host:  four factors of 8000 x 8000 in pageable and in page-locked host memory, against the larger of
       the time of the transfers and that of the products by cublasSgemm, both measured here.

mmchain finds its CUDA module by MMCHAIN_MODULE_DIR. Every result is compared with torch's in FP64
or FP32; inputs are normal numbers from a fixed seed.
"""

import argparse
import ctypes
import functools
import json
import math
import statistics
import sys
import time

import torch

from mmchain_ctypes import DEVICE, HOST, Library, Matrix

SMALL = {
    "10x30x5x60": [10, 30, 5, 60],
    "clrs": [30, 35, 15, 5, 10, 20, 25],
    "t1": [725, 257, 151, 49, 725],
    "t2": [81, 1772, 83, 37, 81],
    "t3": [3, 3022, 78, 1598, 3],
    "eight 64x64": [64] * 9,
}
LARGE = {
    "best-6": [8000, 10000, 12000, 14000, 16000, 18000, 20000],
    "worst-6": [20000, 18000, 16000, 14000, 12000, 10000, 8000],
    "random-6": [10000, 20000, 15000, 9000, 9000, 22000, 21000],
    "best-12": [1000 * x for x in range(8, 21)],
    "worst-12": [1000 * x for x in range(20, 7, -1)],
    "random-12": [1000 * x for x in (20, 16, 17, 10, 16, 19, 9, 24, 16, 16, 12, 8, 10)],
}


def chain_text(dims, dtype="f32"):
    return (dtype + ":" + "x".join(map(str, dims))).encode()


def make_factors(dims, device="cuda", seed=1):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(m, n, generator=generator, device=device, dtype=torch.float32) / math.sqrt(n)
        for m, n in zip(dims, dims[1:])
    ]


def matrix(tensor, location):
    return Matrix(tensor.data_ptr(), tensor.shape[0], tensor.shape[1], 0, 0, location)


class Ours:
    """A plan's run on given tensors."""

    def __init__(self, library, dims, factors, location, precision=b"native"):
        self.library = library
        self.out = torch.full((dims[0], dims[-1]), math.nan, device=factors[0].device)
        self.factors = (Matrix * len(factors))(*(matrix(f, location) for f in factors))
        self.result = matrix(self.out, location)
        self.handles = library.prepare(
            chain_text(dims), device=b"cuda:0", precision=precision, location=location
        )
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.result_at = ctypes.byref(self.result)
        self.call = library.c.mmc_enqueue

    def __call__(self):
        status = self.call(self.handles[2], self.stream, self.factors, self.result_at)
        if status != 0:
            self.library.check(status)

    def close(self):
        torch.cuda.synchronize()
        self.library.release(self.handles)


def captured(call):
    """The calls as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def event_seconds(call, repeats):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / repeats


def wall_seconds(call, repeats):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def compare(methods, rounds, sample_s, measure):
    """Medians of all methods, measured in turns."""
    repeats = {}
    for name, call in methods.items():
        for _ in range(3):
            call()
        repeats[name] = max(1, int(sample_s / measure(call, 1)))
    samples = {name: [] for name in methods}
    for _ in range(rounds):
        for name, call in methods.items():
            samples[name].append(measure(call, repeats[name]))
    return samples


def report(bench, name, dims, samples, **more):
    ours = samples["ours"]
    line = {"bench": bench, "name": name, "chain": chain_text(dims).decode(), **more}
    for method, seconds in samples.items():
        line[method + "_s"] = statistics.median(seconds)
        line[method + "_spread"] = round((max(seconds) - min(seconds)) / min(seconds), 4)
    for method, seconds in samples.items():
        if method != "ours":
            ratios = [a / b for a, b in zip(ours, seconds)]
            line["ours_to_" + method] = round(statistics.median(ratios), 4)
    print(json.dumps(line), flush=True)


def relative_error(got, expected):
    return float((got.double() - expected.double()).norm() / expected.double().norm())


def check(what, error, tolerance):
    if not error <= tolerance:
        raise SystemExit(f"{what}: relative error {error} exceeds {tolerance}")
    return error


def bench_small(library, rounds):
    for name, dims in SMALL.items():
        factors = make_factors(dims)
        ours = Ours(library, dims, factors, DEVICE)
        ours()
        expected = torch.linalg.multi_dot([f.double() for f in factors])
        error = check(name, relative_error(ours.out, expected), 1e-5)
        torch_call = functools.partial(torch.linalg.multi_dot, factors)
        methods = {
            "torch": torch_call,
            "torch_graph": captured(torch_call),
            "ours": ours,
        }
        samples = compare(methods, rounds, 5e-3, event_seconds)
        wall = compare({"torch": torch_call, "ours": ours}, rounds, 5e-3, wall_seconds)
        report("torch small", name, dims, samples, error=error,
               wall_ours_to_torch=round(statistics.median(
                   a / b for a, b in zip(wall["ours"], wall["torch"])), 4))
        ours.close()


def bench_large(library, rounds):
    for name, dims in LARGE.items():
        factors = make_factors(dims)
        for precision, tf32 in ((b"native", False), (b"fast", True)):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            ours = Ours(library, dims, factors, DEVICE, precision)
            methods = {
                "torch": functools.partial(torch.linalg.multi_dot, factors),
                "torch_left": functools.partial(functools.reduce, torch.matmul, factors),
                "ours": ours,
            }
            ours()
            torch.cuda.synchronize()
            expected = torch.linalg.multi_dot(factors)
            error = check(name, relative_error(ours.out[:512], expected[:512]), 1e-2 if tf32 else 1e-4)
            del expected
            if name.startswith("best"):
                samples = compare(methods, rounds, 1e-3, event_seconds)
            else:
                once = {k: v for k, v in methods.items() if k != "torch_left"}
                samples = compare(once, rounds, 1e-3, event_seconds)
            report("torch large", name, dims, samples, error=error,
                   precision="tf32" if tf32 else "fp32")
            ours.close()
        torch.backends.cuda.matmul.allow_tf32 = False
        del factors, ours, methods
        torch.cuda.empty_cache()


def bench_host(library, rounds):
    dims = [8000] * 5
    n_bytes = 4 * 8000 * 8000
    on_device = make_factors(dims)
    expected = torch.linalg.multi_dot([f.double() for f in on_device])
    buffer = torch.empty(8000, 8000).pin_memory()

    def product():
        torch.matmul(on_device[0], on_device[1])

    floor = {
        "up_s": 4 * min(wall_seconds(lambda: on_device[3].copy_(buffer, non_blocking=True), 3) for _ in range(5)),
        "down_s": min(wall_seconds(lambda: buffer.copy_(on_device[2], non_blocking=True), 3) for _ in range(5)),
        "products_s": 3 * min(wall_seconds(product, 5) for _ in range(5)),
    }
    on_device = make_factors(dims)
    for memory in ("pageable", "page-locked"):
        factors = [f.cpu() for f in on_device]
        if memory == "page-locked":
            factors = [f.pin_memory() for f in factors]
        ours = Ours(library, dims, factors, HOST)
        if memory == "page-locked":
            ours.out = ours.out.pin_memory()
            ours.result = matrix(ours.out, HOST)
            ours.result_at = ctypes.byref(ours.result)
        ours()
        error = check(memory, relative_error(ours.out.cuda(), expected), 1e-5)

        def torch_host():
            torch.linalg.multi_dot([f.cuda() for f in factors]).cpu()

        samples = compare({"torch": torch_host, "ours": ours}, rounds, 1e-3, wall_seconds)
        larger = max(floor["up_s"] + floor["down_s"], floor["products_s"])
        report("torch host", memory, dims, samples, error=error, **floor,
               up_gb_per_s=4 * n_bytes / floor["up_s"] / 1e9,
               share_of_floor=round(larger / statistics.median(samples["ours"]), 4))
        ours.close()


def main():
    parts = {"small": bench_small, "large": bench_large, "host": bench_host}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--part", choices=parts, action="append")
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    library = Library(arguments.library)
    for part in arguments.part or parts:
        parts[part](library, arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
