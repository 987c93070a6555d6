#!/usr/bin/env python3
"""check_bench.py PATH: whether the lines of `mmchain bench --json` are what run.sh asked for."""
import json
import sys

with open(sys.argv[1]) as file:
    lines = [json.loads(line) for line in file]
chains = [("clrs", "f64:30x35x15x5x10x20x25"), (None, "f32:4x5x6x7"), (None, "f64:2x3x4")]
methods = ["left-to-right", "flop-optimal", "ours"]
expected = [(name, chain, method) for name, chain in chains for method in methods]
found = [(line["name"], line["chain"], line["method"]) for line in lines]
assert found == expected, found
assert [line["multiplications"] for line in lines[:3]] == [40500, 15125, 15125]
for line in lines:
    assert line["device"] == "ref", line
    assert 0 < line["min_s"] <= line["median_s"] <= line["max_s"], line
    assert line["runs"] >= 5, line
    assert line["gflops"] > 0 and line["peak_gflops"] > 0 and line["plan_s"] > 0, line
    share = line["gflops"] / line["peak_gflops"]
    assert abs(line["peak_share"] - share) <= 1e-4 * share, line
    flops = 2 * line["multiplications"] / line["median_s"] / 1e9
    assert abs(line["gflops"] - flops) <= 1e-4 * flops, line
assert lines[1]["flop_optimal_plan"] and lines[2]["flop_optimal_plan"]
assert not lines[0]["flop_optimal_plan"]
