"""The examples in the documentation, and the example program."""

import doctest
import importlib
import os
import pkgutil
import runpy

import numpy as np
import pytest

import mmchain
from chains import can_tune

OPTIONAL = {"_torch", "_structure_torch", "_cupy", "_glance", "_jax", "_jax_sharded"}
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")


@pytest.mark.parametrize(
    "name",
    [""]
    + sorted(
        "." + m.name
        for m in pkgutil.iter_modules(mmchain.__path__)
        if m.name not in OPTIONAL | {"_mmchain"} and not m.name.startswith("mmchain-")
    ),
)
def test_doctests(name):
    if name == "._tune" and not can_tune():
        pytest.skip("no wisdom store")
    module = importlib.import_module("mmchain" + name)
    failed, _ = doctest.testmod(module, extraglobs={"mmchain": mmchain, "np": np})
    assert failed == 0


def test_every_public_name_has_examples():
    for name in mmchain.__all__:
        thing = getattr(mmchain, name)
        assert thing.__doc__
        if name not in ("Step", "TeamPlan", "Tuned"):
            assert ">>>" in thing.__doc__, name


def test_example(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(os.path.join(EXAMPLES, "multi_dot.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "((A1 (A2 A3)) ((A4 A5) A6))" in said
    assert "<svg" in (tmp_path / "tree.svg").read_text()


def test_example_of_a_sliding_window(capsys):
    runpy.run_path(os.path.join(EXAMPLES, "sliding_window.py"), run_name="__main__")
    assert "after half an hour" in capsys.readouterr().out


def test_example_of_a_robot_arm(capsys):
    runpy.run_path(os.path.join(EXAMPLES, "robot_arm.py"), run_name="__main__")
    assert "the hand is at [0.4 0.3 0.6]" in capsys.readouterr().out


def test_example_of_stacks(capsys):
    runpy.run_path(os.path.join(EXAMPLES, "stacks.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "10000 orientations" in said and "f64:3x3x3x3x8@10000" in said
