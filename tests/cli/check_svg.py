#!/usr/bin/env python3
"""check_svg.py MMCHAIN [CHAINS]: what `mmchain plan --svg` draws, of known chains and of so many random ones.

Every picture is well-formed XML, at most 2000 pixels wide and 200 kB long; its boxes do not overlap and lie within it; factors stand
in a row in their order; what is folded and what is shown add up to all steps, and the shares to all of the cost.
"""
import json
import os
import random
import re
import subprocess
import sys
from xml.etree import ElementTree

SPACE = "{http://www.w3.org/2000/svg}"
SEED = 18
mmchain = sys.argv[1]


def run(chain, *options):
    command = [mmchain, "plan", "-", "--on", "ref", *options]
    done = subprocess.run(command, input=chain, capture_output=True, text=True, env={**os.environ, "MMCHAIN_WISDOM": ""}, check=False)
    assert done.returncode == 0, (chain[:200], options, done.stderr)
    return done.stdout


def has_blas():
    told = subprocess.run([mmchain, "info", "--json"], capture_output=True, text=True, check=True).stdout
    return any(device["name"] == "blas" and device["available"] for device in json.loads(told)["devices"])


class Box:
    def __init__(self, group):
        rects = [r for r in group.iter(SPACE + "rect") if r.get("class") != "share"]
        place = rects[-1]
        self.kind = group.get("class")
        self.x, self.y, self.width, self.height = (int(place.get(name)) for name in ("x", "y", "width", "height"))
        self.lines = ["".join(t.itertext()) for t in group.findall(SPACE + "text")]
        self.title = group.findtext(SPACE + "title")
        self.shadow = len(rects) > 1
        share = group.find(f"{SPACE}rect[@class='share']")
        self.shade = None if share is None else int(re.search(r"(\d+)%", share.get("style")).group(1))

    def percent(self):
        return float(re.search(r"([\d.]+) %", " ".join(self.lines)).group(1))

    def overlaps(self, other):
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


class Picture:
    def __init__(self, chain, *options):
        text = run(chain, "--svg", "-", *options)
        assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<svg ') and text.endswith("</svg>\n")
        assert len(text.encode()) <= 200_000, len(text)
        self.root = ElementTree.fromstring(text)
        self.width, self.height = int(self.root.get("width")), int(self.root.get("height"))
        assert self.root.get("viewBox") == f"0 0 {self.width} {self.height}"
        assert 0 < self.width <= 2000 and 0 < self.height <= 4000
        drawn = [g for g in self.root.findall(SPACE + "g") if g.find(SPACE + "title") is not None]
        self.boxes = [Box(g) for g in drawn]
        self.texts = ["".join(t.itertext()) for t in self.root.iter(SPACE + "text")]
        self.check_places()

    def check_places(self):
        for i, box in enumerate(self.boxes):
            assert box.x >= 0 and box.y >= 0, box.title
            assert box.x + box.width <= self.width and box.y + box.height <= self.height, box.title
            for other in self.boxes[:i]:
                assert not box.overlaps(other), (box.title, other.title)

    def of(self, *kinds):
        return [box for box in self.boxes if box.kind in kinds]

    def row(self):
        """The boxes below all others, from left to right."""
        lowest = max(box.y for box in self.boxes)
        return sorted((box for box in self.boxes if box.y == lowest), key=lambda box: box.x)

    def outlines(self):
        return [g.get("class") for g in self.root.findall(SPACE + "g") if (g.get("class") or "").startswith("rim")]


def numbers(text):
    return [int(digits) for digits in re.findall(r"A(\d+)", text)]


def hidden_steps(box):
    return int(re.search(r": (\d+) step", box.title).group(1))


def check_tree(chain, n, *options):
    """Checks a picture of a chain in which nothing repeats."""
    picture = Picture(chain, *options)
    plan = json.loads(run(chain, "--json", *options))
    covered = []
    for box in picture.row():
        assert box.kind in ("factor", "operands", "tree"), box.kind
        first, last = (numbers(box.title) * 2)[:2]
        covered += range(first, last + 1)
    assert covered == list(range(1, n + 1)), covered
    steps = picture.of("step")
    names = [step["product"].partition(" ")[0] for step in plan["steps"]]
    for box in steps:
        step = plan["steps"][names.index(box.lines[0])]
        assert box.title.startswith(step["product"] + ": "), (box.title, step)
        assert f", {step['cost']} " in box.title
    hidden = sum(hidden_steps(box) for box in picture.of("run", "tree"))
    assert len(steps) + hidden == n - 1, (len(steps), hidden, n)
    shaded = picture.of("step", "run", "tree")
    total = sum(box.percent() for box in shaded)
    assert abs(total - 100) <= 0.06 * len(shaded) or not any(int(step["cost"]) for step in plan["steps"]), total
    assert not shaded or steps[-1].lines[0] == "R" and steps[-1].y == min(box.y for box in picture.boxes)
    return picture


def check_known():
    picture = check_tree("30x35x15x5x10x20x25", 6)
    assert [box.lines[0] for box in picture.row()] == ["A1", "A2", "A3", "A4", "A5", "A6"]
    assert [box.lines[1] for box in picture.row()][2:4] == ["15 × 5", "5 × 10"]
    assert [box.lines[0] for box in picture.of("step")] == ["T2", "T4", "R"] or len(picture.of("step")) == 5
    at = {box.lines[0]: box for box in picture.boxes}
    # T4 = T3 A6: its left operand is on its left.
    assert at["T3"].x < at["T4"].x < at["A6"].x and at["A1"].x < at["T2"].x < at["T1"].x
    assert at["T2"].lines[2] == "34.7 %" and at["T2"].shade > at["T1"].shade > at["T3"].shade
    assert "15125 multiplications (left to right: 40500, 2.68 times)" in picture.texts
    one = check_tree("f32:7x9", 1)
    assert len(one.boxes) == 1 and one.boxes[0].lines == ["A1", "7 × 9"]
    assert check_tree("c64:10x30x5:NH", 2).boxes[1].lines[0] == "A2ᴴ"
    assert check_tree("10x30x5:TN", 2).boxes[0].lines[0] == "A1ᵀ"
    assert check_tree("0x3x0x4", 3).of("step")[-1].percent() == 0
    huge = check_tree("4611686018427387904x2x3", 2)
    assert huge.boxes[0].lines[1] == "4.6e+18 × 2"


def check_folds():
    spine = check_tree("x".join(["50"] * 41), 40, "--solver", "left-to-right")
    runs = spine.of("run")
    assert len(runs) == 1 and runs[0].shadow and runs[0].lines[1] == "like this"
    assert runs[0].lines[0] == f"… {hidden_steps(runs[0])} steps"
    assert any(re.fullmatch(r"\d+ of 39 steps are shown, [\d.]+ % of the cost; .*", text) for text in spine.texts)
    for n in (20, 21, 64, 1000, 100_000):
        generator = random.Random(n)
        picture = check_tree("x".join(str(generator.randint(2, 3000)) for _ in range(n + 1)), n)
        assert bool(picture.of("run", "tree")) == (n > 20)
        assert len(picture.row()) <= 20


def check_powers():
    power = Picture("f64:64x64^1000")
    names = [box.lines[0] for box in power.of("step")]
    assert names[:3] == ["T1 = A²", "T2 = A⁴", "T3 = A⁸"] and names[-1] == "R = A¹⁰⁰⁰" and len(names) == 14
    assert [box.lines[0] for box in power.row()][0] == "A"
    again = {box.lines[0] for box in power.of("again")}
    assert again <= set(names) and len(again) == 5 and all(box.lines[2] == "again" for box in power.of("again"))
    assert [box.lines[0] for box in Picture("f64:8x8^2").boxes] == ["A", "R = A²"]
    pair = Picture("f64:8x9x8x9x8=1,2,1,2")
    assert [box.lines[0] for box in pair.boxes] == ["A1", "A2", "T1", "R = T1²"]


def check_structure():
    """A factor says what is known of it, and that it is an inverse."""
    chain = "f64:8x8x8x8x3:lower.unit.T.inv,spd.inv,symmetric,N"
    if has_blas():  # nothing else on the CPU inverts
        factors = [box.lines for box in Picture(chain, "--on", "blas").boxes if box.kind == "factor"]
        names = [["A1\u1d40\u207b\u00b9", "lower.unit"], ["A2\u207b\u00b9", "spd"], ["A3", "symmetric"], ["A4"]]
        assert [[line for line in lines if "\u00d7" not in line] for lines in factors] == names, factors
    title = Picture("f64:5x" + "x".join(str(1000 - i) for i in range(60))).root.find(f"{SPACE}text").text
    assert title.startswith("f64:5x1000x999") and title.endswith("..."), title


def check_outlines():
    traffic = Picture("f32:1000x20x1000x20x1000x20x800", "--for", "traffic")
    assert len(traffic.outlines()) >= 2, traffic.outlines()
    assert sum("one by one" in text for text in traffic.texts) >= 1
    poster = Picture("c64:100x200x300x50x400x20", "--for", "traffic", "--fuse", "poster", "--precision", "native")
    assert any("fused" in name or "hue" in name for name in poster.outlines())
    colours = set(re.findall(r"#[0-9a-f]{3,6}", poster.root.findtext(SPACE + "style")))
    assert {"#0072b2", "#e69f00", "#009e73"} <= colours
    assert "prefers-color-scheme:dark" in poster.root.findtext(SPACE + "style")


def check_random(count):
    generator = random.Random(SEED)
    for _ in range(count):
        n = generator.choice((1, 2, 3, 5, 9, 17, 30, 80, 300))
        most = generator.choice((3, 100, 10**6))
        dims = [generator.randint(0 if generator.random() < 0.05 else 1, most) for _ in range(n + 1)]
        dtype = generator.choice(("f32", "f64", "c64", "c128"))
        solver = generator.choice(("auto", "left-to-right"))
        batch = generator.choice(("", "", "@7"))
        options = generator.choice(((), ("--for", "time"), ("--for", "traffic"))) if solver == "auto" else ()
        check_tree(f"{dtype}:{'x'.join(map(str, dims))}{batch}", n, "--solver", solver, *options)
    for _ in range(count // 4):
        n = generator.randint(2, 200)
        labels = [generator.randint(1, 3) for _ in range(n)]
        first = {label: labels.index(label) + 1 for label in labels}
        picture = Picture(f"{'x'.join(['4'] * (n + 1))}={','.join(str(first[label]) for label in labels)}")
        assert len(picture.row()) <= 20 and picture.boxes[-1].lines[0].startswith("R")


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    print(f"seed {SEED}, {count} random chains")
    check_known()
    check_folds()
    check_powers()
    check_structure()
    check_outlines()
    check_random(count)


if __name__ == "__main__":
    main()
