"""Rows of matrices on a GPU, on the current stream of the arrays' library. Those of at most 64 x 64
are C's; of larger ones the tree of Ranges is here, in the device's memory, by the products of that
library.

Level l has the products of 2^l neighbours, counted from the first that was ever appended, and level 0
the factors. Every level is a ring, so that a row that slides moves no matrix; a node remembers which
positions its matrix is the product of. What a product needs and is not up to date is computed level by
level, each level as one batch.
"""

from __future__ import annotations

import sys
import threading
from math import prod
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _mmchain
from ._ranges import Ranges
from ._shapes import whole
from ._types import Device, float_names

_exchange = "__dlpack_c_exchange_api__"

Span = Tuple[int, int]
_nothing: Span = (-1, -1)


class _Level:
    """Node q has slot q modulo the number of slots."""

    def __init__(self, values: Any):
        self.values = values
        self.slots = len(values)
        self.spans: List[Span] = [_nothing] * self.slots

    def at(self, q: int) -> Any:
        return self.values[q % self.slots]

    def run(self, nodes: Sequence[int], step: int) -> Any:
        """The matrices of nodes, each `step` after the one before: a view, where they do not go around
        the ring's end; None where they do, or are elsewhere."""
        first, last = nodes[0] % self.slots, nodes[-1] % self.slots
        if nodes[-1] - nodes[0] != step * (len(nodes) - 1) or last - first != nodes[-1] - nodes[0]:
            return None
        return self.values[first : last + 1 : step]


class DeviceRanges(Ranges):
    """Ranges of arrays of PyTorch or CuPy where they are."""

    def __init__(
        self,
        stack: Any,
        *,
        device: Optional[Device] = None,
        memory_limit: Optional[int] = None,
        scaled: bool = False,
        semiring: str = "plus-times",
    ):
        first = stack[0] if isinstance(stack, (list, tuple)) else stack
        package = type(first).__module__.partition(".")[0]
        self._lib = sys.modules["torch" if package == "torch" else package]
        self._is_torch = package == "torch"
        # The type whose arrays C reads without a capsule.
        has_exchange = self._is_torch and _exchange in vars(self._lib.Tensor)
        self._seen_kind = self._lib.Tensor if has_exchange else None
        self._refuse(first, device, memory_limit, scaled, semiring)
        self._like = first
        if isinstance(stack, (list, tuple)):
            if min(factor.ndim for factor in stack) < 2:
                raise ValueError("stack: expected factors of two dimensions or more")
            stack = self._lib.stack([self._plain("stack", factor) for factor in stack], -3)
        if stack.ndim < 3 or stack.shape[-1] != stack.shape[-2]:
            raise ValueError(
                f"stack: expected factors of shape (..., T, n, n), got {tuple(stack.shape)}"
            )
        self._dtype = stack.dtype
        self._batch = tuple(map(int, stack.shape[:-3]))
        self._side = int(stack.shape[-1])
        if 0 in self._batch:
            raise ValueError(f"stack: expected a batch of 1 or more, got {tuple(stack.shape)}")
        self._lock = threading.RLock()
        self._count = prod(self._batch)
        self._small = self._open()
        self._levels: List[_Level] = []
        self._first = self._end = self._computed = 0
        self.extend(stack)

    def _refuse(
        self,
        first: Any,
        device: Optional[str],
        memory_limit: Optional[int],
        scaled: bool,
        semiring: str,
    ) -> None:
        if device is not None and device.partition(":")[0] != "cuda":
            raise ValueError(f"device: expected None or 'cuda' for arrays on a GPU, got {device!r}")
        if memory_limit is not None:
            raise ValueError("memory_limit: expected None for arrays on a GPU")
        if scaled:
            raise ValueError("scaled: expected False for arrays on a GPU, which keeps no exponents")
        if semiring != "plus-times":
            raise ValueError(f"semiring: expected plus-times for arrays on a GPU, got {semiring!r}")
        if str(first.dtype).rpartition(".")[2] not in float_names:
            raise TypeError(f"dtype: expected one of {', '.join(float_names)}, got {first.dtype}")

    def _open(self) -> Optional[_mmchain.Ranges]:
        """A row of C's, where it keeps such matrices."""
        device = self._like.device
        if self._is_torch and device.type != "cuda":
            return None
        number = device.index if self._is_torch else device.id
        if self._is_torch:
            self._raw_stream = getattr(self._lib._C, "_cuda_getCurrentRawStream", None)
            self._raw_device = device.index
        name = float_names[str(self._dtype).rpartition(".")[2]]
        if not 1 <= self._side <= 64:
            return None
        try:
            return _mmchain.Ranges(name, self._side, self._count, f"cuda:{number}", None)
        except RuntimeError:  # there is no module for the GPU
            return None

    def _stream(self) -> int:
        """The address of the current stream."""
        number: int
        if self._is_torch:
            if self._raw_stream is not None:
                number = self._raw_stream(self._raw_device)
            else:
                number = self._lib.cuda.current_stream(self._like.device).cuda_stream
        else:
            with self._like.device:
                number = self._lib.cuda.get_current_stream().ptr
        return number

    def _seen(self, stack: Any) -> Any:
        """What C reads of an array of four dimensions."""
        if self._seen_kind is not None:
            return stack
        return stack.__dlpack__(stream=-1)

    def _give(self, method: Any, factors: Any, *arguments: Any) -> None:
        """Calls append or update of C, under the lock, with factors whose positions come first."""
        if not len(factors):
            return
        shape = (self._count, self._side, self._side)
        if len(factors) == 1:
            stack = factors.reshape((shape[0], 1, *shape[1:]))
        else:
            stack = factors.reshape((len(factors), *shape)).swapaxes(0, 1)
        assert self._small is not None
        self._small.on_stream(self._stream())
        if method(self._seen(stack), *arguments) is NotImplemented:
            stack = stack.contiguous() if self._is_torch else self._lib.ascontiguousarray(stack)
            if method(self._seen(stack), *arguments) is NotImplemented:
                raise BufferError("expected arrays that can be read")

    def _has_taken(self, i: Any, a: Any) -> bool:
        """Changes factor i to a, where both are what C reads as they are. Says whether they were."""
        if self._small is None or self._batch or type(i) is not int:
            return False
        if type(a) is not self._seen_kind or a.ndim != 2:
            return False
        with self._lock:
            if not 0 <= i < self._length():
                return False
            self._small.on_stream(self._stream())
            return self._small.update(a, [i]) is not NotImplemented

    def _length(self) -> int:
        return self._end - self._first if self._small is None else self._small.describe()[0]

    def _product(self, row: _mmchain.Ranges, first: int, end: Optional[int]) -> Any:
        out = self._new()
        view = out
        if self._batch or self._seen_kind is None:
            view = self._seen(out.reshape((self._count, 1, self._side, self._side)))
        with self._lock:
            length = self._length()
            end = length if end is None else end
            self._check_range(first, end, length)
            row.on_stream(self._stream())
            if row.product(first, end, view) is NotImplemented:
                raise BufferError("product: an array was made that cannot be written")
        return out

    @staticmethod
    def _check_range(first: int, end: int, length: int) -> None:
        if not 0 <= first <= end <= length:
            raise IndexError(f"i, j: expected 0 <= i <= j <= {length}, got {first} and {end}")

    def _plain(self, name: str, array: Any) -> Any:
        """The array, where the row is, without a record of gradients."""
        if type(array).__module__.partition(".")[0] != self._lib.__name__:
            raise TypeError(f"{name}: expected an array of {self._lib.__name__}, got {type(array)}")
        if array.device != self._like.device:
            raise ValueError(f"{name}: expected an array on {self._like.device}, got {array.device}")
        if not self._is_torch:
            return array
        if array.requires_grad:
            if self._lib.is_grad_enabled():
                raise ValueError(f"{name}: expected tensors that require no gradients")
            array = array.detach()
        if array.is_conj() or array.is_neg():
            array = array.resolve_conj().resolve_neg()
        return array

    def _read(self, name: str, array: Any, ndim: int) -> Any:
        """As Ranges does; the positions come first."""
        read = self._plain(name, array)
        shape, one = tuple(read.shape), (self._side, self._side)
        if len(shape) != len(self._batch) + ndim or shape != self._batch + shape[-ndim:-2] + one:
            text = ", ".join(map(str, self._batch + ("k",) * (ndim - 2) + one))
            raise ValueError(f"{name}: expected shape ({text}), got {shape}")
        if read.dtype != self._dtype:
            wide = (
                self._lib.promote_types(read.dtype, self._dtype)
                if self._is_torch
                else self._lib.result_type(read.dtype, self._dtype)
            )
            if wide != self._dtype:
                raise TypeError(f"{name}: expected {self._dtype}, got {read.dtype}")
            read = read.to(wide) if self._is_torch else read.astype(wide)
        return read if ndim == 2 else self._lib.moveaxis(read, -3, 0)

    def _new(self, *count: int) -> Any:
        shape = (*count, *self._batch, self._side, self._side)
        if self._is_torch:
            return self._like.new_empty(shape, dtype=self._dtype)
        return self._lib.empty(shape, self._dtype)

    # ---- the tree ---------------------------------------------------------------------------------

    def _reserve(self, count: int) -> None:
        """Gives the row room for as many factors, and keeps what it holds."""
        capacity = self._levels[0].slots if self._levels else 0
        if count <= capacity:
            return
        capacity = max(count, capacity + capacity // 2, 1)
        sizes = [capacity]
        while 1 << (len(sizes) - 1) < capacity:
            sizes.append(((capacity - 1) >> len(sizes)) + 2)
        levels = [_Level(self._new(size)) for size in sizes]
        for level, (old, new) in enumerate(zip(self._levels, levels)):
            nodes = range(self._first >> level, ((self._end - 1) >> level) + 1)
            for begin in self._pieces(nodes, old.slots, new.slots):
                at, put, size = begin[0] % old.slots, begin[0] % new.slots, len(begin)
                new.values[put : put + size] = old.values[at : at + size]
                new.spans[put : put + size] = old.spans[at : at + size]
        self._levels = levels

    @staticmethod
    def _pieces(nodes: range, *slots: int) -> List[range]:
        """Nodes in pieces that go around the end of none of the rings."""
        cuts = {nodes.start, nodes.stop}
        for size in slots:
            cuts.update(range(-(-nodes.start // size) * size, nodes.stop, size))
        ends = sorted(cut for cut in cuts if nodes.start <= cut <= nodes.stop)
        return [range(a, b) for a, b in zip(ends, ends[1:])]

    def _clip(self, level: int, q: int) -> Span:
        """The positions that a node stands for and that are in the row."""
        return max(q << level, self._first), min((q + 1) << level, self._end)

    def _need(self, level: int, q: int, stale: List[List[int]]) -> None:
        """Lists the nodes that must be computed before this one is up to date."""
        span = self._clip(level, q)
        if level == 0 or span[0] >= span[1]:
            return
        held = self._levels[level]
        if held.spans[q % held.slots] == span:
            return
        self._need(level - 1, 2 * q, stale)
        self._need(level - 1, 2 * q + 1, stale)
        stale[level].append(q)

    def _refresh(self, stale: List[List[int]]) -> None:
        for level, nodes in enumerate(stale):
            if not nodes:
                continue
            own, below = self._levels[level], self._levels[level - 1]
            pairs = []
            for q in nodes:
                left, right = self._clip(level - 1, 2 * q), self._clip(level - 1, 2 * q + 1)
                if left[0] < left[1] and right[0] < right[1]:
                    pairs.append(q)
                else:  # one of them is outside the row
                    own.at(q)[...] = below.at(2 * q + (left[0] >= left[1]))
            if pairs:
                self._multiply(own, below, pairs)
            for q in nodes:
                own.spans[q % own.slots] = self._clip(level, q)

    def _multiply(self, own: _Level, below: _Level, nodes: List[int]) -> None:
        """Computes nodes of a level, as one batch."""
        self._computed += len(nodes)
        matmul = self._lib.matmul
        lefts, rights = [2 * q for q in nodes], [2 * q + 1 for q in nodes]
        if len(nodes) == 1:
            matmul(below.at(lefts[0]), below.at(rights[0]), out=own.at(nodes[0]))
            return
        a, b, c = below.run(lefts, 2), below.run(rights, 2), own.run(nodes, 1)
        if a is not None and b is not None and c is not None:
            matmul(a, b, out=c)
            return
        a = below.values[[q % below.slots for q in lefts]]
        b = below.values[[q % below.slots for q in rights]]
        own.values[[q % own.slots for q in nodes]] = matmul(a, b)

    def _walk(self, level: int, q: int, span: Span) -> List[Any]:
        """The nodes that make up a part of the positions of node q: a node, or a pair of such."""
        clip = self._clip(level, q)
        if span[1] <= clip[0] or span[0] >= clip[1] or clip[0] >= clip[1]:
            return []
        if span[0] <= clip[0] and span[1] >= clip[1]:
            return [(level, q)]
        parts = self._walk(level - 1, 2 * q, span) + self._walk(level - 1, 2 * q + 1, span)
        return parts if len(parts) == 1 else [parts]

    def _each(self, part: Any, stale: List[List[int]]) -> None:
        if isinstance(part, tuple):
            level, q = part
            self._need(level, q, stale)
        else:
            for inner in part:
                self._each(inner, stale)

    def _value(self, part: Any) -> Any:
        if isinstance(part, tuple):
            return self._levels[part[0]].at(part[1])
        left, right = map(self._value, part)
        self._computed += 1
        return self._lib.matmul(left, right)

    # ---- as Ranges has them -----------------------------------------------------------------------

    def _describe(self) -> Tuple[int, int, int, int]:
        with self._lock:
            if self._small is not None:
                return self._small.describe()
            held = sum(level.values.nbytes for level in self._levels)
            return self._end - self._first, 2, self._computed, held

    def product(self, i: int = 0, j: Optional[int] = None) -> Any:
        first = whole("i", i)
        if self._small is not None:
            return self._product(self._small, first, None if j is None else whole("j", j))
        with self._lock:
            length = self._end - self._first
            end = length if j is None else whole("j", j)
            self._check_range(first, end, length)
            out = self._new()
            if first == end:
                out[...] = 0
                for d in range(self._side):
                    out[..., d, d] = 1
                return out
            span = (self._first + first, self._first + end)
            top = len(self._levels) - 1
            parts: List[Any] = []
            for q in range(span[0] >> top, ((span[1] - 1) >> top) + 1):
                parts += self._walk(top, q, span)
            stale: List[List[int]] = [[] for _ in self._levels]
            self._each(parts, stale)
            self._refresh(stale)
            out[...] = self._value(parts if len(parts) == 2 else parts[0])
            return out

    def _forget(self, position: int) -> None:
        """Nodes that hold a product with this factor hold nothing from now on."""
        for level, held in enumerate(self._levels[1:], 1):
            held.spans[(position >> level) % held.slots] = _nothing

    def update(self, i: Union[int, Sequence[int], np.ndarray], a: Any) -> None:
        if self._has_taken(i, a):
            return
        if hasattr(i, "__len__"):
            indices = [whole("i", number) for number in i]  # type: ignore[union-attr]
            factors = self._read("a", a, 3)
            if len(factors) != len(indices):
                raise ValueError(f"a: expected {len(indices)} factors, got {len(factors)}")
        else:
            indices, factors = [whole("i", i)], self._read("a", a, 2)[None]
        with self._lock:
            length = self._length()
            for number in indices:
                if not 0 <= number < length:
                    raise IndexError(f"i: expected 0 <= i < {length}, got {number}")
            if self._small is not None:
                return self._give(self._small.update, factors, indices)
            chosen: Dict[int, int] = {number: k for k, number in enumerate(indices)}
            factors_of_row = self._levels[0] if chosen else None
            for number, k in chosen.items():
                assert factors_of_row is not None
                factors_of_row.at(self._first + number)[...] = factors[k]
                self._forget(self._first + number)

    def append(self, a: Any) -> None:
        self._add(self._read("a", a, 2)[None])

    def extend(self, stack: Any) -> None:
        if isinstance(stack, (list, tuple)):
            for factor in stack:
                self._read("stack", factor, 2)
            if not stack:
                return
            stack = self._lib.stack([self._plain("stack", factor) for factor in stack], -3)
        self._add(self._read("stack", stack, 3))

    def _add(self, factors: Any) -> None:
        with self._lock:
            if self._small is not None:
                return self._give(self._small.append, factors, len(factors))
            self._reserve(self._end - self._first + len(factors))
            nodes = range(self._end, self._end + len(factors))
            for piece in self._pieces(nodes, self._levels[0].slots) if len(nodes) else []:
                at, begin = piece.start % self._levels[0].slots, piece.start - nodes.start
                self._levels[0].values[at : at + len(piece)] = factors[begin : begin + len(piece)]
            self._end = nodes.stop

    def pop_front(self, count: int = 1) -> None:
        number = whole("count", count)
        with self._lock:
            length = self._length()
            if not 0 <= number <= length:
                raise IndexError(f"count: expected 0 to {length}, got {number}")
            if self._small is not None:
                self._small.pop_front(number)
            else:
                self._first += number

    def __repr__(self) -> str:
        return f"mmchain.Ranges(shape={self.shape}, dtype={self._dtype}, on {self._like.device})"
