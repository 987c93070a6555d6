#!/usr/bin/env python3
"""Times gradients of chains in PyTorch, one JSON line a chain. Needs PyTorch.

    PYTHONPATH=build/python python3 bench/bench_gradients.py [ROUNDS [THREADS [DEVICE]]]

`ours_s` is what the product by mmchain.multi_dot and all its gradients take, `torch_s` the same by
torch.linalg.multi_dot; the least of rounds in turns. `ratio` is the median of the two, round by
round, `spread` half the range between its quartiles over it. THREADS is PyTorch's number of threads,
DEVICE "cpu" or "cuda", of which every call is waited for; there `ours_matrices` and `torch_matrices` are
the most memory that is taken besides what is there before, in matrices.
"""

import json
import statistics
import sys
import time

import torch

import mmchain

CHAINS = [(100, 64, "float32"), (100, 64, "float64"), (100, 16, "float32"), (30, 64, "float32")]


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def most_matrices(call, one):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / one


def measure(count, n, dtype, rounds, device):
    torch.manual_seed(1)
    dtype = getattr(torch, dtype)
    factors = [
        torch.linalg.qr(torch.randn(n, n, dtype=dtype))[0].to(device).requires_grad_()
        for _ in range(count)
    ]
    cotangent = torch.randn(n, n, dtype=dtype).to(device)

    def gradients(multi_dot):
        return torch.autograd.grad(multi_dot(factors), factors, cotangent)

    peers = {"ours_s": mmchain.multi_dot, "torch_s": torch.linalg.multi_dot}
    for a, b in zip(*(gradients(multi_dot) for multi_dot in peers.values())):
        assert float((a - b).abs().max()) <= 200 * count * torch.finfo(dtype).eps
    samples = {name: [] for name in peers}
    for multi_dot in list(peers.values()) * 3:
        gradients(multi_dot)
    wait(device)
    for _ in range(rounds):
        for name, multi_dot in peers.items():
            start = time.perf_counter()
            gradients(multi_dot)
            wait(device)
            samples[name].append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(samples["ours_s"], samples["torch_s"])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    line = {"factors": count, "n": n, "dtype": str(dtype)[6:]}
    line.update((name, min(values)) for name, values in samples.items())
    if device == "cuda":
        one = n * n * factors[0].element_size()
        for name, multi_dot in peers.items():
            line[name[:-2] + "_matrices"] = most_matrices(lambda by=multi_dot: gradients(by), one)
    return {**line, "ratio": middle, "spread": (high - low) / 2 / middle}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        torch.set_num_threads(int(sys.argv[2]))
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    for chain in CHAINS:
        print(json.dumps(measure(*chain, rounds, device)), flush=True)
