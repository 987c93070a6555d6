#!/usr/bin/env python3
"""Times calls of multi_dot as programs make them, drawn at random, against NumPy's or PyTorch's products.

    python3 bench/bench_calls.py [--peer numpy|torch] [--device cpu|cuda] [--kinds view ...]
                                 [--first] [--seconds 60] [--seed N] [--worst 30]

Kinds of calls:

    view    factors are transposed, padded, of every second row or column, backwards, or one for all of a stack
    stack   stacks of two axes, some of which are broadcast along one or both
    mixed   NumPy's factors of several floating dtypes
    half    float16, and bfloat16 of PyTorch
    integer integers of any width, and bool
    vector  vectors at the ends
    repeat  the same array at several places
    out     nothing special, 40 % squares
    grad    PyTorch's factors all want gradients, which are timed with the products; halfgrad: of 16 bits
    cast    PyTorch's products of float32 under torch.autocast, in bfloat16

The peer's call is numpy.linalg.multi_dot, or torch.linalg.multi_dot, of matrices, and products from left to
right of stacks. Every answer is compared with one in float64 or complex128, those of integers with the
peer's. Each figure is the least of five runs in turns; a case where ours is longer is timed twice. With
--first it is the first call's, of shapes that mostly never came before: sixty of a kind by one side, then by
the other, of which the first twenty do not count; answers are not compared then. Printed
are, by kind and dtype, the peer's time by ours as geometric mean and least, and the share below 0.95; then
the worst cases. The exit status is 1 where an answer is wrong.
"""

import argparse
import collections
import contextlib
import functools
import math
import random
import sys
import time

import numpy as np

import mmchain

SIDES = [2, 3, 4, 5, 8, 10, 16, 20, 24, 32, 40, 50, 64, 96, 128, 160, 200]
FIRST_CASES, FIRST_WARM = 60, 20
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


class NumPys:
    """Arrays of NumPy."""

    kinds = ["view", "stack", "mixed", "half", "integer", "vector", "repeat", "out"]
    halves, integers = ["float16"], [*INTEGERS, "uint32", "uint64", "bool"]
    views = ["plain", "plain", "turned", "axes", "padded", "inside", "rows", "columns", "up", "back", "one"]
    matmul = staticmethod(np.matmul)
    multi_dot = staticmethod(np.linalg.multi_dot)

    def __init__(self, seed, device):
        self.values = np.random.default_rng(seed)
        self.sync = lambda: None
        self.mode = lambda kind: contextlib.nullcontext()

    def random(self, shape, dtype):
        if dtype == "bool":
            return self.values.random(shape) < 0.3
        if np.dtype(dtype).kind in "iu":
            return self.values.integers(-9 if dtype[0] == "i" else 0, 9, shape).astype(dtype)
        made = self.values.standard_normal(shape)
        if np.dtype(dtype).kind == "c":
            made = made + 1j * self.values.standard_normal(shape)
        return (made / shape[-2] ** 0.5).astype(dtype)

    def turn(self, x):
        return x.swapaxes(-1, -2)

    def axes(self, x):
        return np.asfortranarray(x)

    def one(self, x, shape):
        return np.broadcast_to(x, shape)

    def wide(self, x):
        return np.asarray(x).astype("complex128" if x.dtype.kind == "c" else "float64")

    def is_exact(self, x):
        return x.dtype.kind in "iub"

    def eps(self, x):
        return float(np.finfo(x.dtype).eps)

    def common(self, arrays):
        return np.result_type(*arrays)


class Tensors:
    """Tensors of PyTorch."""

    kinds = ["view", "stack", "half", "integer", "vector", "repeat", "out", "grad", "halfgrad", "cast"]
    halves, integers = ["float16", "bfloat16"], INTEGERS
    views = ["plain", "plain", "turned", "axes", "padded", "inside", "rows", "columns", "one", "adjoint"]

    def __init__(self, seed, device):
        import torch

        self.torch, self.device = torch, device
        torch.manual_seed(seed)
        self.matmul, self.multi_dot = torch.matmul, torch.linalg.multi_dot
        self.sync = torch.cuda.synchronize if device == "cuda" else lambda: None
        if device == "cuda":  # which has no products of integers
            self.kinds = [kind for kind in self.kinds if kind != "integer"]

    def mode(self, kind):
        return self.torch.autocast(self.device, self.torch.bfloat16, enabled=kind == "cast")

    def random(self, shape, dtype):
        torch, kind = self.torch, getattr(self.torch, dtype)
        if not (kind.is_floating_point or kind.is_complex):
            return torch.randint(0, 9, shape, dtype=kind, device=self.device)
        drawn = torch.float32 if kind.itemsize == 2 else kind
        return (torch.randn(shape, dtype=drawn, device=self.device) / shape[-2] ** 0.5).to(kind)

    def turn(self, x):
        return x.mT

    def axes(self, x):
        return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))

    def one(self, x, shape):
        return x.expand(shape)

    def wide(self, x):
        return x.detach().to(self.torch.complex128 if x.dtype.is_complex else self.torch.float64)

    def is_exact(self, x):
        return not (x.dtype.is_floating_point or x.dtype.is_complex)

    def eps(self, x):
        return self.torch.finfo(x.dtype).eps

    def common(self, arrays):
        return arrays[0].dtype


def view_of(of, choose, shape, dtype, how):
    """Random numbers of this shape that lie so."""
    stack, rows, cols = shape[:-2], shape[-2], shape[-1]
    if how == "turned" or how == "adjoint":
        turned = of.turn(of.random((*stack, cols, rows), dtype))
        return turned.conj() if how == "adjoint" else turned
    if how == "padded":
        return of.random((*stack, rows, cols + choose.choice([1, 3, 8])), dtype)[..., :cols]
    if how == "inside":
        return of.random((*stack, rows + 1, cols + 3), dtype)[..., 1:, 2 : cols + 2]
    if how == "rows":
        return of.random((*stack, 2 * rows, cols), dtype)[..., ::2, :]
    if how == "columns":
        return of.random((*stack, rows, 2 * cols), dtype)[..., ::2]
    if how == "one" and stack:
        return of.one(of.random((rows, cols), dtype), shape)
    made = of.random(shape, dtype)
    if how == "axes":
        return of.axes(made)
    return made[..., ::-1, :] if how == "up" else made[..., ::-1] if how == "back" else made


def draw(of, choose, kinds, most):
    """A case: kind, text and arrays; None where it is too large."""
    kind = choose.choice(kinds)
    dtype = choose.choice(["float32", "float64", "float64", "complex64", "complex128"])
    of_kind = {"half": of.halves, "halfgrad": of.halves, "integer": of.integers, "cast": ["float32"]}
    dtype = choose.choice(of_kind.get(kind, [dtype]))
    count, high = choose.choice([2, 2, 3, 3, 4, 5, 6, 9]), choose.choice([6, 16, 40, 100, 300, 700])
    dims = [max(1, round(math.exp(choose.uniform(0, math.log(high))))) for _ in range(count + 1)]
    if choose.random() < 0.35:
        dims = [choose.choice(SIDES)] * (count + 1)
    if kind == "repeat":
        dims = dims[:1] * (count + 1)
    batch = choose.choice([1, 1, 1, 2, 16, 100, 1000])
    stack = (batch,) if batch > 1 and kind != "vector" else ()
    if kind == "stack":
        stack = choose.choice([1, 2, 5, 16]), choose.choice([1, 3, 8, 32])
    products = math.prod(stack)
    elements = sum(map(math.prod, zip(dims, dims[1:]))) * products
    multiplications = dims[0] * sum(map(math.prod, zip(dims[1:], dims[2:]))) * products
    if elements > 6e6 * most or multiplications > (2e8 if kind in ("half", "halfgrad", "integer") else 6e8) * most:
        return None
    arrays, said = [], []
    for rows, cols in zip(dims, dims[1:]):
        how = choose.choice(of.views) if kind in ("view", "stack", "mixed", "half", "integer") else "plain"
        of_stack, part = stack, choose.random()
        if kind == "stack":
            of_stack = stack if part < 0.4 else (stack[0], 1) if part < 0.55 else stack[1:] if part < 0.8 else ()
        elif part < 0.15:
            of_stack = ()
        has = dtype
        if kind == "mixed":
            narrow = {"float32": "float64", "complex64": "float32", "complex128": "float64", "float64": "float32"}
            has = choose.choice([dtype, narrow[dtype]])
        array = view_of(of, choose, (*of_stack, rows, cols), has, how)
        if kind == "repeat" and arrays and choose.random() < 0.6:
            array, how = choose.choice(arrays), "same"
        arrays.append(array)
        said.append(how + ("" if has == dtype else f":{has}") + ("" if of_stack == stack else f"{list(of_stack)}"))
    if kind == "vector":
        ends = choose.choice([(0,), (-1,), (0, -1)])
        if 0 in ends:
            arrays[0] = arrays[0][0]
        if -1 in ends:
            arrays[-1] = arrays[-1][:, 0]
        said = [f"{len(ends)} vectors"]
    return kind, dtype, f"{'x'.join(map(str, dims))} @{list(stack)} {' '.join(said)}", arrays


def is_right(of, arrays, got, peer):
    """Whether the result is that of the peer, of integers, or of wider arithmetic."""
    if of.is_exact(got):
        return got.dtype == peer.dtype and bool((got == peer).all())
    wide = [of.wide(array) for array in arrays]
    want = functools.reduce(of.matmul, wide)
    scale = functools.reduce(of.matmul, map(abs, wide))
    terms = sum(array.shape[-1] for array in arrays) + 4 if of.eps(got) < 1e-4 else 4 * len(arrays)
    is_f16 = str(got.dtype).split(".")[-1] == "float16"
    tiny = 1e-6 * len(arrays) if got.dtype == of.common(arrays) and is_f16 else 0
    bound = 4 * of.eps(got) * terms * scale + tiny
    return tuple(got.shape) == tuple(want.shape) and not bool((~(abs(of.wide(got) - want) <= bound)).any())


def least_us(of, calls, window_s=0.003, rounds=5):
    """The least times of calls in turns, in microseconds."""
    counts = []
    for call in calls:
        call()
        of.sync()
        begin = time.perf_counter()
        call()
        of.sync()
        counts.append(max(1, min(1000, int(window_s / max(time.perf_counter() - begin, 1e-7)))))
    least = [math.inf] * len(calls)
    for _ in range(rounds):
        for c, call in enumerate(calls):
            of.sync()
            begin = time.perf_counter()
            for _ in range(counts[c]):
                call()
            of.sync()
            least[c] = min(least[c], (time.perf_counter() - begin) / counts[c])
    return [1e6 * seconds for seconds in least]


def peer_of(of, kind, arrays):
    """The peer's call."""
    if all(array.ndim <= 2 for array in arrays) and len(arrays) > 2 and not kind.endswith("grad"):
        return lambda: of.multi_dot(arrays)
    return lambda: functools.reduce(of.matmul, arrays)


def first_us(of, cases, ours_first):
    """The peer's time and ours of each case's first call, in microseconds: those of one side, then of the other."""
    took = [[0.0, 0.0] for _ in cases]
    calls = [(peer_of(of, kind, arrays), functools.partial(mmchain.multi_dot, arrays)) for kind, _, _, arrays in cases]
    for side in (1, 0) if ours_first else (0, 1):
        of.sync()
        for case, pair in enumerate(calls):
            with of.mode(cases[case][0]):
                begin = time.perf_counter()
                pair[side]()
                of.sync()
            took[case][side] = 1e6 * (time.perf_counter() - begin)
    return took


def measure(of, kind, arrays):
    """The peer's time and ours, and whether the answer is right."""
    peer = peer_of(of, kind, arrays)
    ours = lambda: mmchain.multi_dot(arrays)  # noqa: E731
    right = is_right(of, arrays, ours(), peer())
    calls = [peer, ours]
    if kind.endswith("grad"):
        for array in arrays:
            array.requires_grad_()
        calls = [lambda: peer().abs().sum().backward(), lambda: ours().abs().sum().backward()]
    times = least_us(of, calls)
    if times[1] > 0.95 * times[0]:
        times = list(map(min, times, least_us(of, calls)))
    return times, right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=["numpy", "torch"], default="numpy")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--kinds", nargs="+")
    parser.add_argument("--first", action="store_true", help="time each case's first call, once")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--worst", type=int, default=30)
    args = parser.parse_args()
    of = (NumPys if args.peer == "numpy" else Tensors)(args.seed, args.device)
    choose, kinds = random.Random(args.seed), args.kinds or of.kinds
    results, wrong, begin = [], 0, time.time()
    while time.time() - begin < args.seconds:
        most = 30 if args.device == "cuda" else 1
        if args.first:  # many of a kind at a time, of which the first ones warm the code
            kind, cases = choose.choice(kinds), []
            while len(cases) < FIRST_CASES:
                cases += filter(None, [draw(of, choose, [kind], most / FIRST_CASES)])
            measured = zip(cases, first_us(of, cases, choose.random() < 0.5))
            measured = [(case, times, True) for case, times in measured][FIRST_WARM:]
        else:
            case = draw(of, choose, kinds, most)
            with of.mode(case and case[0]):
                measured = [(case, *measure(of, case[0], case[3]))] if case is not None else []
        for (kind, dtype, text, _), (peer, ours), right in measured:
            results.append((peer / ours, kind, dtype, f"{peer:9.1f} {ours:9.1f} us  {kind} {dtype} {text}"))
            if not right:
                wrong += 1
                print("WRONG", results[-1][3])
    print(f"seed {args.seed}: {len(results)} cases, {wrong} wrong, {args.peer} on {args.device}")
    groups = collections.defaultdict(list)
    for ratio, kind, dtype, _ in results:
        groups[kind, dtype].append(ratio)
    print(f"{'':22} cases  {args.peer} by ours: geomean  least  below 0.95")
    for (kind, dtype), ratios in sorted(groups.items()):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = 100 * sum(ratio < 0.95 for ratio in ratios) / len(ratios)
        print(f"{kind:8} {dtype:12} {len(ratios):6} {mean:24.2f} {min(ratios):6.2f} {below:8.0f} %")
    print(f"the worst: ratio, {args.peer}, ours")
    for ratio, _, _, text in sorted(results)[: args.worst]:
        print(f"{ratio:6.2f} {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
