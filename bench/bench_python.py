#!/usr/bin/env python3
"""Times the Python package, one JSON line a chain.

    PYTHONPATH=build/python python3 bench/bench_python.py build/lib/libmmchain.so [CHAIN...]
    PYTHONPATH=build/python python3 bench/bench_python.py --fresh [SEED]

`overhead_s` is what mmchain.multi_dot takes beyond mmc_execute() of the same plan on the same
matrices. mmc_execute is called by ctypes, whose own time is measured by the same call with no run,
which returns at once, and taken off. Where the package calls NumPy's OpenBLAS and libmmchain.so
another, there is no such difference (null): MMCHAIN_BLAS=own gives both the same. `ratio` is the
median of numpy.linalg.multi_dot's time over ours. All calls are interleaved. With PyTorch, CUDA and
the module for it, chains of tensors on the GPU follow: there `overhead_s` is that of the call, which
does not wait, over mmc_enqueue().

With --fresh every call has a shape and arrays of its own, chains of 2 to 6 factors with sides from 2 on, and is timed once:
nothing about it is in a cache. The ratio is the geometric mean of numpy.linalg.multi_dot's (of two factors, @'s) time over ours.
"""

import ctypes
import json
import statistics
import sys
import time

import numpy as np

import mmchain
from mmchain_ctypes import DEVICE, HOST, Library, Matrix

CHAINS = {
    "10x30x5x60": None,
    "30x35x15x5x10x20x25": None,
    "400 random factors of 1 to 16": (400, 16),
    "200x200x200x200x200": None,
}
CUDA_CHAINS = ["10x30x5x60", "30x35x15x5x10x20x25", "x".join(["64"] * 9), "512x512x512x512x512"]


def dims_of(name):
    if CHAINS.get(name) is None:
        return [int(p) for p in name.split("x")]
    n, most = CHAINS[name]
    return [int(p) for p in np.random.default_rng(1).integers(1, most + 1, n + 1)]


def seconds(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def interleave(calls, rounds=25, round_s=0.01, between=lambda: None):
    """Samples of each call's seconds."""
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = max(1, int(round_s / seconds(call, 2)))
        between()
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(seconds(call, repeats[name]))
            between()
    return samples


def medians(samples):
    return {name: statistics.median(values) for name, values in samples.items()}


def spread(values):
    """Half the range between the quartiles, over the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


def overhead(samples):
    median = medians(samples)
    call = median["execute_ctypes"] - median["nothing_ctypes"]
    return {
        "multi_dot_s": median["multi_dot"],
        "multi_dot_out_s": median["multi_dot_out"],
        "execute_s": call,
        "overhead_s": median["multi_dot"] - call,
        "overhead_out_s": median["multi_dot_out"] - call,
        "spread": round(spread(samples["multi_dot"]), 3),
    }


def line(chain, **figures):
    print(json.dumps({"bench": "python", "chain": chain, **figures}), flush=True)


def blas():
    found = [d["description"] for d in mmchain.info()["devices"] if d["name"] == "blas"]
    return found[0] if found else None


def calls_the_same_blas(library):
    config = getattr(library.c, "openblas_get_config", None)
    if config is None or blas() is None:
        return True
    config.restype = ctypes.c_char_p
    return blas().startswith(config().decode())


def bench_numpy(library, name):
    dims = dims_of(name)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape) / shape[1] for shape in zip(dims, dims[1:])]
    out = np.full((dims[0], dims[-1]), np.nan)
    factors = (Matrix * len(arrays))(*(Matrix(a.ctypes.data, *a.shape, 0, 0, HOST) for a in arrays))
    result = ctypes.byref(Matrix(out.ctypes.data, *out.shape, 0, 0, HOST))
    text = "f64:" + "x".join(map(str, dims))
    handles = library.prepare(text.encode(), objective=b"time")
    execute, run = library.c.mmc_execute, handles[2]
    library.check(execute(run, factors, result))
    error = np.linalg.norm(out - mmchain.multi_dot(arrays))
    if not error <= 1e-12 * np.linalg.norm(out):
        raise RuntimeError(f"{name}: results differ by {error}")
    calls = {
        "multi_dot": lambda: mmchain.multi_dot(arrays),
        "multi_dot_out": lambda: mmchain.multi_dot(arrays, out=out),
        "execute_ctypes": lambda: execute(run, factors, result),
        "nothing_ctypes": lambda: execute(None, factors, result),
    }
    figures = {"overhead_s": None}
    if calls_the_same_blas(library):
        figures = overhead(interleave(calls))
    again = {
        "numpy": lambda: np.linalg.multi_dot(arrays),
        "ours": lambda: mmchain.multi_dot(arrays),
    }
    compared = interleave(again, rounds=15 if len(arrays) < 100 else 3)
    library.release(handles)
    ratios = [a / b for a, b in zip(compared["numpy"], compared["ours"])]
    line(
        name,
        blas=blas(),
        **figures,
        numpy_s=medians(compared)["numpy"],
        ours_s=medians(compared)["ours"],
        ratio=round(statistics.median(ratios), 2),
        ratio_min=round(min(ratios), 2),
        ratio_max=round(max(ratios), 2),
    )


def bench_cuda(torch, library, text):
    dims = [int(p) for p in text.split("x")]
    tensors = [torch.randn(shape, device="cuda") for shape in zip(dims, dims[1:])]
    out = torch.empty(dims[0], dims[-1], device="cuda")
    factors = (Matrix * len(tensors))(
        *(Matrix(t.data_ptr(), *t.shape, 0, 0, DEVICE) for t in tensors)
    )
    result = ctypes.byref(Matrix(out.data_ptr(), *out.shape, 0, 0, DEVICE))
    handles = library.prepare(
        f"f32:{text}".encode(), device=b"cuda", location=DEVICE, objective=b"time"
    )
    enqueue, run = library.c.mmc_enqueue, handles[2]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    # Few calls at a time, so that none waits for room in the queue.
    samples = interleave(
        {
            "multi_dot": lambda: mmchain.multi_dot(tensors),
            "multi_dot_out": lambda: mmchain.multi_dot(tensors, out=out),
            "execute_ctypes": lambda: enqueue(run, stream, factors, result),
            "nothing_ctypes": lambda: enqueue(None, stream, factors, result),
            "torch": lambda: torch.linalg.multi_dot(tensors),
        },
        rounds=101,
        round_s=0.0002,
        between=torch.cuda.synchronize,
    )
    done = interleave(
        {
            "ours": lambda: (mmchain.multi_dot(tensors), torch.cuda.synchronize()),
            "out": lambda: (mmchain.multi_dot(tensors, out=out), torch.cuda.synchronize()),
            "torch": lambda: (torch.linalg.multi_dot(tensors), torch.cuda.synchronize()),
        }
    )
    library.check(library.c.mmc_wait(run))
    library.release(handles)
    done = medians(done)
    line(
        f"f32:{text} on {torch.cuda.get_device_name()}",
        **overhead(samples),
        torch_call_s=medians(samples)["torch"],
        done_s=done["ours"],
        done_out_s=done["out"],
        torch_done_s=done["torch"],
        ratio=round(done["torch"] / done["ours"], 2),
        ratio_out=round(done["torch"] / done["out"], 2),
    )


FRESH_DTYPES = ["float64", "float32", "complex64", "complex128"]
FRESH_SIDES = [8, 16, 60, 128, 300]


def fresh_chain(rng, factors, side, dtype):
    dims = rng.integers(2, side + 1, factors + 1)
    return [rng.standard_normal(shape).astype(dtype) for shape in zip(dims, dims[1:])]


def bench_fresh(seed, count=800, block=40):
    """Every call has a shape and arrays of its own, and is timed once; blocks of calls take turns."""
    rng = np.random.default_rng(seed)
    mmchain.multi_dot([np.ones((3, 3))] * 3)
    for factors in [2, 3, 4, 6]:
        for side in FRESH_SIDES:
            for dtype in FRESH_DTYPES:
                reference = np.linalg.multi_dot if factors > 2 else lambda pair: pair[0] @ pair[1]
                calls = {"numpy": reference, "ours": mmchain.multi_dot}
                took = {name: [] for name in calls}
                for turn in range(count // block if side < 300 else count // block // 4):
                    chains = [fresh_chain(rng, factors, side, dtype) for _ in range(block)]
                    for name in sorted(calls, reverse=turn % 2 == 0):
                        for chain in chains:
                            start = time.perf_counter()
                            calls[name](chain)
                            took[name].append(time.perf_counter() - start)
                ratios = [n / o for n, o in zip(took["numpy"], took["ours"])]
                line(
                    f"{factors} factors to {side}, {dtype}, a new shape every call",
                    numpy_s=statistics.median(took["numpy"]),
                    ours_s=statistics.median(took["ours"]),
                    ratio=round(statistics.geometric_mean(ratios), 2),
                )


def has_cuda(torch):
    devices = mmchain.info()["devices"]
    return torch.cuda.is_available() and any(
        d["available"] and d["name"].startswith("cuda") for d in devices
    )


def main():
    if len(sys.argv) < 2:
        print("usage: bench_python.py libmmchain.so [CHAIN...]", file=sys.stderr)
        return 2
    if sys.argv[1] == "--fresh":
        bench_fresh(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        return 0
    library = Library(sys.argv[1])
    for name in sys.argv[2:] or CHAINS:
        bench_numpy(library, name)
    try:
        import torch
    except ImportError:
        return 0
    if has_cuda(torch):
        for text in sys.argv[2:] or CUDA_CHAINS:
            bench_cuda(torch, library, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
