#!/usr/bin/env python3
"""check_tune.py PATH COUNT [CALLS]: whether the lines of `mmchain tune --json` are those of COUNT
products and CALLS (none when left out) calls.
check_tune.py --store PATH DATABASE: whether a store is whole, by its JSON and by SQLite; prints how
many units of tuning it holds."""
import json
import sqlite3
import sys


def check_lines(path, count, calls=0):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    timed = [line for line in lines if "call" in line]
    assert len({(line["dtype"], line["call"]) for line in timed}) == len(timed) == int(calls), timed
    for line in timed:
        assert line["call"].split()[0] in ("call", "batch"), line
        assert 0 < line["low"] <= line["seconds"] <= line["high"], line
    lines = [line for line in lines if "call" not in line]
    assert len(lines) == int(count), lines
    keys = {(line["dtype"], line["m"], line["k"], line["n"], line["ops"]) for line in lines}
    assert len(keys) == len(lines), lines
    for line in lines:
        assert line["plain_s"] > 0 and line["seconds"] > 0, line
        assert line["gain_low"] <= line["gain"] <= line["gain_high"], line
        if line["recipe"] == "whole":
            assert line["gain"] == line["gain_low"] == line["gain_high"] == 1, line
            assert line["seconds"] == line["plain_s"], line
        else:
            assert line["gain_low"] > 1 and line["gain"] >= 1.01, line


def check_store(path, database):
    with open(path) as file:
        store = json.load(file)
    assert store["damaged"] == 0, store["damaged"]
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    print(sum(len(entry.get("progress", [])) for entry in store["fingerprints"]))


if sys.argv[1] == "--store":
    check_store(*sys.argv[2:])
else:
    check_lines(*sys.argv[1:])
