#!/usr/bin/env python3
"""Times mmchain against numpy.linalg.multi_dot, one JSON line a chain.

    python3 bench/bench_numpy.py build/lib/libmmchain.so
    python3 bench/bench_numpy.py --small build/bench/bench_small_cpu

Both call the OpenBLAS that NumPy has loaded when NumPy is Debian's (python3-numpy), which is the
fair comparison; the line says which library each uses. mmchain is called through ctypes: `execute`
is mmc_execute() of a plan made once, `whole` makes chain, plan and run every time, as multi_dot
does. The two sides are interleaved; ratio is the median of numpy's time over ours.

--small puts what NumPy does beside every case of bench_small_cpu, in turns: a batch by numpy.matmul
in sequence, a long chain from left to right, a chain executed again by multi_dot.
"""

import ctypes
import functools
import json
import statistics
import subprocess
import sys
import time

import numpy as np

from mmchain_ctypes import HOST, Library, Matrix

CHAINS = [
    "10x30x5x60",
    "30x35x15x5x10x20x25",
    "2x9x3x1x4x11x5",
    "5x1x5x1",
    "81x1772x83x37x81",
    "725x257x151x49x725",
    "3x3022x78x1598x3",
    "2000x100x3000x50x4000x10",
    "500x500x500x500",
    "64x64x64x64x64x64x64x64x64",
]


def matrix(array):
    return Matrix(array.ctypes.data, array.shape[0], array.shape[1], 0, 0, HOST)


def blas_in_use():
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1].rsplit("/", 1)[-1] for line in maps if "blas" in line})


def seconds(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def bench(library, dims, rounds=15):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape) for shape in zip(dims, dims[1:])]
    out = np.full((dims[0], dims[-1]), np.nan)
    factors = (Matrix * len(arrays))(*map(matrix, arrays))
    result = matrix(out)
    text = ("f64:" + "x".join(map(str, dims))).encode()
    handles = library.prepare(text)
    run, result_at = handles[2], ctypes.byref(result)
    execute_c = library.c.mmc_execute

    def execute():
        execute_c(run, factors, result_at)

    def whole():
        made = library.prepare(text)
        execute_c(made[2], factors, result_at)
        library.release(made)

    def numpy():
        np.linalg.multi_dot(arrays)

    library.check(execute_c(run, factors, result_at))
    expected = np.linalg.multi_dot(arrays)
    error = np.linalg.norm(out - expected) / np.linalg.norm(expected)
    if not error <= 1e-12:
        raise RuntimeError(f"{text.decode()}: results differ by {error}")

    once = seconds(numpy, 3)
    repeats = max(1, int(0.02 / once))
    samples = {"numpy": [], "execute": [], "whole": []}
    for _ in range(rounds):
        for name, call in (("numpy", numpy), ("execute", execute), ("whole", whole)):
            samples[name].append(seconds(call, repeats))
    library.release(handles)
    ratio = [a / b for a, b in zip(samples["numpy"], samples["execute"])]
    ratio_whole = [a / b for a, b in zip(samples["numpy"], samples["whole"])]
    return {
        "bench": "numpy",
        "chain": text.decode(),
        "numpy_s": statistics.median(samples["numpy"]),
        "execute_s": statistics.median(samples["execute"]),
        "whole_s": statistics.median(samples["whole"]),
        "ratio": round(statistics.median(ratio), 3),
        "ratio_min": round(min(ratio), 3),
        "ratio_max": round(max(ratio), 3),
        "ratio_whole": round(statistics.median(ratio_whole), 3),
        "blas": blas_in_use(),
    }


def numpy_call(case):
    """What NumPy's user would call for a case of bench_small_cpu."""
    rng = np.random.default_rng(1)
    side, batch, dtype = case["side"], case["batch"], case["dtype"]
    shape = (batch, side, side) if batch > 1 else (side, side)
    arrays = [0.2 * rng.standard_normal(shape) for _ in range(case["factors"])]
    arrays = [a.astype({"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}[dtype]) for a in arrays]
    if case["bench"] == "execute":
        return lambda: np.linalg.multi_dot(arrays)
    return lambda: functools.reduce(np.matmul, arrays)


def bench_small(program, turns=5):
    ours, numpys, cases = {}, {}, {}
    for _ in range(turns):
        said = subprocess.run([program, "3"], check=True, capture_output=True, text=True).stdout
        for line in said.splitlines():
            case = json.loads(line)
            key = tuple(case[k] for k in ("bench", "dtype", "factors", "side", "batch"))
            cases[key] = case
            ours.setdefault(key, []).append(case["seconds"])
            call = numpy_call(case)
            call()
            repeats = max(1, int(2e-3 / seconds(call, 1)))
            best = min(seconds(call, repeats) for _ in range(5))
            numpys.setdefault(key, []).append(best)
    for key, case in cases.items():
        ratio = [a / b for a, b in zip(numpys[key], ours[key])]
        case["seconds"] = statistics.median(ours[key])
        case["numpy_s"] = statistics.median(numpys[key])
        case["ratio"] = round(statistics.median(ratio), 3)
        case["ratio_min"], case["ratio_max"] = round(min(ratio), 3), round(max(ratio), 3)
        case["blas"] = blas_in_use()
        print(json.dumps(case), flush=True)


def main():
    if len(sys.argv) < 2 or (sys.argv[1] == "--small" and len(sys.argv) != 3):
        print(
            "usage: bench_numpy.py libmmchain.so [CHAIN...] | --small bench_small_cpu",
            file=sys.stderr,
        )
        return 2
    if sys.argv[1] == "--small":
        bench_small(sys.argv[2])
        return 0
    library = Library(sys.argv[1])
    for chain in sys.argv[2:] or CHAINS:
        print(json.dumps(bench(library, [int(p) for p in chain.split("x")])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
