#!/usr/bin/env python3
"""check_energy.py PATH METER WATTS [REASON]: whether every object of JSON tells the energy as one whole.

WATTS is the steady power that METER shows, busy and idle, or "any". With a REASON, nothing was
measured, and the reason begins so.
"""
import json
import sys

path, meter, watts = sys.argv[1:4]
reason = sys.argv[4] if len(sys.argv) > 4 else None
with open(path) as file:
    text = file.read().strip()
objects = []
while text:
    item, end = json.JSONDecoder().raw_decode(text)
    objects.append(item)
    text = text[end:].lstrip()
assert objects


def near(got, wanted, tolerance):
    assert abs(got / wanted - 1) <= tolerance, (got, wanted, tolerance)


def check(found):
    if found["joules_reason"] is not None:
        assert found["joules"] is None and found["watts"] is None and found["energy"] is None, found
        assert watts == "any" or found["joules_reason"].startswith(reason), found
        return
    assert reason is None, found
    energy = found["energy"]
    assert meter in (energy["meter"], "any"), found
    assert found["joules"] > 0 and energy["window_s"] >= 2 and energy["ticks"] >= 1, found
    near(found["joules"], found["watts"] * energy["seconds"], 1e-4)
    near(energy["window_s"], energy["runs"] * energy["seconds"], 1e-4)
    if watts != "any":
        near(found["watts"], float(watts), energy["tick_error"] + 1e-3)
        near((1 + energy["crosscheck"]) * found["watts"], float(watts), 1e-4)
        # A loaded machine may look late at the ends of the idle second.
        near(found["idle_watts"], float(watts), 0.3)
        # They are not known where a machine that stood still has seen less than two quarters of a second.
        spread = energy["watts_min"], energy["watts_max"]
        assert energy["ticks"] < 8 if None in spread else spread[0] <= spread[1], found


for each in objects:
    check(each)
