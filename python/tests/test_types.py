"""What a type checker makes of calls, by mypy where it is installed."""

import os
import subprocess
import sys

import pytest

import mmchain

pytest.importorskip("mypy")

PROGRAM = """
from typing import Any, List
import numpy as np
import numpy.typing as npt
import mmchain

arrays: List[npt.NDArray[np.float64]] = [np.ones((2, 3)), np.ones((3, 4))]
product = mmchain.multi_dot(arrays)
reveal_type(product)
plan = mmchain.plan(arrays, objective="flops", solver="hu-shing", device="cuda:1")
reveal_type(plan.execute(arrays))
reveal_type(mmchain.multi_dot([[[1.0, 2.0]], [[3.0], [4.0]]]))
reveal_type(mmchain.order([2, 3, 4]).multiplications)
reveal_type(plan.steps[0].kernel)
mmchain.plan([10, 30, 5, 60])
mmchain.multi_dot(np.ones((4, 3, 3)), objective="traffic")
mmchain.order(np.array([2, 3, 4]))
mmchain.Ranges(np.ones((4, 3, 3))).update(np.array([0]), np.ones((1, 3, 3)))
mmchain.recurrence(np.ones((4, 3, 3)), [1.0, 2.0, 3.0])
mmchain.multi_dot(arrays, objective="fast")
mmchain.multi_dot(arrays, precision="time")
mmchain.plan(arrays, solver="table!")
plan.explain("html")
"""


def test_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    package = os.path.dirname(os.path.dirname(mmchain.__file__))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(program)],
        env={**os.environ, "MYPYPATH": package},
        capture_output=True,
        text=True,
    )
    lines = [line.partition("program.py:")[2] for line in done.stdout.splitlines() if "program.py:" in line]
    revealed = [line.partition('is "')[2].rstrip('"') for line in lines if "Revealed" in line]
    assert "ndarray" in revealed[0] and "float64" in revealed[0], done.stdout
    assert "ndarray" in revealed[1], done.stdout
    assert revealed[2:] == ["Any", "int", "str | None"] or revealed[2:] == [
        "Any",
        "builtins.int",
        "Union[builtins.str, None]",
    ], revealed
    errors = {int(line.partition(":")[0]): line for line in lines if "error:" in line}
    first_wrong = 1 + PROGRAM.splitlines().index('mmchain.multi_dot(arrays, objective="fast")')
    assert sorted(errors) == list(range(first_wrong, first_wrong + 4)), done.stdout
