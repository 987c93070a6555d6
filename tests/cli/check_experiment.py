#!/usr/bin/env python3
"""check_experiment.py DIR SUITE WATTS: whether DIR/results.jsonl is what a quick experiment on ref has
to say, with chains as in SUITE, at WATTS or, where that is "none", without joules.
check_experiment.py --figures DIR NUMBER...: whether DIR has these figures and no others."""
import glob
import json
import re
import sys
from xml.etree import ElementTree

SHRINK = 400
FAMILIES = ["plain", "tee", "faithful"]
ORDERS = ["in-order", "OP_Count", "OP_DM_Fuse"]


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


def dims_of(line):
    return [int(dim) for dim in line["chain"].removeprefix("f32:").split("x")]


def check_line(line, watts):
    assert line["experiment"] == "tee-acm2" and line["device"] == "ref" and line["machine"], line
    assert line["global_load_bytes"] is None and "not readable here" in line["global_load_reason"]
    assert line["registers_per_thread"] is None, line
    if not line["measured"]:
        assert line["family"] != "plain" and "has none called" in line["reason"], line
        assert line["seconds"] is None and line["joules"] is None, line
        return
    assert line["family"] in ("plain", "loops") and line["kernel"] == "loops", line
    assert line["reason"] is None, line
    assert line["seconds"] > 0 and line["plan_s"] > 0 and line["create_s"] > 0, line
    product = fewest if line["order"] != "in-order" else in_order
    assert line["multiplications"] == product(dims_of(line)), line
    gflops = 2e-9 * line["multiplications"] / line["seconds"]
    assert abs(line["gflops"] - gflops) <= 1e-4 * gflops, line
    if watts is None:
        assert line["joules"] is None and line["joules_reason"], line
    else:
        joules = watts * line["seconds"]
        assert abs(line["joules"] - joules) <= (0.01 + 2 * line["energy"]["tick_error"]) * joules, line
        assert line["joules_reason"] is None, line


def check_chains(lines, suite):
    named = {}
    with open(suite, encoding="utf-8") as file:
        for text in file:
            if not text.startswith("#"):
                name, dims = text.split(":")
                named[name] = [int(dim) // SHRINK for dim in dims.split()]
    found = [(line["name"], line["family"], line["order"]) for line in lines]
    assert found == [(name, family, order) for name in named for family in FAMILIES for order in ORDERS]
    measured = {}
    for line in lines:
        assert dims_of(line) == named[line["name"]], line
        assert (line["fused_pairs"] is None) == (line["order"] != "OP_DM_Fuse"), line
        if line["measured_as"] is not None:
            same = measured[line["name"], line["measured_as"]]
            assert line["seconds"] == same["seconds"] and line["multiplications"] == same["multiplications"], line
        elif line["measured"]:
            measured[line["name"], line["order"]] = line
    # Rising sizes: in order is the best order; falling: it is not.
    assert ("best-6", "OP_Count") not in measured and ("best-12", "OP_Count") not in measured
    assert ("worst-6", "OP_Count") in measured and ("random-12", "OP_Count") in measured


def check_results(directory, suite, watts):
    with open(f"{directory}/results.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        check_line(line, None if watts == "none" else float(watts))
    parts = {}
    for line in lines:
        parts.setdefault(line["part"], []).append(line)
    check_chains(parts["chains"], suite)
    if watts == "none":
        assert {part: len(found) for part, found in parts.items()} == {
            "single": 6, "tiles": 2, "fused": 8, "chains": 54}
        assert [line["name"] for line in parts["single"]] == 3 * ["n=64"] + 3 * ["n=128"]


def check_figures(directory, numbers):
    found = sorted(glob.glob(f"{directory}/*.svg"))
    assert found == [f"{directory}/figure-{number}.svg" for number in numbers], found
    for number in numbers:
        with open(f"{directory}/figure-{number}.svg", encoding="utf-8") as file:
            picture = ElementTree.fromstring(file.read())
        texts = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert any(text.startswith(f"Figure {number}: ") for text in texts), texts
        assert any(text.startswith("best-") for text in texts), texts
        bars = [rect for rect in picture.iter("{http://www.w3.org/2000/svg}rect") if (rect.get("class") or "").startswith("bar")]
        values = [text for text in texts if re.fullmatch(r"[\d.]+ (n|\u00b5|m|k)?[sJ] ?", text)]
        assert len(bars) == len(values) > 0, (bars, values)


if sys.argv[1] == "--figures":
    check_figures(sys.argv[2], sys.argv[3:])
else:
    check_results(*sys.argv[1:4])
