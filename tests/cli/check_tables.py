#!/usr/bin/env python3
"""check_tables.py PATH: whether `order --tables --json` gives Figure 1 of Nishida, Ito and Nakano.

Its table m has zeros on the diagonal; its s has none there and holds the first factor of the right
part elsewhere.
"""
import json
import sys

with open(sys.argv[1]) as file:
    order = json.load(file)
assert order["m"] == [
    [0, 54, 45, 53, 111, 154],
    [0, 27, 63, 170, 171],
    [0, 12, 77, 114],
    [0, 44, 99],
    [0, 220],
    [0],
], order["m"]
assert order["s"] == [
    [0, 2, 2, 4, 4, 4],
    [0, 3, 4, 4, 4],
    [0, 4, 4, 4],
    [0, 5, 6],
    [0, 6],
    [0],
], order["s"]
assert order["multiplications"] == 154
assert order["order"] == "((A1 (A2 A3)) ((A4 A5) A6))"
