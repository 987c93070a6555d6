"""The tests of LAAB-Python (github.com/HPAC/LAAB-Python) that are chains, against the best kernels for them:
python3 bench/bench_laab.py [SIDE [RUNS]].

Each test is one expression, written as its author would; the peer is what an expert calls of BLAS through SciPy for
it, in the best order. Times are the least of several runs in turn, in float32, as there. numpy is the
expression as it is written, from left to right.
"""

import math
import sys
import time

import numpy as np
from scipy.linalg import blas

import mmchain


def least_times(functions, runs):
    least = [math.inf] * len(functions)
    for _ in range(runs):
        for f, function in enumerate(functions):
            start = time.perf_counter()
            function()
            least[f] = min(least[f], time.perf_counter() - start)
    return least


def tests(n):
    rng = np.random.default_rng(1)
    a, b, h = (np.asfortranarray(rng.standard_normal((n, n)), np.float32) for _ in range(3))
    lower = np.asfortranarray(np.tril(a))
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    ours = mmchain.multi_dot
    yield "gemm: A B", lambda: ours([a, b]), lambda: blas.sgemm(1, a, b), lambda: a @ b
    yield "syrk: A A^T, one half", lambda: ours([a, a.T]), lambda: blas.ssyrk(1, a), lambda: a @ a.T
    yield "trmm: L B", lambda: ours([mmchain.lower(lower), b]), lambda: blas.strmm(1, lower, b, lower=1), lambda: lower @ b
    yield "transposes: A^T B^T", lambda: ours([a.T, b.T]), lambda: blas.sgemm(1, a, b, trans_a=1, trans_b=1), lambda: a.T @ b.T
    # Row by row, as vector operations touch memory least; BLAS has no kernel for bands times a matrix.
    rows = np.ascontiguousarray(b)
    bands = np.triu(np.tril(a, 1), -1)

    def three_bands():
        middle, above, below = (np.diagonal(bands, d)[:, None] for d in (0, 1, -1))
        result = middle * rows
        result[:-1] += above * rows[1:]
        result[1:] += below * rows[:-1]
        return result

    yield "tridiagonal: T B", lambda: ours([mmchain.tridiagonal(bands), rows]), three_bands, lambda: bands @ rows
    diagonal = np.diag(np.diagonal(a)).copy()
    yield "diagonal: D B", lambda: ours([mmchain.diagonal(diagonal), rows]), lambda: np.diagonal(diagonal)[:, None] * rows, lambda: diagonal @ rows
    yield (
        "chain, right to left: H^T H x",
        lambda: ours([h.T, h, x]),
        lambda: blas.sgemv(1, h, blas.sgemv(1, h, x), trans=1),
        lambda: h.T @ h @ x,
    )
    yield (
        "chain, left to right: y^T H^T H",
        lambda: ours([y, h.T, h]),
        lambda: blas.sgemv(1, h, blas.sgemv(1, h, y), trans=1),
        lambda: y @ h.T @ h,
    )
    yield (
        "chain, mixed: H^T y x^T H",
        lambda: ours([h.T, y[:, None], x[None, :], h]),
        lambda: np.outer(blas.sgemv(1, h, y, trans=1), blas.sgemv(1, h, x, trans=1)),
        lambda: h.T @ y[:, None] @ x[None, :] @ h,
    )
    product = [a.T, b]
    yield (
        "common subexpression: (A^T B)(A^T B)",
        lambda: ours([*product, *product]),
        lambda: (lambda c: blas.sgemm(1, c, c))(blas.sgemm(1, a, b, trans_a=1)),
        lambda: a.T @ b @ a.T @ b,
    )
    yield "part: row 2 of A B", lambda: ours([a[2], b]), lambda: blas.sgemv(1, b, a[2], trans=1), lambda: (a @ b)[2]


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    print(f"{'test, n = ' + str(n):40} {'best s':>9} {'ours s':>9} {'numpy s':>9}  ours/best  numpy/best")
    losses = []
    for name, ours, best, numpy in tests(n):
        ours(), best()
        times = least_times([best, ours, numpy], runs)
        losses.append(times[1] / times[0])
        print(f"{name:40} {times[0]:9.5f} {times[1]:9.5f} {times[2]:9.5f} {losses[-1]:9.2f} {times[2] / times[0]:11.2f}", flush=True)
    print(f"ours by best: geometric mean {math.exp(sum(map(math.log, losses)) / len(losses)):.2f}, worst {max(losses):.2f}")


if __name__ == "__main__":
    main()
