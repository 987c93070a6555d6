"""Floating-point errors, treated as numpy.errstate says."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Dict

import numpy as np

_messages = {"invalid": "invalid value", "over": "overflow", "divide": "divide by zero"}
_bits = {"divide": 1, "over": 2, "invalid": 8}  # as NumPy numbers them for numpy.seterrcall


_here = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _level_of_caller() -> int:
    """How many frames above `report` the first is that is none of this package's: calls of C's own have no
    frame, others several."""
    level = 2
    try:
        frame = sys._getframe(level)
    except ValueError:  # a thread that is C's own
        return 1
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_here):
        level, frame = level + 1, frame.f_back
    return level


def report(kind: str, result: Any) -> None:
    """For the product of NumPy arrays during which the processor has seen such an error.

    Vectors are computed whole, beyond the end of a row too: the error is the result's where that has
    a NaN, or an infinity.
    """
    seen = np.isnan(result) if kind == "invalid" else np.isinf(result)
    modes: Dict[str, Any] = {**np.geterr()}
    mode = modes[kind]
    if mode == "ignore" or not seen.any():
        return
    message = f"{_messages[kind]} encountered in multi_dot"
    if mode == "raise":
        raise FloatingPointError(message)
    if mode == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=_level_of_caller())
    elif mode == "print":
        print(f"Warning: {message}")
        return
    told: Any = np.geterrcall()  # a function, or what has a method `write`
    if mode == "call":
        told(_messages[kind], _bits[kind])
    elif mode == "log":
        told.write(f"Warning: {message}\n")
