"""Chains whose factors have structure, against NumPy as it is written down and SciPy as an expert writes
it: python3 bench/bench_structure.py [COUNT [SEED]].

Chains are random by the rule of Barthels, Copik and Bientinesi (CGO 2018): 4 to 9 factors, sizes from 50 to
2000 in steps of 50, 5 % vectors, 35 % square; of square ones an op N (twice as often), T, inverse or
inverse-transpose, and with probability 0.75 a property. NumPy multiplies from left to right and forms inverses.
The expert solves with SciPy's routine for each property, scales by diagonals, and goes from left to
right or from right to left, whichever takes fewer multiplications. Each is the least of three runs in turn,
or of as many as half a second has.
"""

import math
import sys
import time

import numpy as np

import mmchain

try:
    import scipy.linalg as sla
except ImportError:
    sla = None


class Factor:
    def __init__(self, rng, rows, columns):
        self.kind, self.turned, self.inverse = "general", False, False
        if rows == columns:
            op = rng.integers(5)
            self.turned, self.inverse = op in (2, 4), op in (3, 4)
            if rng.random() < 0.75:
                self.kind = ["diagonal", "lower", "upper", "symmetric", "spd"][rng.integers(5)]
        a = rng.standard_normal((rows, columns)) / math.sqrt(columns)
        if rows == columns:
            a += 3 * np.eye(rows)
        if self.kind == "lower":
            a = np.tril(a)
        if self.kind == "upper":
            a = np.triu(a)
        if self.kind == "diagonal":
            a = np.diag(np.diag(a)).copy()
        if self.kind in ("symmetric", "spd"):
            a = (a + a.T) / 2
        self.array = a

    def ours(self):
        makers = {"lower": mmchain.lower, "upper": mmchain.upper, "diagonal": mmchain.diagonal,
                  "symmetric": mmchain.symmetric, "spd": mmchain.spd}
        factor = makers[self.kind](self.array) if self.kind in makers else self.array
        factor = factor.T if self.turned else factor
        return mmchain.inv(factor) if self.inverse else factor

    def written(self):
        a = self.array.T if self.turned else self.array
        return np.linalg.inv(a) if self.inverse else a

    def apply(self, b, left):
        """The factor times b, or b times the factor, by the routine for it."""
        a = self.array.T if self.turned else self.array
        if self.kind == "diagonal":
            d = np.diag(a)
            d = 1 / d if self.inverse else d
            return d[:, None] * b if left else b * d
        if not self.inverse:
            return a @ b if left else b @ a
        if not left:
            return self.solve(a.T, b.T, self.turned is False).T
        return self.solve(a, b, self.turned)

    def solve(self, a, b, turned):
        if self.kind in ("lower", "upper"):
            return sla.solve_triangular(a, b, lower=(self.kind == "lower") != turned, check_finite=False)
        kinds = {"spd": "pos", "symmetric": "sym"}
        return sla.solve(a, b, assume_a=kinds.get(self.kind, "gen"), check_finite=False)


def make_chain(rng):
    n = rng.integers(4, 10)
    size = lambda: 1 if rng.random() < 0.05 else 50 * int(rng.integers(1, 41))
    dims = [size()]
    for _ in range(n):
        dims.append(dims[-1] if rng.random() < 0.35 else size())
    return [Factor(rng, *pair) for pair in zip(dims, dims[1:])]


def as_written(chain):
    result = chain[0].written()
    for factor in chain[1:]:
        result = result @ factor.written()
    return result


def as_expert(chain):
    shapes = [f.array.shape for f in chain]
    rows, columns = shapes[0][0], shapes[-1][1]
    from_left = sum(rows * a * b for a, b in shapes)
    from_right = sum(a * b * columns for a, b in shapes)
    if from_left < from_right:
        result = chain[0].written()
        for factor in chain[1:]:
            result = factor.apply(result, left=False)
        return result
    result = chain[-1].written()
    for factor in reversed(chain[:-1]):
        result = factor.apply(result, left=True)
    return result


def seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = np.random.default_rng(seed)
    peers = {"numpy": as_written}
    if sla is not None:
        peers["expert"] = as_expert
    ratios = {name: [] for name in peers}
    for number in range(count):
        chain = make_chain(rng)
        factors = [factor.ours() for factor in chain]
        best = {}
        start, turns = time.perf_counter(), 0
        while turns < 3 or time.perf_counter() - start < 0.5:
            turns += 1
            for name, work in [("ours", lambda: mmchain.multi_dot(factors)),
                               *((name, lambda peer=peer: peer(chain)) for name, peer in peers.items())]:
                took, result = seconds(work)
                best[name] = min(took, best.get(name, math.inf))
                if name == "ours":
                    ours = result
                elif np.abs(result - ours).max() > 1e-6 * np.abs(result).max():
                    raise SystemExit(f"chain {number}: {name} differs")
        for name in peers:
            ratios[name].append(best[name] / best["ours"])
        text = ", ".join(f"{ratios[name][-1]:.2f} of {name}" for name in peers)
        print(f"{mmchain.plan(factors).chain.partition(':')[2]}: {best['ours'] * 1e3:.2f} ms, {text}", flush=True)
    for name, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name} takes {mean:.2f} times as long in the geometric mean of {count} chains, "
              f"{min(values):.2f} to {max(values):.2f}")


if __name__ == "__main__":
    main()
