#!/usr/bin/env python3
"""check_report.py MMCHAIN: the pages that `mmchain report` writes, of several chains.

A page is well-formed, asks for nothing from elsewhere, holds no text that became markup, is at most 300 kB without the plan as data,
and says what the plan says.
"""
import html.parser
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

mmchain = sys.argv[1]
VOID = {"meta"}


class Page(html.parser.HTMLParser):
    """Collects the elements of a page, and finds those that are not closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.tables, self.words, self.data = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open
        for picture in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
            ElementTree.fromstring(picture)
        without_data = len(text.encode()) - len(self.data.encode())
        assert without_data <= 300_000, without_data

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        for name, value in attributes.items():
            assert name not in ("src", "href", "srcset", "action") and not name.startswith("on"), (tag, name)
            assert "url(" not in (value or ""), (tag, name)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (tag, self.open)
        self.open.pop()

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "plan"):
            self.data += data
            return
        inside = [tag for tag, _ in self.open]
        if "td" in inside or "th" in inside:
            self.tables[-1][-1][-1] += data
        elif "script" not in inside and "style" not in inside:
            self.words.append(data)


def run(chain, *options, environment=None):
    return subprocess.run(
        [mmchain, "report", "-", "-o", "-", *options],
        input=chain,
        capture_output=True,
        text=True,
        env={**os.environ, "MMCHAIN_WISDOM": "", **(environment or {})},
        check=False,
    )


def page(chain, *options, environment=None):
    done = run(chain, *options, environment=environment)
    assert done.returncode == 0, (chain[:100], options, done.stderr)
    assert done.stdout.startswith("<!DOCTYPE html>\n") and done.stdout.endswith("</html>\n")
    found = Page(done.stdout)
    assert found.tags.count("script") in (1, 2) and found.tags.count("table") == 2
    return found


def check_steps(found, n, rows=300):
    steps, considered = found.tables
    assert len(steps) == 1 + min(n - 1, rows) and all(len(row) == len(steps[0]) for row in steps)
    shares = sum(float(row[steps[0].index("share")].split()[0]) for row in steps[1:])
    assert n > rows or abs(shares - 100) <= 0.06 * n, shares
    assert [row[0] for row in considered[1:4]] == ["left to right", "fewest multiplications", "least time"]
    assert all(row[-1] for row in considered[1:]), considered
    return steps, considered


def check_textbook():
    found = page("30x35x15x5x10x20x25", "--on", "ref")
    steps, considered = check_steps(found, 6)
    assert [row[1] for row in steps[1:]] == ["T1 = A2 A3", "T2 = A1 T1", "T3 = A4 A5", "T4 = T3 A6", "R = T2 T4"]
    assert considered[1][1] == "(((((A1 A2) A3) A4) A5) A6)" and considered[1][2] == "40500"
    assert re.search("predicted [\\d.]+ times as long", considered[1][-1]) and "same steps" in considered[2][-1]
    words = " ".join(found.words)
    for said in ("2.68 \u00d7", "f64:30x35x15x5x10x20x25", "seconds, predicted", "Roofline", "What was considered", "15125"):
        assert said in words, said
    assert json.loads(found.data)["multiplications"] == 15125


def check_measured():
    found = page("f32:60x5x60x5x60", "--on", "ref", "--measure", "--seconds", "0.02")
    steps, _ = check_steps(found, 4)
    measured = steps[0].index("measured")
    assert all(re.fullmatch("[\\d.]+ (ns|\u00b5s|ms)", row[measured]) for row in steps[1:]), steps
    assert "seconds, measured" in " ".join(found.words) and "of the measured peak" in " ".join(found.words)


def check_special():
    """Kernels of factors with structure, factors that are stored in one matrix, and powers."""
    found = page("f64:200x200x200x200:lower,T,N=1,1,1", "--measure", "--seconds", "0.02")
    steps, considered = check_steps(found, 3)
    kernel, measured = steps[0].index("kernel"), steps[0].index("measured")
    for row in steps[1:]:  # what is not a plain product is not timed as one
        assert row[kernel] in ("gemm", "libxsmm", "loops") or row[measured] == "-", row
    loops = all(row[kernel] == "loops" for row in steps[1:])  # those of ref, without blas, use no structure
    others = min(int(considered[1][2]), int(considered[3][2]))
    assert int(considered[2][2]) <= others and (loops or others < 2 * 200**3), considered
    power = page("f64:8x8^1000", "--on", "ref")
    assert power.tables[0][1][1] == "T1 = A1 A1" and len(power.tables[0]) == 15
    assert power.tables[1][2][2] == str(14 * 8**3), power.tables[1]


def check_others():
    check_steps(page("f32:1000x20x1000@7", "--on", "ref", "--for", "energy"), 2)
    check_steps(page("c64:10x30x5x60:NTH", "--on", "ref"), 3)
    zero = page("0x30x5x60", "--on", "ref")
    assert "nan" not in " ".join(zero.words).lower() and len(zero.tables[0]) == 3
    for n in (64, 1000, 20_000):
        generator = random.Random(n)
        check_steps(page("x".join(str(generator.randint(2, 300)) for _ in range(n + 1)), "--on", "ref"), n)


def boxes_of(picture):
    """The boxes of small texts within the frame of a roofline, by the widths of an ordinary font."""
    for text in picture.findall(".//{*}text"):
        if text.get("class") == "small" and text.text[:1].isalnum():
            x, y = float(text.get("x")), float(text.get("y"))
            yield text.text, x, y - 8, x + 5.5 * len(text.text), y + 2


def meets(a, b, box):
    """Whether the line from a to b goes through the box."""
    _, left, top, right, bottom = box
    points = [(a[0] + (b[0] - a[0]) * i / 2000, a[1] + (b[1] - a[1]) * i / 2000) for i in range(2001)]
    return any(left < x < right and top < y < bottom for x, y in points)


def check_roofline():
    """Names stand off the roof, off each other and within the frame, and the roof is seen whole."""
    generator = random.Random(18)
    chains = ["3x3022x78x1598x3", "f32:64x64^30", "30x35x15x5x10x20x25", "f32:9x9x9@100000"]
    for _ in range(40):
        top = generator.choice((10, 100, 1000, 10000))
        dims = "x".join(str(generator.randint(1, top)) for _ in range(generator.randint(3, 12)))
        chains.append(generator.choice(("", "f32:", "c128:")) + dims)
    for chain in chains:
        pictures = re.findall(r"<svg .*?</svg>", run(chain).stdout, re.DOTALL)
        picture = next(ElementTree.fromstring(p) for p in pictures if "under the roofline" in p)
        roofs = [p.get("d") for p in picture.findall(".//{*}path") if p.get("class") == "roof"]
        assert len(roofs) == 1, (chain, roofs)
        x0, y0, x1, y1, right = map(float, re.fullmatch(r"M(\S+) (\S+)L(\S+) (\S+)H(\S+)", roofs[0]).groups())
        assert 76 <= x0 < x1 < right and 48 <= y1 < y0 <= int(picture.get("height")) - 48, (chain, roofs)
        boxes = [box for box in boxes_of(picture) if box[2] < int(picture.get("height")) - 48]
        assert any("FLOP/s" in box[0] for box in boxes) and any(" B/s" in box[0] or "B/s " in box[0] for box in boxes), chain
        for i, box in enumerate(boxes):
            assert 76 <= box[1] and box[3] <= right and 48 <= box[2], (chain, box)
            assert not meets((x0, y0), (x1, y1), box) and not meets((x1, y1), (right, y1), box), (chain, box, roofs)
            for other in boxes[:i]:
                apart = box[3] <= other[1] or other[3] <= box[1] or box[4] <= other[2] or other[4] <= box[2]
                assert apart, (chain, box, other)


def check_escapes():
    """A path is text wherever it is told: that of a wisdom store which is none stands among the words of the plan."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "<b onclick='x'>&\"")
        os.mkdir(path)
        found = page("10x30x5x60", "--on", "ref", environment={"MMCHAIN_WISDOM": path})
        assert "b" in found.tags and found.tags.count("b") == page("10x30x5x60", "--on", "ref").tags.count("b")
        notice = json.loads(found.data)["wisdom_notice"]
        if "built without SQLite" not in notice:
            assert path in notice and path in "".join(found.words)


def main():
    check_textbook()
    check_measured()
    check_special()
    check_others()
    check_roofline()
    check_escapes()


if __name__ == "__main__":
    main()
