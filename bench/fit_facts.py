#!/usr/bin/env python3
"""Fits the constants of src/device/cuda/model.h to what bench_facts measured, and writes kinds/NAME.h.

    python3 bench/fit_facts.py LINES.jsonl [--out FOLDER] [--held-out SHARE] [--seed N]

The constants of each part are those of least error, by steps along one constant at a time, in
logarithms, that are halved nine times. A share of the chains, drawn by the seed, is held out: for
both shares the half and nine tenths of the errors are printed (1.10 means off by a tenth), and
beside them those of the constants in FOLDER/NAME.h, where it is there. FOLDER is
src/device/cuda/kinds. All times are microseconds here. Needs NumPy.
"""
import argparse
import json
import pathlib
import random
import re
import sys

import numpy as np

BYTES = {"f32": 4, "f64": 8, "c64": 8, "c128": 16, "f16": 2, "bf16": 2}
GENERAL, PACKS, TENSOR, TILES = ("chain in steps", "chain in packs", "chain by tensor cores",
                                 "chain in tiles")
RINGS, SIDES, LANES, STRIPS = "chain in rings", "chain by side", "chain by lane", "chain by strip"
PANELS = "chain by panels"
VECTORS = "chain of vectors"
SINGLE, SPINES, SQUARES = "chain alone", "chain in spines", "chain of equal squares"
LEAST, MOST = 1e-8, 1e10
HANDED_US = 3.5e-5  # of model.c
MANY, MANY_EACH, MANY_OF = 1 << 21, 32, ("f64", "c128")  # of model.h, and what cuBLAS has other kernels for
FEW_ROWS, FEW_COLS, LONG = 4, 128, 2048  # of model.h
BATCHES_OF_VECTORS = "vectors_along", "vectors_across"
VECTOR_PARTS = "vector", "long_vector", *BATCHES_OF_VECTORS


def descend(loss, start, bounds, halvings=9):
    """Returns the constants of least loss; bounds holds the least and most of each."""
    low, high = np.log(bounds).T
    at = np.log(start)
    best, step = loss(np.exp(at)), 1.0
    for _ in range(halvings):
        for _ in range(40):
            before = best
            for i in np.flatnonzero(high > low):
                for sign in (1, -1):
                    trial = at.copy()
                    trial[i] = np.clip(at[i] + sign * step, low[i], high[i])
                    value = loss(np.exp(trial))
                    if value < best:
                        best, at = value, trial
                        break
            if before - best < 1e-6:
                break
        step /= 2
    return np.exp(at)


class Part:
    """A formula of model.h: constants in the order of the header, and what it is fitted to."""
    power = 1.3
    weights = 1.0

    def bounds(self):
        return np.tile([LEAST, MOST], (len(self.start), 1))

    def errors(self, constants):
        return np.abs(np.log(self.predict(constants) / self.us))

    def fit(self):
        loss = lambda c: np.mean(self.weights * self.errors(c)**self.power)
        return descend(loss, np.array(self.start), self.bounds())


class Products(Part):
    """Products of one class of a dtype: rows of m, k, n, batch, microseconds, and what product_rows() says."""

    def __init__(self, dtype, rows, name, flops, _multiprocessors):
        self.m, self.k, self.n, self.batch, self.us, _ = np.array(rows, float).T
        self.vector, self.real = name in VECTOR_PARTS, dtype[0] != "c"
        self.name = name
        # Of few rows cuBLAS has several kernels, and which one it takes is not known: where it is the
        # fastest one, no other way may be taken.
        self.over = 2 if name == "few_rows" else 1
        self.traffic = (self.m * self.k + self.k * self.n + self.m * self.n) * self.batch * BYTES[dtype]
        self.flops_us = 2 * self.m * self.k * self.n * self.batch * (1 if self.real else 4) / flops
        self.weights = np.where(self.batch == 1, 1.5, 1.0)
        rate = 2e8 if BYTES[dtype] == 2 else 3e7
        self.start = [3.9e6, 1.9, 2e-3]
        if self.vector:
            self.start += [0.2, 3e-4, 1e-5]
        else:
            for side in (16, 32, 64, 128):
                self.start += [0.1, side**2 / 1024e3, 2 * side**2 * (1 if self.real else 4) / rate]

    def bounds(self):
        out = super().bounds()
        out[0] = 1.5e6 if self.name in BATCHES_OF_VECTORS else 2.5e6, 4.6e6
        out[3::3, 0] = 3e-4
        out[4:, 0] = np.maximum(out[4:, 0], 3e-7)
        return out

    def fit(self):
        def loss(c):
            off = np.log(self.predict(c) / self.us)
            return np.mean(self.weights * np.where(off > 0, self.over * off, -off)**self.power)
        return descend(loss, np.array(self.start), self.bounds())

    def tiles(self, c):
        if self.vector:
            longest = np.ceil(np.maximum(self.m, self.n) / 64)
            return c[3] + self.batch * longest * (c[4] + c[5] * self.k)
        return np.min([
            fixed + np.ceil(self.m / side) * np.ceil(self.n / side) * self.batch *
            (tile + term * np.ceil(self.k / 8) * 8)
            for side, fixed, tile, term in zip((16, 32, 64, 128), c[3::3], c[4::3], c[5::3])
        ], axis=0)

    def predict(self, c):
        tiles = np.maximum(self.tiles(c), self.flops_us)
        return c[1] + c[2] * self.k + np.hypot(tiles, self.traffic / c[0])

    def text(self, c):
        tiles = ", ".join("{%s}" % numbers(c[i:i + 3]) for i in range(3, len(c), 3))
        return ".bytes = %s, .launch = %s, .term = %s, .tiles = {%s}" % (*map(number, c[:3]), tiles)


class General(Part):
    kernel = GENERAL
    power = 1.5
    alone = 0.9  # of model.c: what a chain alone takes of what is counted
    start = [4e6, 1, 0.7, .5, .2, .05, .05, .03, .02, .01, .01, .01, .01, .01, .005]

    def __init__(self, dtype, lines, name, flops, multiprocessors):
        groups = [line["groups"][self.kernel] for line in lines]
        self.us = np.array([g["seconds"] * 1e6 for g in groups])
        self.delay, self.busy = (np.array([g[key] for g in groups]) for key in ("delay", "busy"))
        self.traffic = np.array([g["bytes"] for g in groups])
        self.batch = np.array([line["batch"] for line in lines], float)
        self.waves = np.ceil(self.batch / np.array([g["at_once"] for g in groups]))
        self.multiprocessors = multiprocessors

    def bounds(self):
        out = super().bounds()
        out[0], out[1] = (3.4e6, 4.6e6), (1, 1)
        return out

    def predict(self, c):
        one = self.delay @ c[3:9]
        rest = np.maximum(self.busy @ c[9:] * self.batch / self.multiprocessors, self.traffic / c[0])
        rest = np.maximum(rest, (self.waves - 1) * one * c[2])
        return np.where(self.batch == 1, self.alone, 1) * (c[1] + np.cbrt(one**3 + rest**3))

    def text(self, c):
        return ".bytes = %s, .launch = %s, .more_waves = %s, .delay = {%s}, .busy = {%s}" % (
            *map(number, c[:3]), numbers(c[3:9]), numbers(c[9:]))


class Packs(General):
    kernel = PACKS
    alone = 1.0


class Tensor(Packs):
    kernel = TENSOR


class Tiles(Packs):
    kernel = TILES


class Rings(Packs):
    kernel = RINGS


class Sides(Packs):
    kernel = SIDES


class Panels(Packs):
    kernel = PANELS


class ByLane(Packs):
    kernel = LANES


class ByStrip(Packs):
    kernel = STRIPS


class ByVector(Packs):
    kernel = VECTORS

    def __init__(self, *arguments):
        super().__init__(*arguments)
        read = self.traffic / self.us  # where much is read, little decides
        self.weights = np.select([read > 3.6e6, read > 2e6], [10.0, 3.0], 1.0)


class Single(Part):
    start = [1.2, 0.2, 0.03, 0.03, 0.02]

    def __init__(self, dtype, lines, name, flops, multiprocessors):
        groups = [line["groups"][SINGLE] for line in lines]
        self.us = np.array([g["seconds"] * 1e6 for g in groups])
        self.counts = np.array([g["counts"] for g in groups], float)

    def predict(self, c):
        return self.counts @ c

    def text(self, c):
        return numbers(c)


class Spines(Part):
    start = [2, 1, 0.5, 0.5, 0.1, 0.5, 0.02]
    text = Single.text

    def __init__(self, dtype, lines, name, flops, multiprocessors):
        self.us = np.array([line["groups"][SPINES]["seconds"] * 1e6 for line in lines])
        self.multiprocessors, self.bytes = multiprocessors, BYTES[dtype]
        n, count = (np.array([len(line[key]) for line in lines]) for key in ("dims", "steps"))
        self.n, self.last, self.width = n - 1, n - 1 + count - 1, int(np.max(n + count))
        most = np.array([max(line["dims"]) for line in lines])
        self.side = np.select([most <= 32, most <= 64], [32, 64], 128)
        even = np.array([len(set(line["dims"])) == 1 for line in lines]) & (most == self.side)
        whole = np.array([all(d % (16 // BYTES[dtype]) == 0 for d in line["dims"]) for line in lines])
        self.product = np.select([even & (self.side < 128), whole], [3, 2], 5)
        # Lines of fewer products get products of no time.
        self.steps = np.array([line["steps"] + [[0] * 5] * (max(count) - len(line["steps"]))
                               for line in lines])

    def predict(self, c):
        row, work = np.arange(len(self.us)), np.zeros(len(self.us))
        done = np.zeros((len(self.us), self.width))
        for s in range(self.steps.shape[1]):
            m, k, n, left, right = self.steps[:, s].T
            mine = c[self.product] * self.side / 32 + c[4] * k / 32 + c[6] * k * n * 1e-3
            mine = np.where(m > 0, mine, 0)
            hand_over = c[1] + HANDED_US * k * n * self.bytes
            handed = done[row, right] + np.where(right >= self.n, hand_over, 0)
            done[row, np.minimum(self.n + s, self.width - 1)] = np.maximum(done[row, left], handed) + mine
            work += mine
        return c[0] + np.maximum(done[row, self.last], work / self.multiprocessors)


class Squares(Part):
    start = [3.9e6, 0.8, 0.35, 7e-4, 3e7]

    def __init__(self, dtype, lines, name, flops, multiprocessors):
        self.us = np.array([line["groups"][SQUARES]["seconds"] * 1e6 for line in lines])
        self.side = np.array([line["dims"][0] for line in lines], float)
        self.count = np.array([len(line["steps"]) for line in lines], float)
        batch = np.array([line["batch"] for line in lines], float)
        self.traffic = (self.count + 2) * self.side**2 * BYTES[dtype] * batch
        self.flops = 2 * self.side**3 * self.count * batch

    def bounds(self):
        out = super().bounds()
        out[0] = 2.5e6, 4.6e6
        return out

    def predict(self, c):
        return (c[1] + self.count * (c[2] + c[3] * self.side**2) +
                np.hypot(self.traffic / c[0], self.flops / c[4]))

    def text(self, c):
        return ".bytes = %s, .launch = %s, .product = %s, .element = %s, .flops = %s" % tuple(
            map(number, c))


GROUPS = {"general": (General, GENERAL), "packs": (Packs, PACKS), "tensor": (Tensor, TENSOR),
          "tiled": (Tiles, TILES), "rings": (Rings, RINGS), "sides": (Sides, SIDES),
          "panels": (Panels, PANELS),
          "by_lane": (ByLane, LANES), "by_strip": (ByStrip, STRIPS), "by_vector": (ByVector, VECTORS),
          "single": (Single, SINGLE), "spines": (Spines, SPINES),
          "squares": (Squares, SQUARES)}


def number(value):
    return "%.4g" % value


def numbers(values):
    return ", ".join(map(number, values))


def read_lines(path):
    """Returns what was measured on, and the chains by dtype with their groups by kernel."""
    with open(path, encoding="utf-8") as file:
        device, *lines = map(json.loads, file)
    chains = {}
    for line in lines:
        line["groups"] = {group["kernel"]: group for group in line["groups"]}
        chains.setdefault(line["dtype"], []).append(line)
    return device, chains


def is_along(line, step):
    """Says whether the matrix that a vector meets is stored by lines each of which is a sum."""
    m, _, n, left, right = step
    factor = left if n == 1 else right
    forms = line.get("forms", "n" * (len(line["dims"]) - 1))
    return (factor < len(forms) and forms[factor] in "tx") != (n == 1)


def product_rows(line):
    """Returns the shapes, batch and microseconds of the chain's products that cuBLAS computed, and whether a
    vector's matrix is summed along its lines."""
    seconds = line.get("by_cublas") or [s if by.startswith("cublas") else None
                                        for s, by in zip(line["products"], line["by"])]
    return [(*step[:3], line["batch"], s * 1e6, is_along(line, step))
            for step, s in zip(line["steps"], seconds) if s is not None]


def product_class(dtype, row):
    m, k, n, batch, _, along = row
    if m == 1 or n == 1:
        if batch > 1:
            return "vectors_along" if along else "vectors_across"
        return "long_vector" if m * k * n >= LONG else "vector"
    is_many = batch > 1 and m * k * n >= MANY_EACH and m * k * n * batch >= MANY
    if dtype in MANY_OF:
        return "many" if is_many else "matrix"
    if dtype == "f32" and is_many and m <= FEW_ROWS and n <= FEW_COLS:
        return "few_rows"
    word = 16 // BYTES[dtype]
    if word > 1 and k % word == 0 and n % word == 0:
        return "whole_words"
    return "pairs" if word == 8 and k % 2 == 0 and n % 2 == 0 else "matrix"


def fastest(dtype, lines):
    """Returns the most flops in a microsecond of any product."""
    return max(2 * m * k * n * batch * (4 if dtype[0] == "c" else 1) / us
               for line in lines for m, k, n, batch, us, _ in product_rows(line))


def parts_of(dtype, lines):
    """Returns for each part of a dtype its class and the rows or chains that it is fitted to."""
    parts = {}
    for line in lines:
        for row in product_rows(line):
            parts.setdefault(product_class(dtype, row), (Products, []))[1].append(row)
        for name, (part, kernel) in GROUPS.items():
            # Of several chains, one a block, the model takes the time of one.
            alone = kernel == SINGLE and line["batch"] > 1
            if kernel in line["groups"] and not alone:
                parts.setdefault(name, (part, []))[1].append(line)
    order = [*VECTOR_PARTS, "matrix", "whole_words", "pairs", "many", "few_rows", *GROUPS]
    return {name: parts[name] for name in order if name in parts}


def constants_of(header, dtype, name):
    """Returns the constants of a part in a header, or None."""
    block = re.search(r"\[MMC_%s\] =(.*?)(?=\[MMC_|#endif)" % dtype.upper(), header, re.S)
    text = block and re.search(
        r"\.%s =(.*?)(?=\.(vector|long_vector|vectors_along|vectors_across|matrix|whole_words|pairs|many|few_rows|general|packs|tensor|tiled|rings|sides|panels|by_lane|by_strip|by_vector|single|spines|squares) =|$)" % name,
        block[1], re.S)
    return text and np.array(re.findall(r"(?<![\w.])\d+\.?\d*(?:e[+-]?\d+)?",
                                        re.sub(r"\.error = [^,]*", "", text[1])), float)


def quantiles(errors):
    return "%.2f %.2f" % tuple(np.exp(np.quantile(errors, [0.5, 0.9])))


def fit_part(dtype, name, part, fitted, held, flops, multiprocessors, header):
    """Returns the text of a part's constants, and by which shares what was fitted is off."""
    rows = part(dtype, fitted, name, flops, multiprocessors)
    constants = rows.fit()
    errors = rows.errors(constants)
    other = part(dtype, held, name, flops, multiprocessors) if held else None
    present = constants_of(header, dtype, name)
    said = ["%-5s %-12s %5d fitted: %s" % (dtype, name, len(rows.us), quantiles(errors))]
    if other:
        said.append("%5d held out: %s" % (len(other.us), quantiles(other.errors(constants))))
    if present is not None and len(present) == len(constants):
        said.append("the header's: " + quantiles(rows.errors(present)))
    print("   ".join(said), flush=True)
    own = ".error = %s, " % number(nine_tenths([errors])) if issubclass(part, General) else ""
    return "{%s%s}" % (own, rows.text(constants)), errors


def nine_tenths(errors):
    """The share that nine of ten are off by at most."""
    return float(np.expm1(np.quantile(np.concatenate(errors), 0.9))) if errors else 0.0


def fit_dtype(dtype, lines, held, device, header):
    flops = fastest(dtype, lines + held)
    kept, spare = parts_of(dtype, lines), parts_of(dtype, held)
    texts, errors = [], {True: [], False: []}
    for name, (part, fitted) in kept.items():
        out = spare.get(name, (part, []))[1]
        text, off = fit_part(dtype, name, part, fitted, out, flops, device["multiprocessors"], header)
        texts.append(".%s = %s" % (name, text))
        errors[part is Products].append(off)
    first = [".flops = " + number(flops), ".product_error = " + number(nine_tenths(errors[True])),
             ".group_error = " + number(nine_tenths(errors[False]))]
    return "[MMC_%s] = {%s}" % (dtype.upper(), ",\n".join(first + texts))


def header_text(name, kind, library, count, dtypes):
    upper = name.upper()
    return f"""/* {name}.h: constants of model.h for the {upper}, in microseconds, fitted by bench/fit_facts.py to
 * {count} chains on one machine ({library}). */
#ifndef MMCI_CUDA_KIND_{upper}_H
#define MMCI_CUDA_KIND_{upper}_H

#include "device/cuda/model.h"

static const mmci_cuda_model KIND_{upper} = {{.kind = "{kind}",
.source = "shipped: {kind}, {library}",
.dtypes = {{{", ".join(dtypes)}}}}};

#endif
"""


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lines")
    parser.add_argument("--out", type=pathlib.Path, default=here / "src/device/cuda/kinds")
    parser.add_argument("--held-out", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    device, chains = read_lines(options.lines)
    kind = " ".join(device["kind"].split()[:2])
    name = kind.split()[-1].lower()
    path = options.out / (name + ".h")
    header = path.read_text() if path.exists() else ""
    draw = random.Random(options.seed)
    print(f"{device['kind']}, {device['blas']}: {sum(map(len, chains.values()))} chains, "
          f"seed {options.seed}; errors: half and nine tenths are within")
    dtypes = []
    for dtype in [d for d in BYTES if d in chains]:
        held = [draw.random() < options.held_out for _ in chains[dtype]]
        split = [[line for line, out in zip(chains[dtype], held) if out == which]
                 for which in (False, True)]
        dtypes.append(fit_dtype(dtype, *split, device, header))
    library = re.sub(r"(\d+\.\d+)\.\d+", r"\1", device["blas"])
    count = sum(map(len, chains.values()))
    path.write_text(header_text(name, kind, library, count, dtypes))
    print(f"{path} is written; scripts/check-format --fix lays it out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
