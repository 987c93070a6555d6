"""Tuning: what is decided, kept, resumed and refused, and what stops it."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain
from chains import assert_close, can_tune, random_chain

needs_store = pytest.mark.skipif(not can_tune(), reason="no wisdom store")


def sizes(rng, count=3):
    return [int(size) for size in rng.integers(2, 40, count)]


class Stop(Exception):
    pass


_COUNT = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM progress").fetchone()[0])
"""


def kept_measurements():
    """By a process of its own: a package's SQLite and Python's are two libraries, of which each
    takes the other's open file for its own to close."""
    asked = [sys.executable, "-c", _COUNT, os.environ["MMCHAIN_WISDOM"]]
    return int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)


@needs_store
def test_a_set(rng):
    m, k, n = sizes(rng)
    products = [(m, k, n), (m, k, n, "NT"), [m, k, np.int64(n), "TN", "float32"]]
    result = mmchain.tune(set=iter(products), dtype="c64", device="ref", budget=60)
    assert isinstance(result, list) and result.complete
    assert {(t.ops, t.dtype) for t in result} == {("NN", "c64"), ("NT", "c64"), ("TN", "f32")}
    for t in result:
        assert (t.m, t.k, t.n) == (m, k, n)
        assert 0 < t.seconds <= t.plain_s < 60
        assert t.gain_low <= t.gain <= t.gain_high
        assert (t.recipe == "whole") == (t.gain == 1)
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.complete


@needs_store
def test_factors_with_structure(rng):
    a, b = rng.random((30, 30)), rng.random((30, 20))
    factors = [mmchain.symmetric(a + a.T), mmchain.lower(np.tril(a)), b]
    result = mmchain.tune([factors], budget=0.2)
    assert all(t.dtype == "f64" and 30 in (t.m, t.k) for t in result)
    np.testing.assert_allclose(mmchain.multi_dot(factors), (a + a.T) @ np.tril(a) @ b)


@needs_store
def test_resuming_measures_nothing(rng):
    m, k, n = (size + 40 for size in sizes(rng))
    first = mmchain.tune(set=[(m, k, n)], device="ref")
    again = mmchain.tune(set=[(m, k, n), (m, k, n)], device="ref")
    assert first.measurements > 0 and again.measurements == 0
    assert again == first and again.complete


@needs_store
def test_chains_are_planned_by_what_was_measured(rng):
    dims = sizes(rng, 4)
    arrays = random_chain(rng, dims, "float32")
    mmchain.multi_dot(arrays, device="ref")
    assert mmchain.info()["cache"]["plans"] > 0
    before = mmchain.plan(arrays, device="ref")
    text = "f32:" + "x".join(map(str, dims))
    result = mmchain.tune([arrays, text, list(zip(dims, dims[1:]))], device="ref", budget=120)
    assert mmchain.info()["cache"]["plans"] == 0
    for first, split, last in [(0, 1, 2), (1, 2, 3), (0, 1, 3), (0, 2, 3)]:
        product = dims[first], dims[split], dims[last]
        assert any((t.m, t.k, t.n, t.dtype) == (*product, "f32") for t in result)
    after = mmchain.plan(arrays, device="ref")
    assert "measured" in after.explain() and "measured" not in before.explain()
    seconds = {(t.m, t.k, t.n): t.seconds for t in result if t.dtype == "f32"}
    expected = sum(seconds[s.m, s.k, s.n] for s in after.steps)
    # Several of them may be one call, which was measured too.
    if "measured" in after.explain().split("\nstep")[0]:
        assert after.predicted_seconds < expected * (1 + 1e-3)
    else:
        assert after.predicted_seconds == pytest.approx(expected, rel=1e-3)
    assert_close(mmchain.multi_dot(arrays, device="ref"), arrays)


@needs_store
def test_a_range():
    seen = []
    result = mmchain.tune(
        range=8, device="ref", dtype="f64", budget=1, progress=lambda *got: seen.append(got)
    )
    assert list(result) == [] and result.measurements > 0
    assert all(0 <= spent <= 1 for spent, _, _, _ in seen)
    assert all(0 <= decided < count for _, decided, count, _ in seen)
    # What takes less than the time between two tellings is not told.
    units = {unit for _, _, _, unit in seen}
    assert units and units <= {f"sizes along {axis}" for axis in "mkn"} | {
        "grid points",
        "trials",
        "trials between",
        "cuts",
        "confirmations",
    }
    assert sorted(spent for spent, _, _, _ in seen) == [spent for spent, _, _, _ in seen]


@needs_store
@pytest.mark.parametrize("kind", [Stop, KeyboardInterrupt])
def test_an_exception_in_progress_stops_and_what_was_measured_stays(kind):
    product = (31, 77, 53) if kind is Stop else (29, 79, 59)
    calls = []
    before = kept_measurements()

    def progress(spent, decided, count, unit):
        assert spent is None
        calls.append(unit)
        if len(calls) == 4:
            raise kind("enough")

    with pytest.raises(kind, match="enough"):
        mmchain.tune(set=[product], device="ref", progress=progress)
    assert len(calls) == 4
    stopped = kept_measurements()
    assert stopped >= before + 3
    rest = mmchain.tune(set=[product], device="ref")
    assert rest.complete and rest.measurements > 0
    assert kept_measurements() == stopped + rest.measurements


@needs_store
def test_ctrl_c_stops():
    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        mmchain.tune(range=4096, device="ref", dtype="c128", budget=300)
    thread.join()
    assert time.monotonic() - start < 120


@needs_store
def test_other_threads_run_meanwhile_and_only_one_tunes(rng):
    arrays = random_chain(rng, sizes(rng, 4))
    errors, products = [], []

    def other():
        products.append(mmchain.multi_dot(arrays))
        try:
            mmchain.tune(set=[(2, 2, 2)], device="ref")
        except RuntimeError as error:
            errors.append(str(error))

    def progress(*now):
        if not errors:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    m, k, n = sizes(rng)
    mmchain.tune(set=[(m + 90, k, n)], device="ref", budget=2, progress=progress)
    assert errors == ["tune: expected one at a time: another is under way"]
    assert_close(products[0], arrays)


@needs_store
def test_a_callback_may_fork():
    statuses = []

    def progress(*now):
        if not statuses:
            child = os.fork()
            if child == 0:
                ok = np.allclose(mmchain.multi_dot([np.eye(3)] * 3), np.eye(3))
                os._exit(0 if ok else 1)
            statuses.append(os.waitpid(child, 0)[1])

    mmchain.tune(set=[(67, 3, 5)], device="ref", budget=2, progress=progress)
    assert statuses == [0]


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({}, TypeError, "one of chains, set and range"),
        ({"set": [(1, 2, 3)], "range": 8}, TypeError, "one of chains, set and range"),
        ({"chains": "f64:2x3x4"}, TypeError, r"chains: .*\[chain\]"),
        ({"chains": [np.ones((2, 2))] * 2}, TypeError, r"chains: .*\[chain\]"),
        ({"chains": ["f64:2x3y4"]}, ValueError, "position"),
        ({"chains": ["f64:2x3"]}, ValueError, "two factors"),
        ({"chains": [[(2, 3)]]}, ValueError, "at least two"),
        ({"chains": [[(2, 3), (4, 5)]]}, ValueError, "not aligned"),
        ({"chains": ["2x3x4"], "dtype": "f32"}, TypeError, "dtype"),
        ({"set": [(1, 2)]}, ValueError, "set: expected"),
        ({"set": [(1, 0, 2)]}, ValueError, "at least 1"),
        ({"set": [(1, 2.5, 2)]}, TypeError, "integer"),
        ({"set": [(1, 2, 3, "NX")]}, ValueError, "ops: "),
        ({"set": [(1, 2, 3, "NN", "f65")]}, TypeError, "dtype"),
        ({"set": [(1, 2, 1 << 63)]}, ValueError, "position"),
        ({"range": 0}, ValueError, "range: "),
        ({"range": 1 << 62}, ValueError, "range: "),
        ({"range": 8, "budget": 0}, ValueError, "budget: "),
        ({"range": 8, "budget": float("nan")}, ValueError, "budget: "),
        ({"range": 8, "ops": "T"}, ValueError, "ops: "),
        ({"range": 8, "objective": "flops"}, ValueError, "objective: "),
        ({"range": 8, "precision": "poor"}, ValueError, "precision: "),
        ({"range": 8, "device": "abacus"}, (ValueError, RuntimeError), "abacus"),
        ({"range": 8, "progress": 1}, TypeError, "progress: "),
    ],
)
def test_bad_arguments(options, kind, words):
    with pytest.raises(kind, match=words):
        mmchain.tune(**options)
    assert mmchain.tune(set=[]) == []


def test_without_a_store():
    program = "import mmchain; mmchain.tune(set=[(2, 2, 2)], device='ref')"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "MMCHAIN_WISDOM": "", "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert run.returncode == 1
    assert "RuntimeError: no wisdom store: " in run.stderr


def test_the_extension_checks_its_arguments():
    with pytest.raises(TypeError):
        _mmchain.tune((), "f64:1x1x1:NN", 0, None, None, None, 0.0, None)
    with pytest.raises(TypeError, match="chains: expected a str"):
        _mmchain.tune([1], "f64:1x1x1:NN", 0, None, None, None, 0.0, None)


@needs_store
def test_a_product_that_is_tuned_ends_no_group():
    shapes = [[8] * 6, [6] * 4, [11, 6, 9, 1, 5, 1, 5], [24] * 10]

    def groups():
        plans = [mmchain.plan([np.ones((500, *s)) for s in zip(d, d[1:])]) for d in shapes]
        said = [json.loads(plan.describe("json")) for plan in plans]
        return [[step["group"] for step in one["steps"]] for one in said], said

    before, _ = groups()
    mmchain.tune(set=[(317, 211, 77)], dtype="f64", budget=60)  # seconds, enough for a busy machine
    mmchain.clear_cache()
    after, said = groups()
    assert all(step["source"] == "model" for one in said for step in one["steps"]), "calibrated"
    assert after == before
