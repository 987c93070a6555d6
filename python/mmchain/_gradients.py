"""The gradients of a chain's factors."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _mmchain, _shapes
from ._general import expect_dense, factors_of, room_of
from ._host import Kind, bits, name_of, plain, summed

_Key = Tuple[Any, ...]

# Prepared gradients that nobody is at work with, by the process, dtype, dims, batch and what is wanted.
_idle: Dict[_Key, List[_mmchain.Gradients]] = {}
_most_kept = 32


class Prepared:
    """Gradients of one kind of chain, for a with statement."""

    def __init__(
        self,
        dtype: str,
        dims: Sequence[int],
        batch: int,
        wanted: Sequence[bool],
        device: str = "cpu",
        limit: Optional[int] = None,
    ):
        self._key: _Key = (os.getpid(), dtype, tuple(dims), batch, tuple(wanted), device, limit)

    def __enter__(self) -> _mmchain.Gradients:
        try:
            self._work = _idle[self._key].pop()
        except (KeyError, IndexError):
            _, dtype, dims, batch, wanted, device, limit = self._key
            text = f"{dtype}:{'x'.join(map(str, dims))}" + (f"@{batch}" if batch != 1 else "")
            plan = _mmchain.Plan(text, "flops", device, "native", None, None, None, device != "cpu")
            self._work = _mmchain.Gradients(plan, wanted, limit)
        return self._work

    def __exit__(self, *error: Any) -> None:
        if self._key not in _idle:
            while len(_idle) >= _most_kept:
                _idle.pop(next(iter(_idle)), None)
            _idle[self._key] = []
        if len(_idle[self._key]) < 4:
            _idle[self._key].append(self._work)


def _matrices(arrays: Sequence[np.ndarray], chain: _shapes.Chain, dtype: Any) -> List[np.ndarray]:
    """Factors as stacks of three dimensions, or matrices when there is one chain."""
    stack, batch = chain.stack, _shapes.prod(chain.stack)
    matrices = []
    for array in chain.matrices(arrays):
        array = array if array.dtype == dtype else array.astype(dtype)
        if stack:
            array = np.broadcast_to(array, stack + array.shape[-2:])
        matrices.append(plain(array).reshape((batch,) * bool(stack) + array.shape[-2:]))
    return matrices


def _sum_to(gradient: np.ndarray, shape: Tuple[int, ...]) -> np.ndarray:
    """The sum over what was broadcast."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        d + extra for d, size in enumerate(shape) if size == 1 and gradient.shape[d + extra] != 1
    )
    return (summed(gradient, axes) if axes else gradient).reshape(shape)


def gradients(
    arrays: Sequence[Any],
    cotangent: Union[Any, Callable[[Any], Any]],
    memory_limit: Optional[int] = None,
) -> Tuple[Any, List[Any]]:
    """The product of arrays, and the gradient of every factor.

    For factors A1 ... An and the cotangent G of their product, the gradient of a number by that
    product, factor i's gradient is P^H G S^H, where P is the product of all factors before it and S
    of all behind it. All of them take 2 (n - 1) products besides those of the chain, back through
    its tree, and little memory besides their own.

    Parameters
    ----------
    arrays : as for `multi_dot`
        In the host's memory, of a floating-point or complex dtype; what was broadcast is summed over.
    cotangent : array of the product's shape, or a function
        A function gets the product and returns the cotangent.
    memory_limit : int, optional
        Bytes for the gradients and what is kept for them on the way back. Where that would be more,
        results that are cheap for their size are not kept but computed again; MemoryError where the
        gradients themselves do not fit.

    Returns
    -------
    (product, gradients)
        Arrays of the caller's kind; gradients are of the factors' shapes, in one piece of memory.

    Examples
    --------
    >>> import numpy as np, mmchain
    >>> a, b, c = np.full((2, 3), 2.0), np.ones((3, 4)), np.ones((4, 2))
    >>> product, (da, db, dc) = mmchain.gradients([a, b, c], np.eye(2))
    >>> da
    array([[4., 4., 4.],
           [4., 4., 4.]])
    >>> np.allclose(db, a.T @ np.eye(2) @ c.T)
    True

    The gradient of the squared distance of a product from a goal:

    >>> product, slopes = mmchain.gradients([a, b, c], lambda p: 2 * (p - np.eye(2)))
    """
    expect_dense(arrays, "gradients")
    given = factors_of(arrays)
    if not given:
        raise ValueError("arrays: expected at least one")
    kind = Kind(given[0])
    room_of(given)  # raises where they are of several libraries
    factors = [kind.to_numpy(array) for array in given]
    chain = _shapes.check([factor.shape for factor in factors], 1)
    dtype = bits if all(f.dtype == bits for f in factors) else np.result_type(*factors)
    name = name_of(dtype, what="arrays")
    matrices = tuple(_matrices(factors, chain, dtype))
    one = matrices[0].shape[:-2]
    ends = (chain.dims[0], chain.dims[-1])
    limit = _shapes.bytes_of(memory_limit)
    wanted, batch = [True] * len(factors), one[0] if one else 1
    with Prepared(name, chain.dims, batch, wanted, "cpu", limit) as work:
        places, count = work.places()
        memory, product = np.empty(count, dtype), np.empty(one + ends, dtype)
        if work.forward(matrices, plain(memory), plain(product)) is NotImplemented:
            matrices = tuple(np.array(matrix, order="C", copy=True) for matrix in matrices)
            if work.forward(matrices, plain(memory), plain(product)) is NotImplemented:
                raise BufferError("arrays: expected arrays whose memory can be read")
        result = kind.from_numpy(product.reshape(chain.result))
        got = kind.to_numpy(cotangent(result) if callable(cotangent) else cotangent)
        if tuple(got.shape) != tuple(chain.result):
            expected = tuple(chain.result)
            raise ValueError(f"cotangent: expected shape {expected}, got {tuple(got.shape)}")
        if got.dtype != dtype:
            if bits in (got.dtype, dtype) or not np.can_cast(got.dtype, dtype, "same_kind"):
                raise TypeError(f"cotangent: expected {name}, got {got.dtype}")
            got = got.astype(dtype)
        end = np.require(plain(got), requirements="CA").reshape(one + ends)
        if work.backward(matrices, plain(memory), end) is NotImplemented:
            raise BufferError("cotangent: expected an array whose memory can be read")
    made = []
    for factor, matrix, place in zip(factors, matrices, places):
        assert place is not None  # since every gradient is wanted
        part = memory[place : place + matrix.size].reshape(chain.stack + matrix.shape[-2:])
        shape = factor.shape if factor.ndim > 1 else matrix.shape[-2:]
        made.append(kind.from_numpy(_sum_to(part, shape).reshape(factor.shape)))
    return result, made
