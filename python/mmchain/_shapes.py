"""Shapes of a chain: what fits together, and NumPy's words for what does not."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from numpy.linalg import LinAlgError

from . import _mmchain

Shape = Tuple[int, ...]
Options = Tuple[str, Optional[str], str]  # objective, device, precision


class Chain(NamedTuple):
    """Shapes that fit together."""

    dims: List[int]
    stack: Shape
    row: bool  # whether the result has rows: the first array is no vector
    column: bool

    @property
    def result(self) -> Shape:
        ends = (self.dims[0],) * self.row + (self.dims[-1],) * self.column
        return self.stack + ends

    def matrices(self, arrays: Sequence[Any]) -> List[Any]:
        """The arrays, with vectors at the ends made matrices."""
        arrays = list(arrays)
        if not self.row:
            arrays[0] = arrays[0][None, :]
        if not self.column:
            arrays[-1] = arrays[-1][:, None]
        return arrays

    def squeeze(self, product: Any) -> Any:
        """The product of matrices, without the dimensions that vectors at the ends lack."""
        if not self.row and not self.column:
            return product[..., 0, 0] if self.stack else product[0, 0]
        if not self.row:
            return product[..., 0, :]
        return product if self.column else product[..., 0]


def _text(shape: Shape) -> str:
    return str(tuple(int(size) for size in shape)).replace(" ", "")


def _broadcast(stacks: Sequence[Shape], shapes: Sequence[Shape]) -> Shape:
    ndim = max(map(len, stacks))
    result = [1] * ndim
    for stack in stacks:
        for d, size in enumerate(stack, ndim - len(stack)):
            if size != 1 and result[d] not in (1, size):
                raise ValueError(
                    "operands could not be broadcast together with shapes "
                    + " ".join(map(_text, shapes))
                )
            if size != 1:
                result[d] = size
    return tuple(result)


def check(shapes: Sequence[Shape], least: int = 2) -> Chain:
    """The chain of these shapes; raises what numpy.linalg.multi_dot raises when there is none."""
    shapes = [tuple(shape) for shape in shapes]
    last = len(shapes) - 1
    if last + 1 < least:
        raise ValueError("Expecting at least two arrays.")
    for i, shape in enumerate(shapes):
        if len(shape) == 0 or (len(shape) == 1 and (last == 0 or 0 < i < last)):
            raise LinAlgError(
                f"{len(shape)}-dimensional array given. Array must be two-dimensional"
            )
    row, column = len(shapes[0]) > 1, len(shapes[-1]) > 1
    cores = [shape[-2:] for shape in shapes]
    if not row:
        cores[0] = (1,) + cores[0]
    if not column:
        cores[-1] = cores[-1] + (1,)
    for i in range(last):
        if cores[i][1] != cores[i + 1][0]:
            left, right = shapes[i], shapes[i + 1]
            raise ValueError(
                f"shapes {_text(left)} and {_text(right)} not aligned: {left[-1]} "
                f"(dim {len(left) - 1}) != {cores[i + 1][0]} (dim {max(len(right) - 2, 0)})"
            )
    stack = _broadcast([shape[:-2] for shape in shapes], shapes)
    dims = [int(core[0]) for core in cores] + [int(cores[-1][1])]
    return Chain(dims, stack, row, column)


def once(convert: Callable[[Any], Any], arrays: Sequence[Any]) -> List[Any]:
    """Every array converted, the same one once, so that it is the same one still."""
    made: Dict[int, Any] = {}
    for array in arrays:
        if id(array) not in made:
            made[id(array)] = convert(array)
    return [made[id(array)] for array in arrays]


def text(chain: Chain) -> str:
    """ "4x9x4@100": the dims and the batch, as in a chain's text."""
    batch = prod(chain.stack)
    return "x".join(map(str, chain.dims)) + (f"@{batch}" if batch != 1 else "")


def repeats(arrays: Sequence[Any]) -> str:
    """ "=1,2,1,2" where arrays repeat, as in a chain's text, else nothing."""
    first: Dict[int, int] = {}
    same = [first.setdefault(id(array), i) for i, array in enumerate(arrays, 1)]
    return "=" + ",".join(map(str, same)) if len(first) < len(arrays) else ""


def does_not_fit(plan: Any, chain: Chain) -> Exception:
    """For arrays that a plan, or the device, cannot take."""
    shape = text(chain)
    if plan is None:
        return ValueError(f"arrays: {shape} cannot be multiplied where they are")
    return ValueError(f"arrays: expected the shapes of {plan.chain}, got {shape}")


def products(dims: Sequence[int]) -> List[Tuple[int, int]]:
    """The cheapest order as pairs: a factor, or n plus an earlier product."""
    made = {(i, i): i for i in range(len(dims) - 1)}
    pairs = []
    for first, split, last in _mmchain.order(dims):
        pairs.append((made[first, split - 1], made[split, last]))
        made[first, last] = len(dims) - 2 + len(pairs)
    return pairs


def multiply(pairs: Sequence[Tuple[int, int]], arrays: Sequence[Any], product: Any) -> Any:
    """Multiplies arrays by product(left, right), one pair after the other."""
    values = list(arrays)
    last = {operand: step for step, pair in enumerate(pairs) for operand in pair}
    for step, (left, right) in enumerate(pairs):
        values.append(product(values[left], values[right]))
        # An intermediate may be large, and goes once nothing reads it any more.
        for operand in (left, right):
            if operand >= len(arrays) and last[operand] == step:
                values[operand] = None
    return values[-1]
