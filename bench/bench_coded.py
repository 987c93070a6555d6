"""Chains of seven factors with structure: the time of the plan that is chosen by that of the best plan that was measured,
over orders and kernels: python3 bench/bench_coded.py [COUNT [SEED [SIDE]]].

Chains are coded as those of "Compilation of Generalized Matrix Chains with Symbolic Sizes" (CGO 2026): a factor is
general with probability 1/2, else an inverse, positive definite, triangular, or the inverse of one of these. Sides are
from 50 to SIDE (400). Of all 132 orders, each with the kernels that are chosen for it and with those for matrices of which
nothing is said, the ten of least predicted time are measured in turn, least of seven runs each.
"""

import math
import sys
import time

import numpy as np

import mmchain

LENGTH, MEASURED, RUNS = 7, 10, 7
KINDS = ["general.inv", "spd", "spd.inv", "upper", "lower", "upper", "lower", "upper.inv", "lower.inv"]


def orders(first, last):
    if first == last:
        yield f"A{first}"
        return
    for split in range(first, last):
        for left in orders(first, split):
            for right in orders(split + 1, last):
                yield f"({left} {right})"


def draw_words(rng):
    while True:
        words = ["general" if rng.random() < 0.5 else KINDS[rng.integers(len(KINDS))] for _ in range(LENGTH)]
        if "general" in words:
            return words


def draw_factors(rng, words, most):
    side, factors = int(rng.integers(50, most + 1)), []
    for word in words:
        kind, _, inverse = word.partition(".")
        columns = int(rng.integers(50, most + 1)) if word == "general" else side
        a = rng.standard_normal((side, columns)) / math.sqrt(columns)
        if word != "general":
            a = (a + a.T) / 2 + 3 * np.eye(side) if kind == "spd" else a + 3 * np.eye(side)
        a = {"lower": np.tril, "upper": np.triu}.get(kind, np.asarray)(a)
        factors.append((np.ascontiguousarray(a), kind, bool(inverse)))
        side = columns
    return factors


def said(factors, kinds):
    """The factors as mmchain is told of them, with what they are or with nothing but inverses."""
    makers = {"lower": mmchain.lower, "upper": mmchain.upper, "spd": mmchain.spd} if kinds else {}
    told = [makers.get(kind, lambda a: a)(array) for array, kind, _ in factors]
    return [mmchain.inv(x) if inverse else x for x, (_, _, inverse) in zip(told, factors)]


def seconds(plan, arrays):
    start = time.perf_counter()
    plan.execute(arrays)
    return time.perf_counter() - start


def measure(factors, every):
    """The least seconds of the plan that is chosen, and of all that are measured."""
    known, plain = said(factors, True), said(factors, False)
    offers = []
    for order in every:
        for told in (known, plain):
            plan = mmchain.plan(told, objective="time", order=order)
            offers.append((plan.predicted_seconds, plan))
    offers.sort(key=lambda x: x[0])
    tried = [mmchain.plan(known, objective="time"), *(plan for _, plan in offers[:MEASURED])]
    arrays = [array for array, _, _ in factors]
    best = [math.inf] * len(tried)
    for _ in range(RUNS):
        for t, plan in enumerate(tried):
            best[t] = min(best[t], seconds(plan, arrays))
    return best[0], min(best), tried[best.index(min(best))]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    rng, every, ratios = np.random.default_rng(seed), list(orders(1, LENGTH)), []
    for _ in range(count):
        words = draw_words(rng)
        chosen, best, plan = measure(draw_factors(rng, words, most), every)
        ratios.append(chosen / best)
        print(f"{','.join(words)}: {chosen * 1e3:.2f} ms, {ratios[-1]:.2f} of the best, {plan.order}", flush=True)
    ratios.sort()
    within = sum(r <= 1.1 for r in ratios) / count
    print(f"{within:.0%} of {count} chains within 1.10 of the best; median {ratios[count // 2]:.2f}, worst {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
