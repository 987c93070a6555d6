"""Shapes of a chain: what fits together, and NumPy's words for what does not."""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from math import prod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
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


class StackError(LinAlgError, ValueError):
    """Stacks that do not fit: multi_dot raises the one of them, matmul the other."""


def _text(shape: Shape) -> str:
    return str(tuple(int(size) for size in shape)).replace(" ", "")


def _broadcast(stacks: Sequence[Shape], shapes: Sequence[Shape]) -> Shape:
    ndim = max(map(len, stacks))
    result = [1] * ndim
    for stack in stacks:
        for d, size in enumerate(stack, ndim - len(stack)):
            if size != 1 and result[d] not in (1, size):
                raise StackError(
                    "operands could not be broadcast together with shapes "
                    + " ".join(map(_text, shapes))
                )
            if size != 1:
                result[d] = size
    return tuple(result)


def _misfit(shapes: Sequence[Shape], i: int, rows: int) -> Exception:
    """For neighbours that do not fit."""
    left, right = shapes[i], shapes[i + 1]
    kind = StackError if any(len(shape) > 2 for shape in shapes) else ValueError
    return kind(
        f"shapes {_text(left)} and {_text(right)} not aligned: {left[-1]} "
        f"(dim {len(left) - 1}) != {rows} (dim {max(len(right) - 2, 0)})"
    )


def check(shapes: Sequence[Shape], least: int = 2) -> Chain:
    """The chain of these shapes; raises what numpy.linalg.multi_dot raises when there is none."""
    shapes = [tuple(shape) for shape in shapes]
    last = len(shapes) - 1
    if last + 1 < least:
        raise ValueError("Expecting at least two arrays.")
    ndims = list(map(len, shapes))
    if min(ndims, default=0) < 2:
        for i, ndim in enumerate(ndims):
            if ndim == 0 or (ndim == 1 and (last == 0 or 0 < i < last)):
                raise LinAlgError(f"{ndim}-dimensional array given. Array must be two-dimensional")
    row, column = ndims[0] > 1, ndims[-1] > 1
    rows = [shape[-2] if len(shape) > 1 else shape[0] for shape in shapes]
    dims = [*rows, shapes[-1][-1] if column else 1]
    if not row:
        dims[0] = 1
    if [shape[-1] for shape in shapes[:-1]] != rows[1:]:
        i = next(i for i in range(last) if shapes[i][-1] != rows[i + 1])
        raise _misfit(shapes, i, rows[i + 1])
    stack = _broadcast([shape[:-2] for shape in shapes], shapes) if max(ndims) > 2 else ()
    return Chain(list(map(int, dims)), stack, row, column)


def once(convert: Callable[[Any], Any], arrays: Sequence[Any], place: Callable[[Any], Any] = id) -> List[Any]:
    """Every array converted, the same one once, so that it is the same one still: those of one place, which are the
    same object where nothing else is said."""
    made: Dict[Any, Any] = {}
    places = list(map(place, arrays))
    for lies, array in zip(places, arrays):
        if lies not in made:
            made[lies] = convert(array)
    return [made[lies] for lies in places]


def place(array: np.ndarray) -> Tuple[Any, ...]:
    """Where NumPy's array lies, and as what: views of one matrix are that matrix."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def text(chain: Chain) -> str:
    """ "4x9x4@100": the dims and the batch, as in a chain's text."""
    batch = prod(chain.stack)
    return "x".join(map(str, chain.dims)) + (f"@{batch}" if batch != 1 else "")


def repeats(chain: Chain, arrays: Sequence[Any]) -> str:
    """ "=1,2,1,2" where arrays repeat, as in a chain's text, else nothing. A vector at both ends is a row and a column."""
    first: Dict[Any, int] = {}
    column = 0 if chain.column else len(arrays)
    same = [first.setdefault((id(array), i == column), i) for i, array in enumerate(arrays, 1)]
    return "=" + ",".join(map(str, same)) if len(first) < len(arrays) else ""


def within(tolerance: float, precision: str) -> str:
    """The precision that the library calls a tolerance by."""
    if precision not in ("native", "faithful"):
        raise ValueError(f"tolerance: expected no precision but faithful with it, got {precision}")
    try:
        value = float(tolerance)
    except (TypeError, ValueError):
        raise TypeError(f"tolerance: expected a number, got {type(tolerance).__name__}") from None
    if not 0 < value < 1:
        raise ValueError(f"tolerance: expected a number above 0 and below 1, got {tolerance!r}")
    return repr(value)


@lru_cache(maxsize=64)
def _check_options(objective: str, device: Optional[str], precision: str) -> None:
    if isinstance(device, str) and ("," in device or device == "cuda:all"):
        device = "cuda"
    for name, value in (("objective", objective), ("precision", precision)):
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected a str, got {type(value).__name__}")
    if precision[:1].isdigit():  # a tolerance, which within() has looked at
        precision = "native"
    _mmchain.Plan("f32:1x1x1", objective, device, precision, "auto", None, None, False, None)


def check_options(objective: str, device: Optional[str], precision: str) -> None:
    """Raises what a plan would raise, where options are none that there are or the device is not here, for
    products that another library computes."""
    try:
        hash((objective, device, precision))
    except TypeError:
        raise TypeError("objective, device, precision: expected a str each") from None
    _check_options(objective, device, precision)


def is_reproducible(precision: str) -> bool:
    """Whether the bits of a result are to depend on the arrays and the order alone."""
    return precision in ("reproducible", "reproducible+faithful")


def expect_own(precision: str) -> None:
    """Where a product is left to another library: raises a TypeError if its bits must be ours."""
    if is_reproducible(precision):
        raise TypeError(
            "precision: expected plain arrays of integers, float16, bfloat16, float32, float64, "
            "complex64 or complex128 with reproducible, as others are multiplied by their own library"
        )


def whole(name: str, number: Any) -> int:
    """A number as Python's. A truth, of which masks are made, is none, whichever library it is of."""
    plain = number.tolist() if hasattr(number, "tolist") else number
    if isinstance(plain, bool) or not hasattr(plain, "__index__"):
        raise TypeError(f"{name}: expected a whole number, got {type(number).__name__}")
    return operator.index(plain)


def bytes_of(limit: Optional[int]) -> Optional[int]:
    """A limit of memory, or None for none."""
    count = None if limit is None else whole("memory_limit", limit)
    if count is not None and not 0 <= count < 2**64:
        raise ValueError(f"memory_limit: expected 0 to 2^64 - 1 bytes, got {limit}")
    return count


def rule_of(checked: bool, mod: Optional[int]) -> int:
    """The rule of execute() by which integers are multiplied."""
    if mod is None:
        return -1
    if checked:
        raise ValueError("checked: expected no mod with it, with which nothing overflows")
    rule = whole("mod", mod)
    if not 0 < rule < 2**63:
        raise ValueError(f"mod: expected 1 to 2**63 - 1, got {mod}")
    return rule


def no_integers(rule: int, found: str) -> TypeError:
    """For an array that cannot be multiplied by the rule."""
    kind = "mod" if rule > 0 else "checked"
    return TypeError(f"arrays: expected arrays of integers with {kind}, got {found}")


def integer_dtype(names: Sequence[str], rule: int) -> str:
    """The dtype, by NumPy's names, of products of arrays of these by the rule: with `mod` one that the
    residues of every dtype fit into."""
    integers = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    if rule < 0:
        integers.add("bool")
    for name in names:
        if name not in integers:
            raise no_integers(rule, name)
    is_widest = [name == "uint64" for name in names]
    signed = any(name.startswith("int") for name in names)
    if any(is_widest) and not all(is_widest) and (signed or rule > 0):
        raise TypeError("arrays: expected uint64 everywhere or nowhere, as no integers hold both")
    if rule < 0:
        return np.result_type(*names).name
    return "uint64" if all(is_widest) else "int64"


def does_not_fit(plan: Any, chain: Chain) -> Exception:
    """For arrays that a plan, or the device, cannot take."""
    shape = text(chain)
    if plan is None:
        return ValueError(f"arrays: {shape} cannot be multiplied where they are")
    return ValueError(f"arrays: expected the shapes of {plan.chain}, got {shape}")


def products(dims: Sequence[int]) -> List[Tuple[int, int]]:
    """The cheapest order as pairs: a factor, or n plus an earlier product."""
    return pairs_of(len(dims) - 1, _mmchain.order(dims))


def products_of(dims: Sequence[int], arrays: Sequence[Any]) -> List[Tuple[int, int]]:
    """The same for these arrays: where one stands for all, its power takes at most 2 log2 n products."""
    if len(arrays) < 3 or any(array is not arrays[0] for array in arrays):
        return products(dims)
    pairs: List[Tuple[int, int]] = []
    power = 0
    for bit in format(len(arrays), "b")[1:]:
        for factor in [power] if bit == "0" else [power, 0]:
            pairs.append((power, factor))
            power = len(arrays) - 1 + len(pairs)
    return pairs


def dtype_of(plan: Any) -> str:
    """The name of a plan's dtype, whatever rule or semiring its chain has: "i64" of i64%97:3x3x3."""
    return re.split("[:%!~]", plan.chain, maxsplit=1)[0]


def planned_products(plan: Any, chain: Chain, arrays: Sequence[Any]) -> List[Tuple[int, int]]:
    """The products of a plan, or of the cheapest order where there is none, as such pairs, for arrays that their own
    library multiplies. Raises where the plan is for others, or for more than sums of products."""
    if plan is None:
        return products(chain.dims)
    if re.search("[!%~]", plan.chain.partition(":")[0]):
        raise TypeError(f"arrays: expected those that mmchain multiplies with a plan for {plan.chain}")
    factors = plan._factors
    if not all(is_plain for *_, is_plain in factors):
        raise TypeError(f"arrays: expected factors with structure, as in {plan.chain}")
    count, batch = prod(chain.stack), max(factor[0] for factor in factors)
    dims = [factors[0][1], *(columns for _, _, columns, _, _ in factors)]
    is_batch = dims == chain.dims and batch in (1, count)
    first_alone = all(prod(array.shape[:-2]) == 1 for array in arrays[1:])
    if not is_batch and not (first_alone and batch == 1 and dims == [chain.dims[0] * count, *chain.dims[1:]]):
        raise does_not_fit(plan, chain)
    if all(arrays[i] is arrays[same] for i, (*_, same, _) in enumerate(factors)):
        return plan.products()
    # Not even under jax.jit is an array that is given twice one array, so that nothing is shared.
    return _mmchain.Plan(("f64", dims), "flops", None, "native", "auto", None, None, False, plan.order).products()


def pairs_of(n: int, triples: Sequence[Tuple[int, int, int]]) -> List[Tuple[int, int]]:
    """Such pairs of n factors from triples: of first to split - 1, and of split to last."""
    made = {(i, i): i for i in range(n)}
    pairs = []
    for first, split, last in triples:
        pairs.append((made[first, split - 1], made[split, last]))
        made[first, last] = n - 1 + len(pairs)
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
