"""Products of ranges of a row of matrices that changes."""

from __future__ import annotations

import os
import threading
import weakref
from math import prod
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _mmchain
from ._general import expect_dense, room_of, semiring_number
from ._host import Kind, bits, name_of, plain
from ._shapes import bytes_of, whole
from ._types import Device


def _is_on_gpu(stack: Any) -> bool:
    """Whether factors are tensors of PyTorch on a GPU, or CuPy's arrays."""
    first = stack[0] if isinstance(stack, (list, tuple)) and stack else stack
    package = type(first).__module__.partition(".")[0]
    return package == "cupy" or (package == "torch" and bool(first.is_cuda))


# Rows that there are. The child of a fork lacks the thread that had the lock of one, and gets other locks.
_rows: weakref.WeakSet[Ranges] = weakref.WeakSet()


def _renew_locks() -> None:
    for row in _rows:
        row._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Ranges:
    """A row of n x n matrices, of which the product of any range can be asked for while factors
    are changed, appended and taken from the front.

    Products of neighbours are kept in a tree, so that one factor of 1000 changed takes at most 11
    products of two matrices until the product of all is there again. Nothing is multiplied before
    a product is asked for; many changes are computed together.

    Parameters
    ----------
    stack : array of at least three dimensions, or sequence of arrays of two or more
        The factors, which are copied: the last three dimensions of an array are the factors in a
        row, their rows and their columns; those before them are a batch of rows. An array of no
        factors, shape (0, n, n), makes an empty row. NumPy's, PyTorch's or JAX's, in the
        host's memory; or tensors of PyTorch and arrays of CuPy on a GPU, where the row then is.
        Products are of the same kind.
    device : str, optional
        "cpu", "blas" or "ref"; "cuda" where the factors are on a GPU.
    memory_limit : int, optional
        Bytes that may be held, factors included. All that makes updates fast takes twice what the
        factors take; with less, more products are computed. Not on a GPU, nor are the next two.
    scaled : bool
        Products neither overflow nor vanish: `product` returns a pair, as `multi_dot` does with it.
    semiring : str
        As in multi_dot; the product of no factors has zeros of the semiring around its ones.

    Several threads may use one; their calls wait for each other.

    Examples
    --------
    >>> import numpy as np, mmchain
    >>> r = mmchain.Ranges(np.full((1000, 2, 2), 0.5))
    >>> r.product(10, 20)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> r.update(15, np.eye(2))
    >>> r.append(np.zeros((2, 2)))
    >>> r.pop_front()
    >>> len(r), bool(r.product().any())
    (1000, False)
    """

    def __new__(cls, stack: Any, **options: Any) -> Ranges:
        if cls is Ranges and _is_on_gpu(stack):
            from ._ranges_device import DeviceRanges

            cls = DeviceRanges
        row = object.__new__(cls)
        _rows.add(row)
        return row

    def __init__(
        self,
        stack: Any,
        *,
        device: Optional[Device] = None,
        memory_limit: Optional[int] = None,
        scaled: bool = False,
        semiring: str = "plus-times",
    ):
        if isinstance(stack, (list, tuple)):
            if not stack:
                raise ValueError("stack: expected factors, or an array of shape (0, n, n)")
            expect_dense(stack, "Ranges")
            self._kind = Kind(stack[0])
            room_of(list(stack))  # raises where they are of several libraries
            factors = self._stacked(stack)
        else:
            self._kind = Kind(stack)
            factors = self._kind.to_numpy(stack)
        if factors.ndim < 3 or factors.shape[-1] != factors.shape[-2]:
            raise ValueError(
                f"stack: expected factors of shape (..., T, n, n), got {tuple(factors.shape)}"
            )
        if factors.dtype != bits:
            factors = factors.astype(factors.dtype.newbyteorder("="), copy=False)
        self._dtype = factors.dtype
        self._count = prod(factors.shape[:-3])
        self._batch: Tuple[int, ...] = tuple(map(int, factors.shape[:-3]))
        self._side = int(factors.shape[-1])
        self._lock = threading.RLock()  # a handler of a signal may call too
        self._scaled = bool(scaled)
        if self._count == 0:
            raise ValueError(f"stack: expected a batch of 1 or more, got {tuple(factors.shape)}")
        limit = bytes_of(memory_limit)
        name = name_of(self._dtype, integers=True, what="stack")
        number = semiring_number(semiring)
        self._row = _mmchain.Ranges(name, self._side, self._count, device, limit, self._scaled, number)
        self._give(self._row.append, factors, int(factors.shape[-3]))

    def _stacked(self, factors: Sequence[Any]) -> np.ndarray:
        arrays = [self._kind.to_numpy(factor) for factor in factors]
        if min(array.ndim for array in arrays) < 2:
            raise ValueError("stack: expected factors of two dimensions or more")
        shapes = sorted({tuple(map(int, array.shape)) for array in arrays})
        if len(shapes) > 1:
            raise ValueError(f"stack: expected factors of one shape, got {shapes[0]} and {shapes[1]}")
        return np.stack(arrays, axis=-3)

    def _read(self, name: str, array: Any, ndim: int) -> np.ndarray:
        """The array, of so many dimensions besides the batch's, in the row's dtype."""
        read: np.ndarray = self._kind.to_numpy(array)
        shape, one = read.shape, (self._side, self._side)
        if len(shape) != len(self._batch) + ndim or shape != self._batch + shape[-ndim:-2] + one:
            text = ", ".join(map(str, self._batch + ("k",) * (ndim - 2) + one))
            raise ValueError(f"{name}: expected shape ({text}), got {shape}")
        if read.dtype != self._dtype:
            if bits in (read.dtype, self._dtype) or not np.can_cast(read.dtype, self._dtype, "safe"):
                expected_name = "bfloat16" if self._dtype == bits else self._dtype.name
                raise TypeError(f"{name}: expected {expected_name}, got {read.dtype.name}")
            read = read.astype(self._dtype)
        return read

    def _give(self, method: Any, factors: np.ndarray, *arguments: Any) -> None:
        """Calls append or update of C with what lies as it can be read."""
        shape = (self._count, *factors.shape[-3:])
        array = plain(factors).reshape(shape)
        with self._lock:
            if method(array, *arguments) is NotImplemented:
                method(np.array(array, order="C", copy=True), *arguments)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("Ranges: expected no copies of a row and its tree: make another one of the factors")

    def __len__(self) -> int:
        return self._describe()[0]

    def _describe(self) -> Tuple[int, int, int, int]:
        with self._lock:
            return self._row.describe()

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of the stack that the row is."""
        return (*self._batch, len(self), self._side, self._side)

    @property
    def nbytes(self) -> int:
        """Bytes held: factors, products and tables."""
        return self._describe()[3]

    @property
    def products(self) -> int:
        """How many products of two matrices were computed so far; a batch counts as one."""
        return self._describe()[2]

    def product(self, i: int = 0, j: Optional[int] = None) -> Any:
        """The product of factors i, i + 1, ... j - 1, as in a slice; of all without i and j, and
        the identity where there are none. 0 <= i <= j <= len; anything else is an IndexError."""
        first = whole("i", i)
        out = np.empty((*self._batch, self._side, self._side), self._dtype)
        view = plain(out).reshape((self._count, 1, self._side, self._side))
        exponents = np.zeros(self._batch, np.int64)
        room = (exponents,) if self._scaled else ()
        with self._lock:
            length = self._row.describe()[0]
            end = length if j is None else whole("j", j)
            if not 0 <= first <= end <= length:
                raise IndexError(f"i, j: expected 0 <= i <= j <= {length}, got {first} and {end}")
            if self._row.product(first, end, view, *room) is NotImplemented:
                raise BufferError("product: numpy.empty() made an array that cannot be written")
        if self._scaled:
            return self._kind.from_numpy(out), exponents if self._batch else int(exponents)
        return self._kind.from_numpy(out)

    def update(self, i: Union[int, Sequence[int], np.ndarray], a: Any) -> None:
        """Puts a in place of factor i; or, where i are several numbers, the stack a, shape
        (..., k, n, n), in place of these. Of a number that occurs twice the last one counts.
        IndexError: a number is not in 0 <= i < len; then nothing is changed."""
        indices: List[int]
        if np.ndim(i) == 0:
            indices = [whole("i", i)]
            factors = self._read("a", a, 2)[..., None, :, :]
        else:
            indices = [whole("i", number) for number in i]  # type: ignore[union-attr]
            factors = self._read("a", a, 3)
            if factors.shape[-3] != len(indices):
                raise ValueError(f"a: expected {len(indices)} factors, got {factors.shape[-3]}")
        length = len(self)
        for number in indices:
            if not 0 <= number < length:
                raise IndexError(f"i: expected 0 <= i < {length}, got {number}")
        self._give(self._row.update, factors, indices)

    def append(self, a: Any) -> None:
        """Adds a factor at the end."""
        self._give(self._row.append, self._read("a", a, 2)[..., None, :, :], 1)

    def extend(self, stack: Any) -> None:
        """Adds the factors of a stack, shape (..., k, n, n), at the end, or those of a sequence."""
        if isinstance(stack, (list, tuple)):
            for factor in stack:
                self._read("stack", factor, 2)
            if not stack:
                return
            stack = self._stacked(stack)
        factors = self._read("stack", stack, 3)
        self._give(self._row.append, factors, int(factors.shape[-3]))

    def pop_front(self, count: int = 1) -> None:
        """Takes so many factors from the front. IndexError: the row has fewer."""
        number = whole("count", count)
        with self._lock:
            length = self._row.describe()[0]
            if not 0 <= number <= length:
                raise IndexError(f"count: expected 0 to {length}, got {number}")
            self._row.pop_front(number)

    def __repr__(self) -> str:
        return f"mmchain.Ranges(shape={self.shape}, dtype={name_of(self._dtype, integers=True)!r})"
