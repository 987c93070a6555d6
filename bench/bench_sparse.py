"""Chains of sparse matrices with power laws, against scipy.sparse from left to right:
python3 bench/bench_sparse.py [CHAINS [SEED]].

A chain is a path through seven kinds of nodes, 1000 to 8000 of each. The edges of a factor are drawn by the degrees of
their ends, which fall as a power of their rank, -0.5 to -0.9, with 1 to 4 edges a node of the larger kind. Of every
order the multiplications are counted exactly, from the products of all sub-chains; seconds are the least of five
runs in turn.
"""

import itertools
import math
import sys
import time

import numpy as np
import scipy.sparse as sp

import mmchain

FACTORS = 6


def edges(rng, rows, columns):
    def ends(count, total):
        weight = np.arange(1, count + 1) ** -rng.uniform(0.5, 0.9)
        return rng.permutation(count)[rng.choice(count, total, p=weight / weight.sum())]

    total = int(rng.uniform(1, 4) * max(rows, columns))
    a = sp.csr_matrix((rng.random(total), (ends(rows, total), ends(columns, total))), shape=(rows, columns))
    a.sum_duplicates()
    return a


def multiplications(a, b):
    return int(np.bincount(a.indices, minlength=a.shape[1]).astype(np.int64) @ np.diff(b.indptr))


class Counts:
    """The multiplications of every product of two sub-chains, and of orders made of them."""

    def __init__(self, factors):
        n = len(factors)
        self.n, self.of = n, {}
        parts = {(i, i): f.astype(bool).astype(np.float32) for i, f in enumerate(factors)}
        for length in range(2, n + 1):
            for i in range(n - length + 1):
                j = i + length - 1
                for k in range(i, j):
                    self.of[i, k, j] = multiplications(parts[i, k], parts[k + 1, j])
                if length < n:
                    parts[i, j] = parts[i, i] @ parts[i + 1, j]

    def least(self, price=None):
        """The exact count of the order that is cheapest by a price, which is the count itself at first."""
        price = price or (lambda i, k, j: self.of[i, k, j])
        best = {(i, i): (0, 0) for i in range(self.n)}
        for length in range(2, self.n + 1):
            for i in range(self.n - length + 1):
                j = i + length - 1
                best[i, j] = min(
                    (best[i, k][0] + best[k + 1, j][0] + price(i, k, j), best[i, k][1] + best[k + 1, j][1] + self.of[i, k, j])
                    for k in range(i, j)
                )
        return best[0, self.n - 1][1]

    def left_to_right(self):
        return sum(self.of[0, k, k + 1] for k in range(self.n - 1))

    def order(self, text):
        """The exact count of an order, "((A1 A2) A3)"."""
        total, stack = 0, []
        for word in text.replace("(", " ( ").replace(")", " ) ").split():
            if word == ")":
                right, left = stack.pop(), stack.pop()
                stack.pop()
                total += self.of[left[0], left[1], right[1]]
                stack.append((left[0], right[1]))
            else:
                stack.append(word if word == "(" else (int(word[1:]) - 1,) * 2)
        return total


def left_to_right(factors):
    product = factors[0]
    for factor in factors[1:]:
        product = product @ factor
    return product


def least_times(functions, runs=5):
    least = [math.inf] * len(functions)
    for _ in range(runs):
        for f, function in enumerate(functions):
            start = time.perf_counter()
            function()
            least[f] = min(least[f], time.perf_counter() - start)
    return least


def order_of(factors, objective):
    line = next(x for x in mmchain.sparse_plan(factors, objective=objective).splitlines() if x.startswith("order"))
    return line.split(None, 1)[1]


def main():
    chains = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print("multiplications by the optimum's: of mmchain's order, left to right, as if dense; seconds: scipy, mmchain")
    ratios, counts = [], []
    for chain in range(chains):
        rng = np.random.default_rng([seed, chain])
        dims = [int(x) for x in rng.integers(1000, 8001, FACTORS + 1)]
        factors = [edges(rng, *pair) for pair in itertools.pairwise(dims)] if hasattr(itertools, "pairwise") else [
            edges(rng, dims[i], dims[i + 1]) for i in range(FACTORS)
        ]
        exact = Counts(factors)
        best = exact.least()
        ours = exact.order(order_of(factors, "flops"))
        dense = exact.least(lambda i, k, j: dims[i] * dims[k + 1] * dims[j + 1])
        theirs_s, ours_s = least_times([lambda: left_to_right(factors), lambda: mmchain.multi_dot(factors)])
        found, wanted = mmchain.multi_dot(factors), left_to_right(factors)
        assert abs(found - wanted).max() <= 1e-12 * abs(wanted).max()
        ratios.append(theirs_s / ours_s)
        counts.append(ours / best)
        print(
            f"{'x'.join(map(str, dims)):45} {ours / best:6.3f} {exact.left_to_right() / best:6.2f} {dense / best:6.2f}"
            f"  {theirs_s:8.4f} {ours_s:8.4f}  {theirs_s / ours_s:5.2f}  density {wanted.nnz / dims[0] / dims[-1]:.2g}",
            flush=True,
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"worst order {max(counts):.3f}; scipy's time by mmchain's: geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
