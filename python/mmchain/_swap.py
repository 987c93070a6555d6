"""numpy.linalg.multi_dot, swapped for ours for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Optional, Sequence

import numpy as np

# NumPy's own, whatever is in its place later.
theirs = np.linalg.multi_dot


@contextmanager
def numpy_multi_dot() -> Iterator[None]:
    """Within the block, or the decorated function, `numpy.linalg.multi_dot` is mmchain's.

    It is so in all threads. A name bound before, by `from numpy.linalg import multi_dot`, stays
    NumPy's.

    >>> with mmchain.numpy_multi_dot():
    ...     np.linalg.multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)])
    array([12., 12.])
    """
    from . import multi_dot

    def swapped(arrays: Sequence[Any], *, out: Optional[Any] = None) -> Any:
        return multi_dot(arrays) if out is None else multi_dot(arrays, out=out)

    before = np.linalg.multi_dot
    np.linalg.multi_dot = swapped  # type: ignore[assignment]
    try:
        yield
    finally:
        np.linalg.multi_dot = before
