#!/usr/bin/env python3
"""Draws chains and times mmchain.multi_dot, untuned and tuned, beside what a peer does.

    python3 bench/bench_fresh.py [--peer torch|numpy] [--seed N] [--cases N] [--seconds S]
                                 [--thin | --crowd | --rows | --views] [--no-rules] [--lines FILE]

The cases depend on the seed alone, which is printed: 2 to 20 factors, sides 1 to 1500, a quarter of
them batches of up to 300,000, every dtype of the peer. torch is what torch.linalg.multi_dot, or for
stacks torch.matmul from left to right, calls, captured once and replayed as a CUDA graph; numpy is
numpy.linalg.multi_dot, or numpy.matmul from left to right. Everything takes turns: the peer,
mmchain for time, mmchain for multiplications; times are medians in microseconds.
After the tuning, a plan that is another than before is timed in turns with the one before; where it
is the same, nothing has changed.

With --thin sides are very unlike each other, from 1 to 1500, in 2 to 12 factors and batches of up to
100, so that most products have few elements or short sums. With --crowd they are of 65 to 128, in 2
to 9 factors and batches of up to 100: threads of NumPy's OpenBLAS compute them, and look for more
work while mmchain multiplies. With --rows only the first factor is a stack, of 1 to 300 rows a
matrix, and all products share the 1 to 4 others, as layers do; the rules below are not looked at.
With --views factors lie in any way, of which a case's letters tell: n without gaps, t transposed, c
conjugated and transposed, p padded, s with rows left out, e one matrix for all products of a batch;
torch's complex dtypes are both drawn. Rules are not looked at either.

Every answer is compared with float64 (complex128) arithmetic of the peer. The cases are timed in a
wisdom store of their own that is empty; then products that are none of theirs are tuned, and all of
them are timed again, again beside the peer.

Beside them stand rules that hold for every case, with SLACK; what breaks one is timed again, and
counts when it breaks it again:
  execute   plan(factors).execute takes what multi_dot takes
  same      the plan of the arrays is that of their text, and, of the first COMMANDS cases, what the
            mmchain command chooses ($MMCHAIN_COMMAND, or the one in PATH)
  apart     a batch of B takes at most B times a batch of 1
  library   a batch takes at most its products, in the plan's order, by the peer's calls
  flops     for time is not slower than for multiplications
  limit     a memory limit that does not bind changes nothing
  host      of matrices in the host's memory a device's result takes at most their transfer and the
            device's time (torch)
  told      a prediction is within PREDICTED of what is measured, for nine of ten

Printed are, by dtype and for chains and batches apart, the peer's time by ours: geometric mean,
least, and how many cases are slower than the peer by more than 2 %; how far predictions are off;
and the ten worst cases. Times below FLOOR_US count as that much, as the peer's least call does.
--lines writes one JSON line a case. Exit status: 0 all answers right, 1 one was wrong.
"""

import argparse
import collections
import functools
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FACTORS = [2, 3, 3, 4, 5, 6, 9, 20]
LARGEST = [6, 16, 40, 100, 300, 1500]
EQUAL = [2, 3, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 96, 128, 160]
BATCHES = [1, 1, 1, 2, 16, 100, 1000, 20000, 300000]
CROWD_FACTORS = [2, 3, 3, 4, 5, 6, 9]
CROWD_BATCHES = [1, 1, 2, 4, 8, 16, 16, 50, 100]
UNIT = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "c64": 2.0**-24, "f64": 2.0**-53, "c128": 2.0**-53}

THIN_FACTORS = [2, 3, 4, 5, 6, 9, 12]
THIN_SIDES = [1, 1, 2, 3, 4, 8, 16, 17, 33, 64, 100, 227, 300, 512, 1000, 1500]
THIN_BATCHES = [1, 1, 1, 1, 2, 16, 100]

ROWS, ROWS_BATCHES, ROWS_LARGEST = [1, 1, 2, 3, 7, 16, 20, 64, 128, 300], [2, 7, 16, 64, 100, 1000, 5000], [8, 40, 150, 1200]
ROWS_EQUAL = [4, 8, 16, 20, 32, 48, 64, 96, 128, 256, 512, 768, 1024]

SLACK, PREDICTED, COMMANDS, HOST_ELEMENTS = 1.02, 1.5, 12, 2e6
UNLIMITED = 1 << 50  # bytes

# shared: all but the first; lies: a letter a factor, "" for none
Case = collections.namedtuple("Case", "dtype dims batch shared lies", defaults=[False, ""])


def name_of(case):
    batch, lies = f"@{case.batch}" if case.batch > 1 else "", f" {case.lies}" if case.lies else ""
    return f"{case.dtype}:{'x'.join(map(str, case.dims))}{batch}{lies}"


def stacks_of(case):
    """The stack of each factor."""
    stack = (case.batch,) if case.batch > 1 else ()
    one = [letter == "e" for letter in case.lies] or [case.shared and i > 0 for i in range(len(case.dims) - 1)]
    return [() if is_one else stack for is_one in one]


def shapes_of(case):
    """The stack, rows, columns and letter of each factor."""
    return zip(stacks_of(case), case.dims, case.dims[1:], case.lies or "n" * (len(case.dims) - 1))


def lie(make, stack, m, n, letter):
    """Matrices that lie as a letter says, of what make() makes of a shape."""
    if letter in "tc":
        turned = make(*stack, n, m).swapaxes(-1, -2)
        return turned.conj() if letter == "c" else turned
    if letter == "p":
        return make(*stack, m, n + 3)[..., :n]
    return make(*stack, 2 * m, n)[..., ::2, :] if letter == "s" else make(*stack, m, n)


def result_shape(case, factors):
    stack = factors[0].shape[:-2] if case.shared or not case.lies else (case.batch,) if case.batch > 1 else ()
    return (*stack, factors[0].shape[-2], case.dims[-1])


def part_of(case, factors, chains):
    """The factors of some chains, a slice."""
    return [f[chains] if stack else f for f, stack in zip(factors, stacks_of(case))]


def draw_thin(choose, peer):
    dims = [
        choose.choice(THIN_SIDES) if choose.random() < 0.7 else round(math.exp(choose.uniform(0, math.log(1500))))
        for _ in range(choose.choice(THIN_FACTORS) + 1)
    ]
    return Case(choose.choice(peer.dtypes), dims, choose.choice(THIN_BATCHES))


def draw_crowd(choose, peer):
    factors = choose.choice(CROWD_FACTORS)
    dims = [choose.randint(65, 128) for _ in range(factors + 1)]
    if choose.random() < 0.5:
        dims = [dims[0]] * (factors + 1)
    return Case(choose.choice(peer.dtypes), dims, choose.choice(CROWD_BATCHES))


def draw_rows(choose, peer):
    factors, largest = choose.randint(1, 4), choose.choice(ROWS_LARGEST)
    inner = [choose.randint(1, largest) for _ in range(factors + 1)]
    if choose.random() < 0.4:
        inner = [choose.choice(ROWS_EQUAL)] * (factors + 1)
    return Case(choose.choice(peer.dtypes), [choose.choice(ROWS)] + inner, choose.choice(ROWS_BATCHES), True)


def draw_views(choose, peer):
    factors, largest = choose.choice(CROWD_FACTORS), choose.choice(LARGEST)
    dims = [max(1, round(math.exp(choose.uniform(0, math.log(largest))))) for _ in range(factors + 1)]
    if choose.random() < 0.4:
        dims = [choose.choice(EQUAL)] * (factors + 1)
    dtype, batch = choose.choice([*peer.dtypes, "c128"]), choose.choice(BATCHES)
    letters = "tpse"[: 4 if batch > 1 else 3] + ("c" if dtype[0] == "c" else "t")
    share, one = choose.choice([0.3, 0.6, 1.0]), choose.choice(["", "", choose.choice(letters)])
    lies = [choose.choice(one or letters) if choose.random() < share else "n" for _ in range(factors)]
    if batch > 1 and set(lies) == {"e"}:
        lies[choose.randrange(factors)] = "n"
    return Case(dtype, dims, batch, False, "".join(lies))


def draw(choose, peer, special):
    """A case that fits: few enough elements and multiplications."""
    while True:
        factors, largest = choose.choice(FACTORS), choose.choice(LARGEST)
        dims = [max(1, round(math.exp(choose.uniform(0, math.log(largest))))) for _ in range(factors + 1)]
        if choose.random() < 0.4:
            dims = [choose.choice(EQUAL)] * (factors + 1)
        case = Case(choose.choice(peer.dtypes), dims, choose.choice(BATCHES))
        if special is not None:
            case = special(choose, peer)
        elements = sum(a * b for a, b in zip(case.dims, case.dims[1:])) * case.batch
        work = sum(case.dims[0] * a * b for a, b in zip(case.dims[1:], case.dims[2:])) * case.batch
        if elements <= peer.most_elements and work <= peer.most_work:
            return case


# ---- peers ---------------------------------------------------------------------------------------


class Torch:
    """torch's calls as a CUDA graph."""

    dtypes = ["f32", "f32", "f64", "bf16", "c64", "f16"]
    most_elements, most_work = 3e8, 2e11
    floor_us, device = 4.0, "cuda"

    def __init__(self, seed):
        import torch

        torch.manual_seed(seed)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch = torch
        self.of = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
                   "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128}

    def __str__(self):
        return f"torch {self.torch.__version__}, {self.torch.cuda.get_device_name()}"

    def factors(self, case):
        wide = self.torch.complex64 if case.dtype[0] == "c" else self.torch.float32

        def make(m, *shape):
            return self.torch.randn(shape, device="cuda", dtype=wide).div_(m**0.5).to(self.of[case.dtype])

        return [lie(functools.partial(make, m), stack, m, n, letter) for stack, m, n, letter in shapes_of(case)]

    def result(self, case, factors):
        return self.torch.full(result_shape(case, factors), math.nan, device="cuda", dtype=self.of[case.dtype])

    def matmul(self, a, b):
        return self.torch.matmul(a, b)

    def call(self, case, factors):
        torch = self.torch
        flat = case.batch == 1 and case.dtype[0] != "c"
        return self.graph((lambda: torch.linalg.multi_dot(factors)) if flat else
                          (lambda: functools.reduce(torch.matmul, factors)))

    def graph(self, plain):
        torch = self.torch
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            plain()
            plain()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            plain()
        return graph.replay

    def repeats(self, call, target_us):
        self.sample(call, 2)
        return max(3, min(300, int(target_us / max(self.sample(call, 1), 2.0))))

    def sample(self, call, repeats):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / repeats

    def exact(self, case, factors, chains):
        wide = self.torch.complex128 if case.dtype[0] == "c" else self.torch.float64
        cut = part_of(case, factors, slice(chains))
        product = functools.reduce(self.torch.matmul, (f.to(wide) for f in cut))
        scale = functools.reduce(self.torch.matmul, (f.to(wide).abs() for f in cut))
        return product, scale

    def off(self, result, product, scale):
        """The largest error in units of what its sums may be off by."""
        return float(((result.to(product.dtype) - product).abs() / (scale.abs() + scale.abs().max() * 1e-3)).max())


class NumPy:
    """numpy.linalg.multi_dot; of stacks numpy.matmul from left to right."""

    dtypes = ["f32", "f64", "f64", "c64", "c128"]
    most_elements, most_work = 8e6, 1e9
    floor_us, device = 0.0, "cpu"

    def __init__(self, seed):
        import numpy

        self.numpy = numpy
        self.random = numpy.random.default_rng(seed)
        self.of = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}

    def __str__(self):
        return f"NumPy {self.numpy.__version__}"

    def factors(self, case):
        def make(m, *shape):
            x = self.random.standard_normal(shape)
            if case.dtype[0] == "c":
                x = x + 1j * self.random.standard_normal(shape)
            return (x / m**0.5).astype(self.of[case.dtype])

        return [lie(functools.partial(make, m), stack, m, n, letter) for stack, m, n, letter in shapes_of(case)]

    def result(self, case, factors):
        return self.numpy.full(result_shape(case, factors), math.nan, dtype=self.of[case.dtype])

    def matmul(self, a, b):
        return self.numpy.matmul(a, b)

    def graph(self, plain):
        return plain

    def call(self, case, factors):
        if case.batch == 1:
            return lambda: self.numpy.linalg.multi_dot(factors)
        return lambda: functools.reduce(self.numpy.matmul, factors)

    def repeats(self, call, target_us):
        call()
        return max(1, min(2000, int(target_us / max(self.sample(call, 1), 0.5))))

    def sample(self, call, repeats):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - start) * 1e6 / repeats

    def exact(self, case, factors, chains):
        wide = "c16" if case.dtype[0] == "c" else "f8"
        cut = [f.astype(wide) for f in part_of(case, factors, slice(chains))]
        return functools.reduce(self.numpy.matmul, cut), functools.reduce(self.numpy.matmul, map(abs, cut))

    def off(self, result, product, scale):
        return float((abs(result - product) / (abs(scale) + abs(scale).max() * 1e-3)).max())


PEERS = {"torch": Torch, "numpy": NumPy}


# ---- cases ---------------------------------------------------------------------------------------


def check(peer, case, factors, result):
    """Whether the answer is right, by the first of its chains and their last."""
    chains = min(case.batch, 64)
    product, scale = peer.exact(case, factors, chains)
    got = result[:chains] if case.batch > 1 else result
    # Sums of k terms in any order, and a rounding of every intermediate.
    tolerance = UNIT[case.dtype] * (4 + 2 * sum(math.sqrt(k) for k in case.dims[1:-1]) + 4 * len(case.dims))
    off = peer.off(got, product, scale)
    if case.batch > chains and not off > tolerance:
        tail = part_of(case, factors, slice(-chains, None))
        product, scale = peer.exact(case, tail, chains)
        off = peer.off(result[-chains:], product, scale)
    return off <= tolerance, off / tolerance


def in_turns(peer, calls, rounds=5, target_us=4000.0):
    repeats = [peer.repeats(call, target_us) for call in calls]
    samples = [[] for _ in calls]
    for _ in range(rounds):
        for mine, call, count in zip(samples, calls, repeats):
            mine.append(peer.sample(call, count))
    return [statistics.median(mine) for mine in samples]


def same_work(plan, other):
    """Whether two plans make the same calls."""
    return plan.order == other.order and [s.kernel for s in plan.steps] == [s.kernel for s in other.steps]


def bench(mmchain, peer, case, before, rules=None):
    """One line: microseconds of peer, ours and flops; the prediction; whether the answer is right;
    and how much longer it takes than by the plan before, if that is another; with rules, how far they
    are broken: rules says whether the command is asked. And the plan."""
    factors = peer.factors(case)
    result = peer.result(case, factors)
    ours = functools.partial(mmchain.multi_dot, factors, out=result)
    flops = functools.partial(mmchain.multi_dot, factors, out=result, objective="flops")
    ours()
    right, off = check(peer, case, factors, result)
    theirs_us, ours_us, flops_us = in_turns(peer, [peer.call(case, factors), ours, flops])
    plan, harm = mmchain.plan(factors) if case.shared or case.lies else mmchain.plan(name_of(case), device=peer.device), 1.0
    if before is not None and not same_work(before, plan):
        was_us, is_us = in_turns(peer, [lambda: before.execute(factors, result), lambda: plan.execute(factors, result)])
        harm = is_us / was_us
        if harm > 1.03:
            was_us, is_us = in_turns(peer, [lambda: before.execute(factors, result), lambda: plan.execute(factors, result)])
            harm = min(harm, is_us / was_us)
    line = {"case": name_of(case), "peer_us": theirs_us, "ours_us": ours_us, "flops_us": flops_us,
            "predicted_us": plan.predicted_seconds * 1e6, "right": right, "error": off,
            "kernels": [step.kernel for step in plan.steps], "harm": harm}
    if rules is not None:
        check_rules(mmchain, peer, case, factors, result, line, rules)
    return line, plan


# ---- rules ---------------------------------------------------------------------------------------


def one_by_one(peer, plan, factors):
    """The products of the plan by the peer's calls, as a function."""
    operands = [re.findall(r"[AT]\d+", step.product.split("=")[1]) for step in plan.steps]

    def products():
        there = {f"A{i}": f for i, f in enumerate(factors, 1)}
        for number, (a, b) in enumerate(operands, 1):
            there[f"T{number}"] = peer.matmul(there[a], there[b])
        return there[f"T{len(operands)}"]

    return peer.graph(products)


def command_order(case, device):
    """The order that the command chooses for time; None where there is no command."""
    command = os.environ.get("MMCHAIN_COMMAND") or shutil.which("mmchain")
    if command is None:
        return None
    ran = subprocess.run([command, "plan", name_of(case), "--for", "time", "--on", device, "--json"],
                         capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["order"]


def host_call(peer, case, factors, plan):
    """What host matrices take, and their transfer; None where the peer has no device."""
    if peer.device == "cpu" or sum(f.numel() for f in factors) > HOST_ELEMENTS:
        return None
    there = [f.cpu() for f in factors]
    result = peer.result(case, factors)
    back = result.cpu()

    def transfer():
        for to, given in zip(factors, there):
            to.copy_(given)
        back.copy_(result)

    return lambda: plan.execute(there, back), transfer


def broken_twice(peer, line, rule, calls, allowed):
    """Notes how many times as long the first call takes as allowed says by the times of all: the less
    of two turns, where the first breaks the rule."""
    floor_us = peer.floor_us

    def ratio():
        us = in_turns(peer, calls)
        return max(us[0], floor_us) / max(allowed(us), floor_us, 1e-3)

    first = ratio()
    line["rules"][rule] = first if first <= SLACK else min(first, ratio())


def check_rules(mmchain, peer, case, factors, result, line, with_command):
    ours = functools.partial(mmchain.multi_dot, factors, out=result)
    flops = functools.partial(mmchain.multi_dot, factors, out=result, objective="flops")
    named, plan = mmchain.plan(name_of(case), device=peer.device), mmchain.plan(factors)
    limited = mmchain.plan(name_of(case), device=peer.device, memory_limit=UNLIMITED)
    line["rules"] = {"same": 1.0 if same_work(named, plan) else math.inf,
                     "limit": 1.0 if same_work(named, limited) else math.inf}
    if with_command:
        order = command_order(case, peer.device)
        if order is not None and order != named.order:
            line["rules"]["same"] = math.inf
    broken_twice(peer, line, "execute", [functools.partial(plan.execute, factors, result), ours],
                 lambda us: us[1])
    broken_twice(peer, line, "flops", [ours, flops], lambda us: us[1])
    if case.batch > 1:
        single = Case(case.dtype, case.dims, 1)
        first = [f[0] for f in factors]
        alone = functools.partial(mmchain.multi_dot, first, out=peer.result(single, first))
        broken_twice(peer, line, "apart", [ours, alone], lambda us: us[1] * case.batch)
        broken_twice(peer, line, "library", [ours, one_by_one(peer, plan, factors)], lambda us: us[1])
    moved = host_call(peer, case, factors, named)
    if moved is not None:
        broken_twice(peer, line, "host", [moved[0], moved[1], ours], lambda us: us[1] + us[2])
    if line["predicted_us"] > 0:
        off = max(line["predicted_us"], peer.floor_us) / max(line["ours_us"], peer.floor_us)
        line["rules"]["told"] = max(off, 1 / off)


def print_rules(lines):
    for rule in ("execute", "same", "apart", "library", "flops", "limit", "host", "told"):
        asked = [x for x in lines if rule in x.get("rules", {})]
        most = PREDICTED if rule == "told" else SLACK
        broken = sorted((x for x in asked if not x["rules"][rule] <= most), key=lambda x: -x["rules"][rule])
        if asked:
            print(f"rule {rule}: {len(broken)} of {len(asked)} cases break it ({100 * len(broken) / len(asked):.1f} %)")
        for line in broken[:10]:
            print(f"  {line['rules'][rule]:6.2f}  {line['case']}  ours {line['ours_us']:.1f}  predicted"
                  f" {line['predicted_us']:.1f} us  {'+'.join(dict.fromkeys(line['kernels']))}")


def tune(mmchain, peer, choose, budget):
    for dtype in ("f32", "f64"):
        products = [tuple(choose.randint(50, 900) for _ in range(3)) for _ in range(3)]
        mmchain.tune(set=products, dtype=dtype, device=peer.device, budget=budget / 2)
    mmchain.clear_cache()


# ---- what is printed -----------------------------------------------------------------------------


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def ratio(line, floor_us):
    return max(line["peer_us"], floor_us) / max(line["ours_us"], floor_us, 1e-3)


def summarize(title, lines, floor_us):
    rows = collections.defaultdict(list)
    for line in lines:
        dtype, batch = line["case"].split(":")[0], "@" in line["case"]
        rows[dtype, "batches" if batch else "chains"].append(ratio(line, floor_us))
    print(f"{title}: peer / ours")
    for (dtype, kind), ratios in sorted(rows.items()):
        slow = sum(r < 0.98 for r in ratios)
        print(f"  {dtype:5} {kind:8} {len(ratios):4} cases  geomean {geomean(ratios):6.2f}  least {min(ratios):5.2f}"
              f"  below 0.98: {slow}")
    off = sorted(abs(math.log(max(line["predicted_us"], floor_us) / max(line["ours_us"], floor_us)))
                 for line in lines if line["predicted_us"] > 0)
    if off:
        print(f"  predictions: nine of ten within a factor of {math.exp(off[len(off) * 9 // 10]):.2f}")


def worst(title, lines, key, count=10):
    print(title)
    for line in sorted(lines, key=key, reverse=True)[:count]:
        print(f"  {key(line):6.2f}  {line['case']}  peer {line['peer_us']:.1f}  ours {line['ours_us']:.1f}"
              f"  flops {line['flops_us']:.1f}  predicted {line['predicted_us']:.1f} us  {'+'.join(dict.fromkeys(line['kernels']))}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=sorted(PEERS), default="torch")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=60.0, help="at most, of each of the two passes")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of tuning between them; 0: no second pass")
    parser.add_argument("--thin", action="store_true", help="sides that are very unlike each other")
    parser.add_argument("--crowd", action="store_true", help="sides of 65 to 128")
    parser.add_argument("--rows", action="store_true", help="stacks of rows by factors that all products share")
    parser.add_argument("--views", action="store_true", help="factors that are transposed, conjugated, padded, shared")
    parser.add_argument("--no-rules", action="store_true", help="time only, so that more cases fit the seconds")
    parser.add_argument("--lines", help="a file for one JSON line a case")
    return parser.parse_args()


def one_pass(mmchain, peer, cases, seconds, when, out, before, with_rules):
    lines, plans, start = [], [], time.monotonic()
    for case, plan in zip(cases, before or [None] * len(cases)):
        if time.monotonic() - start > seconds:
            break
        rules = len(lines) < COMMANDS if with_rules else None
        line, plan = bench(mmchain, peer, case, plan, rules)
        line["when"] = when
        lines.append(line)
        plans.append(plan)
        if not line["right"]:
            print(f"WRONG: {line['case']} {when}: error {line['error']:.3g} of what is allowed")
        if out is not None:
            out.write(json.dumps(line) + "\n")
    return lines, plans


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MMCHAIN_WISDOM"] = os.path.join(folder, "wisdom.db")
        import mmchain

        choose, peer = random.Random(args.seed), PEERS[args.peer](args.seed)
        special = next((draws for asked, draws in ((args.thin, draw_thin), (args.crowd, draw_crowd),
                                                   (args.rows, draw_rows), (args.views, draw_views)) if asked), None)
        cases = [draw(choose, peer, special) for _ in range(args.cases)]
        print(f"seed {args.seed}, {peer}")
        out = open(args.lines, "w") if args.lines else None
        before, plans = one_pass(mmchain, peer, cases, args.seconds, "untuned", out, None, not (args.no_rules or args.rows or args.views))
        summarize(f"untuned, {len(before)} cases", before, peer.floor_us)
        worst("worst ours / peer", before, lambda x: 1 / ratio(x, peer.floor_us))
        print_rules(before)
        worst("worst time / flops", before, lambda x: x["ours_us"] / x["flops_us"], 5)
        after = []
        if args.budget > 0:
            tune(mmchain, peer, choose, args.budget)
            after, _ = one_pass(mmchain, peer, cases[: len(before)], args.seconds, "tuned", out, plans, False)
            summarize(f"after tuning products of no case, {len(after)} cases", after, peer.floor_us)
            worst("worst ours / peer", after, lambda x: 1 / ratio(x, peer.floor_us))
            worst("worst after / before", [x for x in after if x["harm"] != 1], lambda x: x["harm"])
            harms = [x["harm"] for x in after]
            print(f"after / before: geomean {geomean(harms):.3f}, more than 1.03: {sum(h > 1.03 for h in harms)},"
                  f" other plans: {sum(h != 1 for h in harms)}")
        if out is not None:
            out.close()
        return 0 if all(line["right"] for line in before + after) else 1


if __name__ == "__main__":
    sys.exit(main())
