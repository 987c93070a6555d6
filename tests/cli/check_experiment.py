#!/usr/bin/env python3
"""check_experiment.py DIR SUITE WATTS: whether DIR/results.jsonl is what a quick tee-acm2 on ref has to say, with chains as in
SUITE, at WATTS or, where that is "none", without joules.
check_experiment.py --pictures DIR NAME...: whether DIR has these pictures and no others, each well-formed and with text.
check_experiment.py --page DIR EXHIBIT...: whether DIR/index.html is well-formed, needs nothing from elsewhere, and has a section
and a row of its first table for each of these exhibits.
check_experiment.py --copies DIR: whether trials that were not measured themselves have the plan of one that was.
check_experiment.py --verdict DIR EXHIBIT VERDICT: whether the page says this of the exhibit.
check_experiment.py --lines EXPERIMENT DIR: whether DIR/results.jsonl of another experiment is right: counts, orders, samples."""
import glob
import html.parser
import json
import re
import sys
from xml.etree import ElementTree

SHRINK = 400
FAMILIES = ["plain", "tee", "faithful"]
ORDERS = ["in-order", "OP_Count", "OP_DM_Fuse"]
BOTH = [("plain", "in-order"), *[(family, "OP_Count") for family in FAMILIES], ("plain", "OP_DM_Fuse")]
TRIALS = ["single", "tiles", "fused", "chains"]
REPEATS = 2


def fewest(dims):
    """Multiplications of the best order, by the table."""
    n = len(dims) - 1
    best = {(i, i + 1): 0 for i in range(n)}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            best[i, j] = min(
                best[i, k] + best[k, j] + dims[i] * dims[k] * dims[j] for k in range(i + 1, j)
            )
    return best[0, n]


def in_order(dims):
    return sum(dims[0] * dims[k] * dims[k + 1] for k in range(1, len(dims) - 1))


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def near(a, b, tolerance=1e-4):
    return abs(a - b) <= tolerance * abs(b)


def dims_of(line):
    return [int(dim) for dim in line["chain"].removeprefix("f32:").split("x")]


def read_lines(directory):
    with open(f"{directory}/results.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check_about(line, experiment):
    assert line["part"] == "about" and line["experiment"] == experiment, line
    assert line["commit"] and line["version"] and line["processor"] and line["machine"], line
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", line["when"]), line
    assert line["quick"] is True and line["repeats"] == REPEATS, line
    assert line["command"].startswith(f"mmchain bench --experiment {experiment} "), line


def check_trial(line, watts):
    assert line["experiment"] == "tee-acm2" and line["device"] == "ref" and line["machine"], line
    assert line["global_load_bytes"] is None and "--on cuda" in line["global_load_reason"], line
    assert line["registers_per_thread"] is None, line
    if not line["measured"]:
        assert line["family"] != "plain" and "has none called" in line["reason"], line
        assert line["seconds"] is None and line["joules"] is None, line
        assert line["seconds_samples"] == line["create_samples"] == [], line
        return
    table = line["name"].startswith("table ")
    assert line["family"] in ("plain", "loops", *["fused"] * table) and line["kernel"] == "loops", line
    assert line["reason"] is None, line
    assert len(line["seconds_samples"]) == len(line["create_samples"]) == len(line["until_s"]) == REPEATS, line
    assert min(line["seconds_samples"] + line["create_samples"]) > 0 and line["plan_s"] > 0, line
    assert near(line["seconds"], median(line["seconds_samples"])), line
    assert near(line["create_s"], median(line["create_samples"])), line
    product = fewest if line["order"] != "in-order" else in_order
    assert line["multiplications"] == product(dims_of(line)), line
    assert near(line["gflops"], 2e-9 * line["multiplications"] / line["seconds"]), line
    assert (line["executions"] is None) == (watts is not None), line
    if watts is None:
        assert line["executions"] >= 2 * REPEATS + 1, line
        assert line["joules"] is None and line["joules_reason"] and line["joules_samples"] == [], line
    else:
        samples = (line["seconds_samples"], line["joules_samples"], line["tick_error_samples"])
        for seconds, joules, tick_error in zip(*samples, strict=True):
            assert near(joules, watts * seconds, 0.01 + 2 * tick_error), line
        assert line["joules_reason"] is None and near(line["joules"], median(line["joules_samples"])), line


def check_chains(lines, suite):
    named = {}
    with open(suite, encoding="utf-8") as file:
        for text in file:
            if not text.startswith("#"):
                name, dims = text.split(":")
                named[name] = [int(dim) // SHRINK for dim in dims.split()]
    found = [(line["name"], line["family"], line["order"]) for line in lines]
    assert found == [(name, *both) for name in named for both in BOTH]
    measured = {}
    for line in lines:
        assert dims_of(line) == named[line["name"]], line
        assert (line["fused_pairs"] is None) == (line["order"] != "OP_DM_Fuse"), line
        if line["measured_as"] is not None:
            assert line["order"] == "OP_DM_Fuse", line
            same = measured[line["name"], line["measured_as"]]
            assert line["seconds"] == same["seconds"] and line["multiplications"] == same["multiplications"], line
        elif line["measured"]:
            measured[line["name"], line["order"]] = line
    # What the tree costs where it changes nothing is measured, not copied.
    assert all((name, order) in measured for name in named for order in ORDERS[:2])


def check_copies(directory):
    chains = [line for line in read_lines(directory) if line["part"] == "chains"]
    plans = {(line["name"], line["family"], line["order"]): line for line in chains}
    for line in chains:
        if line["measured_as"] is not None:
            same = plans[line["name"], line["family"], line["measured_as"]]
            for member in ("kernel", "multiplications", "workspace_bytes", "seconds_samples"):
                assert line[member] == same[member], (line, same)


def check_model(parts):
    assert {line["order"]: line["multiplications"] for line in parts["example"]} == {
        "((A1 A2) A3)": 4500, "(A1 (A2 A3))": 27000}
    tiling, = parts["tiling"]
    assert [words for rows, words in zip(tiling["rows"], tiling["words"], strict=True) if rows in (16, 256, 4096)] == [
        4096**3 // 16 + 4096**3 // 4096 + 4096**2, 4096**3 // 128 + 4096**2, 4096**3 // 16 + 4096**3 // 4096 + 4096**2]
    choices = {(line["fuse"], line["node"]): line for line in parts["decision"]}
    assert len(choices) == 10
    t2, t5 = choices["poster", "T2"], choices["exact", "T5"]
    assert (t2["no_fuse"], t2["left_fuse"], t2["right_fuse"], t2["chosen"]) == (4683168, None, 3072693, "right_fuse")
    assert (t5["no_fuse"], t5["left_fuse"], t5["right_fuse"], t5["chosen"]) == (9854273, 9136171, 9382910, "left_fuse")
    words = {line["name"]: line for line in parts["words"]}
    assert words["random-12"]["none"] == words["random-12"]["exact"] == 163785000000
    assert words["random-12"]["poster"] == 160943930179


def check_results(directory, suite, watts):
    lines = read_lines(directory)
    check_about(lines[0], "tee-acm2")
    parts = {}
    for line in lines:
        parts.setdefault(line["part"], []).append(line)
        if line["part"] in TRIALS:
            check_trial(line, None if watts == "none" else float(watts))
    check_chains(parts["chains"], suite)
    if watts == "none":
        assert {part: len(parts[part]) for part in TRIALS} == {
            "single": 6, "tiles": 2, "fused": 12, "chains": 30}
        assert [line["name"] for line in parts["single"]] == 3 * ["n=64"] + 3 * ["n=128"]
        check_model(parts)
        # The chain of the table, as its fusions say: on ref in calls of several steps.
        table = [line for line in parts["fused"] if line["name"].startswith("table ") and line["family"] == "fused"]
        assert [dims_of(line) for line in table] == 2 * [[dim // 16 for dim in (936, 1008, 552, 368, 1016, 616, 616)]]
        assert all(line["measured"] and line["fused_pairs"] > 0 for line in table), table


def check_nishida(lines):
    tables = next(line for line in lines if line["part"] == "tables")
    assert [line["multiplications"] for line in lines if line["part"] == "example"] == [50, 10]
    assert tables["order"] == "((A1 (A2 A3)) ((A4 A5) A6))"
    assert tables["m"][:6] == [0, 54, 45, 53, 111, 154] and tables["s"][:6] == [0, 2, 2, 4, 4, 4]
    counts = [line for line in lines if line["part"] == "counts"]
    assert [line["n"] for line in counts] == [256, 512]
    for line in counts:
        n = line["n"]
        assert line["sum"] == (n**3 - n) // 6, line
        for at, entries, candidates, products in zip(
                line["l"], line["entries"], line["candidates"], line["products"], strict=True):
            assert (entries, candidates, products) == (n - at + 1, at - 1, (n - at + 1) * (at - 1)), line
    solved = [line for line in lines if line["part"] == "solved"]
    ways = {(line["way"], line["on"], line["n"]) for line in solved if line["measured"]}
    for n in (256, 512):
        assert {("textbook", "cpu", n), ("table", "cpu", n), ("hu-shing", "cpu", n)} <= ways, ways
    for line in solved:
        assert line["measured"] == (len(line["seconds_samples"]) > 0) == (line.get("reason") is None), line
        assert all(seconds > 0 for seconds in line["seconds_samples"]), line


def check_patent(lines):
    parts = {}
    for line in lines:
        parts.setdefault(line["part"], []).append(line)
    assert [len(parts[part]) for part in ("example", "ladder", "set", "axis", "array", "choice")] == [1, 8, 2, 3, 1, 6]
    for line in parts["example"] + parts["ladder"] + parts["set"]:
        assert len(line["plain_samples"]) == REPEATS and min(line["plain_samples"]) > 0, line
        for way, samples in (("cut", "patent_samples"), ("recipe", "tuned_samples")):
            assert len(line[samples]) == (0 if line[way] == "whole" else REPEATS), line
        if line["cut"] != "whole":
            areas = [int(a) * int(b) for a, b in re.findall(r"(\d+)x(\d+)", line["cut"])]
            assert sum(areas) == line["m"] * line["n"] and len(areas) <= 16, line
    example, = parts["example"]
    assert len(example["given_samples"]) == REPEATS
    assert (example["m"], example["k"], example["n"]) == (256 // 8, 3072 // 8, 2048 // 8)
    for line in parts["axis"]:
        assert len(line["seconds"]) == len(line["sizes"]) == 24 and min(line["seconds"]) > 0, line
    for line in parts["choice"]:
        assert line["predicted"] >= 1 and 0 < line["choice_s"] < 1, line


def check_lines(experiment, directory):
    lines = read_lines(directory)
    check_about(lines[0], experiment)
    assert all(line["experiment"] == experiment for line in lines)
    {"nishida-2011": check_nishida, "us9836434": check_patent}[experiment](lines)


def check_pictures(directory, names):
    found = sorted(glob.glob(f"{directory}/*.svg"))
    assert found == sorted(f"{directory}/{name}.svg" for name in names), found
    for name in found:
        with open(name, encoding="utf-8") as file:
            text = file.read()
        assert "nan" not in text and "inf" not in text.replace("information", ""), name
        picture = ElementTree.fromstring(text)
        texts = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        shapes = [shape.get("class") or "" for shape in picture.iter() if shape.tag.endswith(("rect", "path", "circle"))]
        # Ticks of time are round.
        ticks = [re.fullmatch(r"([\d.]+) [mµn]?s", text) for text in texts] if "/table-iii" in name else []
        assert all(tick.group(1).rstrip("0") in ("1", "2", "5") for tick in ticks if tick), texts
        assert len(texts) > 3 and any("hue" in shape for shape in shapes), (name, texts)


class Page(html.parser.HTMLParser):
    """Collects sections and the names in the first table, and finds elements that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sections, self.links, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open
        for picture in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
            picture = ElementTree.fromstring(picture)
            for value in picture.iter("{http://www.w3.org/2000/svg}text"):
                # Values and what stands behind them end within the picture; a character has 6 pixels at least.
                if value.get("class") == "value":
                    assert float(value.get("x")) + 6 * len(value.text or "") <= float(picture.get("width")), value.text

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "action") and not name.startswith("on"), (tag, name)
            assert name != "href" or value.startswith("#"), (tag, value)
            assert "url(" not in (value or ""), (tag, name)
        if tag == "section":
            self.sections.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes["href"][1:])
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag != "meta":
            self.open.pop()

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)


def check_page(directory, exhibits):
    with open(f"{directory}/index.html", encoding="utf-8") as file:
        page = Page(file.read())
    assert page.sections == page.links, (page.sections, page.links)
    assert set(exhibits) <= set(page.sections), page.sections
    words = " ".join(page.words)
    assert not re.search(r"\bnan\b|\binf\b|\(null\)", words), words
    assert sum(words.count(verdict) for verdict in ("holds", "beaten", "fails", "not measured")) >= 2 * len(page.sections)


def check_verdict(directory, exhibit, verdict):
    with open(f"{directory}/index.html", encoding="utf-8") as file:
        text = file.read()
    Page(text)
    found = re.search(rf'<section id="{exhibit}">.*?<b class="verdict \w+">(.*?)</b>', text, re.DOTALL)
    assert found.group(1) == verdict, found.group(0)


if sys.argv[1] == "--pictures":
    check_pictures(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "--page":
    check_page(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "--copies":
    check_copies(sys.argv[2])
elif sys.argv[1] == "--verdict":
    check_verdict(*sys.argv[2:5])
elif sys.argv[1] == "--lines":
    check_lines(*sys.argv[2:4])
else:
    check_results(*sys.argv[1:4])
