"""Factors with structure: what they are, inverses, and groups whose product is inverted."""

from __future__ import annotations

import re
import sys
from copy import copy
from functools import lru_cache
from importlib import import_module
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.linalg import LinAlgError

from . import _mmchain
from ._host import expect_memory, unmasked
from ._plan import Plan, dtype_name
from ._shapes import whole

_direct = "fdFD"
# Options of an execution where ops of the plan are said of the matrices as they lie.
as_stored = ("stored", None, "")


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def _is_jax(array: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def _is_sparse(array: Any) -> bool:
    if type(array).__module__.startswith("scipy.sparse"):
        return True
    return _is_torch(array) and "sparse" in str(array.layout)


def _is_on_device(array: Any) -> bool:
    return _is_cupy(array) or (_is_torch(array) and array.is_cuda)


def _is_complex(array: Any) -> bool:
    return bool(array.is_complex()) if _is_torch(array) else array.dtype.kind == "c"


@lru_cache(maxsize=None)
def _of_torch() -> Any:
    return import_module("._structure_torch", __package__)


@lru_cache(maxsize=None)
def _of_device() -> Any:
    return import_module("._structure_device", __package__)


class Factor:
    """A matrix with what is known of it: made by `lower`, `inv` and the like, for `multi_dot` and `plan`.

    `.T` and `.H` are the transposed and the conjugated transposed factor. The array is not copied.

    >>> import numpy as np, mmchain
    >>> mmchain.lower(np.eye(3)).T
    mmchain.Factor(lower, 3x3T)
    """

    __slots__ = ("stored", "words", "op", "inverse", "is_line", "_made")
    __array_ufunc__ = None  # so that NumPy makes no array of it

    def __init__(self, array: Any, words: Tuple[str, ...] = (), op: str = "N", inverse: bool = False):
        if type(array).__module__.startswith("scipy.sparse"):
            raise TypeError("arrays: expected nothing said of a sparse factor: give a dense one, toarray()")
        keeps = _is_torch(array) or _is_cupy(array) or _is_jax(array)
        self.stored = array if keeps else unmasked(array)
        if self.stored.ndim != 2:
            raise LinAlgError(
                f"{self.stored.ndim}-dimensional array given. Array must be two-dimensional"
            )
        if words and self.stored.shape[0] != self.stored.shape[1] and words != ("zero",):
            raise ValueError(f"{words[0]}: expected a square matrix, got {self.stored.shape}")
        self.words = words
        self.op = op
        self.inverse = inverse
        self.is_line = False  # stored is one row, of a diagonal or of an index
        self._made: List[Any] = []  # the matrix, once it is asked for; with its transposed factor

    @property
    def array(self) -> Any:
        """The matrix, which is made where a line stands for it."""
        if not self.is_line:
            return self.stored
        if not self._made:
            line, library = self.stored[0], sys.modules["torch"] if _is_torch(self.stored) else np
            is_index = self.words[0] == "permutation"
            self._made.append(library.asarray(_matrix_of(np.asarray(line))) if is_index else library.diag(line))
        return self._made[0]

    def like(self, words: Tuple[str, ...], op: str, inverse: bool, stored: Any = None) -> Factor:
        """A factor that is stored as this one, or in another array of that form."""
        made = copy(self)
        made.words, made.op, made.inverse = words, op, inverse
        if stored is not None:
            made.stored, made._made = stored, []
        return made

    @property
    def shape(self) -> Tuple[int, int]:
        rows, columns = tuple(self.stored.shape)
        if self.is_line:
            return (columns, columns)
        return (rows, columns) if self.op == "N" else (columns, rows)

    def _turned(self, op: str) -> Factor:
        if self.op == "N":
            return self.like(self.words, op, self.inverse)
        if self.op == op or not _is_complex(self.stored):
            return self.like(self.words, "N", self.inverse)
        return self.like(self.words, "N", self.inverse, self.stored.conj())

    @property
    def T(self) -> Factor:
        return self._turned("T")

    @property
    def H(self) -> Factor:
        return self._turned("H")

    def __repr__(self) -> str:
        words = ".".join((*self.words, *(("inv",) if self.inverse else ()))) or "general"
        return f"mmchain.Factor({words}, {self.shape[0]}x{self.shape[1]}{self.op.strip('N')})"


class Group:
    """Factors in a row whose product is inverted: made by `inv` of a list.

    >>> import numpy as np, mmchain
    >>> len(mmchain.inv([np.eye(3), np.eye(3)]).factors)
    2
    """

    __slots__ = ("factors",)

    def __init__(self, factors: Sequence[Any]):
        self.factors = list(factors)
        if not self.factors:
            raise ValueError("inv: expected factors, got an empty list")

    def __repr__(self) -> str:
        return f"mmchain.inv({self.factors!r})"


def _claim(word: str, array: Any, *more: str) -> Factor:
    if not isinstance(array, Factor):
        return Factor(array, (word, *more))
    words = (*array.words, word, *more)
    if array.is_line and array.words[0] == "permutation":  # the line of what is diagonal, too, is no index
        return Factor(array.array, words, array.op, array.inverse)
    return array.like(words, array.op, array.inverse)


def line_factor(line: Any, words: Tuple[str, ...], op: str = "N", inverse: bool = False) -> Factor:
    """The matrix of a diagonal or of an index, which is one row."""
    made = Factor(line)
    made.words, made.op, made.inverse, made.is_line = words, op, inverse, True
    return made


def lower(array: Any, unit: bool = False) -> Factor:
    """A lower triangular matrix, with its zeros; with ones on its diagonal where unit.

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.inv(mmchain.lower(np.array([[2.0, 0], [1, 4]]))), np.array([2.0, 9])])
    array([1., 2.])
    """
    return _claim("lower", array, *(("unit",) if unit else ()))


def upper(array: Any, unit: bool = False) -> Factor:
    """An upper triangular matrix, with its zeros; with ones on its diagonal where unit.

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.upper(np.array([[2.0, 1], [0, 4]])), np.array([1.0, 2])])
    array([4., 8.])
    """
    return _claim("upper", array, *(("unit",) if unit else ()))


def diagonal(array: Any) -> Factor:
    """A diagonal matrix, as a square or by its diagonal.

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.inv(mmchain.diagonal([2.0, 4.0])), np.array([2.0, 8.0])])
    array([1., 2.])
    """
    if _is_torch(array):
        if array.dim() != 1:
            return _claim("diagonal", array)
        if len(array) >= _LEAST_LINE and array.device.type == "cpu" and not array.requires_grad:
            return line_factor(array.clone()[None], ("diagonal",))
        return _claim("diagonal", sys.modules["torch"].diag(array))
    if _is_cupy(array):
        return _claim("diagonal", sys.modules["cupy"].diag(array) if array.ndim == 1 else array)
    if isinstance(array, Factor):
        return _claim("diagonal", array)
    if _is_jax(array):
        return _claim("diagonal", import_module("jax.numpy").diag(array) if array.ndim == 1 else array)
    plain = unmasked(array)
    if plain.ndim == 1 and len(plain) >= _LEAST_LINE:
        return line_factor(plain[None].copy(), ("diagonal",))
    return _claim("diagonal", np.diag(plain) if plain.ndim == 1 else plain)


def symmetric(array: Any) -> Factor:
    """A symmetric matrix, with both halves.

    >>> import numpy as np, mmchain
    >>> mmchain.symmetric(np.array([[0.0, 1], [1, 0]]))
    mmchain.Factor(symmetric, 2x2)
    """
    return _claim("symmetric", array)


def hermitian(array: Any) -> Factor:
    """A Hermitian matrix, with both halves.

    >>> import numpy as np, mmchain
    >>> mmchain.hermitian(np.array([[1, 1j], [-1j, 1]]))
    mmchain.Factor(hermitian, 2x2)
    """
    return _claim("hermitian", array)


def spd(array: Any) -> Factor:
    """A symmetric, or Hermitian, positive definite matrix, with both halves.

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.inv(mmchain.spd(np.array([[4.0, 2], [2, 5]]))), np.array([8.0, 12])])
    array([1., 2.])
    """
    return _claim("spd", array)


def banded(array: Any, below: int, above: int) -> Factor:
    """A matrix, with its zeros, of which so many diagonals below and above the main one are not zero.

    >>> import numpy as np, mmchain
    >>> a = np.array([[2.0, 0, 0], [1, 2, 0], [0, 1, 2]])
    >>> mmchain.multi_dot([mmchain.inv(mmchain.banded(a, 1, 0)), np.array([2.0, 5, 8])])
    array([1., 2., 3.])
    """
    below, above = whole("below", below), whole("above", above)
    if below < 0 or above < 0:
        raise ValueError(f"banded: expected widths from 0, got {below} and {above}")
    return _claim(f"banded({below},{above})", array)


def tridiagonal(array: Any) -> Factor:
    """A tridiagonal matrix, with its zeros.

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.tridiagonal(np.array([[2.0, 1, 0], [1, 2, 1], [0, 1, 2]])), np.ones(3)])
    array([3., 4., 3.])
    """
    return _claim("tridiagonal", array)


def orthogonal(array: Any) -> Factor:
    """An orthogonal matrix, or a unitary one: its inverse is its transposed, or conjugated transposed, matrix.

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.inv(mmchain.orthogonal(np.array([[0.0, -1], [1, 0]]))), np.array([2.0, 3])])
    array([ 3., -2.])
    """
    return _claim("orthogonal", array)


def permutation(array: Any) -> Factor:
    """A permutation matrix, or that of an index: P with P A = A[index].

    >>> import numpy as np, mmchain
    >>> mmchain.multi_dot([mmchain.permutation([2, 0, 1]), np.array([1.0, 2, 3])])
    array([3., 1., 2.])
    """
    if isinstance(array, Factor):
        return _claim("permutation", array)
    if _is_torch(array):
        if array.dim() != 1:
            return _claim("permutation", array)
        made = _of_index(array.detach().cpu().numpy())
        torch = sys.modules["torch"]
        if made.is_line and array.device.type == "cpu":
            return made.like(made.words, "N", False, torch.from_numpy(made.stored))
        return _claim("permutation", torch.from_numpy(made.array).to(array.device))
    if _is_cupy(array):
        matrix = sys.modules["cupy"].asarray(_of_index(array.get()).array) if array.ndim == 1 else array
        return _claim("permutation", matrix)
    plain = array if _is_jax(array) else unmasked(array)
    if plain.ndim != 1:
        return _claim("permutation", plain)
    if _is_jax(array):
        return _claim("permutation", import_module("jax.numpy").asarray(_of_index(np.asarray(plain)).array))
    return _of_index(plain)


# From this side on a line takes less time than its matrix, which may be multiplied densely below.
_LEAST_LINE = 64
# The numbers up to this one are exact in the narrowest dtype that others are multiplied in.
_MOST_EXACT = 1 << 24


def _of_index(order: Any) -> Factor:
    """The permutation of an index, of the narrowest dtype that others are multiplied in."""
    count = len(order)
    if not np.array_equal(np.sort(order), np.arange(count)):
        raise ValueError(f"permutation: expected the numbers 0 to {count - 1} in some order")
    if not _LEAST_LINE <= count <= _MOST_EXACT:
        return _claim("permutation", _matrix_of(order))
    return line_factor(order[None].astype(np.float32), ("permutation",))


def _matrix_of(order: Any) -> Any:
    """The matrix of an index."""
    count = len(order)
    matrix = np.zeros((count, count), np.float32)
    matrix[np.arange(count), order.real.astype(np.intp)] = 1
    return matrix


class LowRank:
    """A matrix that is the product of two factors, which take their places in a chain: made by `low_rank`.

    >>> import numpy as np, mmchain
    >>> mmchain.low_rank(np.ones((4, 1)), np.ones((1, 3))).T.shape
    (3, 4)
    """

    __slots__ = ("left", "right")
    __array_ufunc__ = None  # so that NumPy makes no array of it

    def __init__(self, left: Factor, right: Factor):
        if left.shape[1] != right.shape[0]:
            raise ValueError(f"low_rank: expected factors that meet, got {left.shape} and {right.shape}")
        self.left = left
        self.right = right

    @property
    def shape(self) -> Tuple[int, int]:
        return (self.left.shape[0], self.right.shape[1])

    @property
    def T(self) -> LowRank:
        return LowRank(self.right.T, self.left.T)

    @property
    def H(self) -> LowRank:
        return LowRank(self.right.H, self.left.H)

    def __repr__(self) -> str:
        return f"mmchain.LowRank({self.shape[0]}x{self.shape[1]}, rank {self.left.shape[1]})"


def low_rank(left: Any, right: Any) -> LowRank:
    """The matrix left @ right, of low rank, which is not formed unless that is cheapest.

    >>> import numpy as np, mmchain
    >>> u, v, x = np.ones((500, 2)), np.ones((2, 500)), np.ones(500)
    >>> mmchain.multi_dot([mmchain.low_rank(u, v), x])[:2]
    array([1000., 1000.])
    """
    return LowRank(*(x if isinstance(x, Factor) else Factor(x) for x in (left, right)))


def splice(items: Any) -> Any:
    """The factors in which those of low rank are two."""
    if not isinstance(items, (list, tuple)) or not any(isinstance(x, (LowRank, Group)) for x in items):
        return items
    spliced: List[Any] = []
    for item in items:
        if isinstance(item, LowRank):
            spliced += [item.left, item.right]
        elif isinstance(item, Group):
            spliced.append(Group(splice(item.factors)))
        else:
            spliced.append(item)
    return spliced


def inv(matrix: Any) -> Union[Factor, Group]:
    """The inverse of a matrix, which `multi_dot` solves with and does not form unless it stands alone;
    of a list or tuple, the inverse of their product. That of a sparse matrix is solved with as one of a dense matrix.

    >>> import numpy as np, mmchain
    >>> x, y = np.random.default_rng(1).random((50, 3)), np.arange(50.0)
    >>> b = mmchain.multi_dot([mmchain.inv([x.T, x]), x.T, y])
    >>> np.allclose(b, np.linalg.lstsq(x, y, rcond=None)[0])
    True
    """
    if isinstance(matrix, (list, tuple)) and not (len(matrix) == 1 and isinstance(matrix[0], Group)):
        return Group(matrix)
    if isinstance(matrix, LowRank) or _is_sparse(matrix):
        return Group([matrix])
    if isinstance(matrix, (Group, list, tuple)):
        raise TypeError("inv: expected a matrix or a list, got the inverse of a product alone")
    if isinstance(matrix, Factor):
        return matrix.like(matrix.words, matrix.op, not matrix.inverse)
    return Factor(matrix, (), "N", True)


# ---- a chain of them -------------------------------------------------------------------------


class _Item(NamedTuple):
    """One factor, and how many groups begin before and end behind it."""

    factor: Any  # a Factor, or an array of one dimension
    opens: int
    closes: int


def is_structured(items: Any) -> bool:
    return isinstance(items, (list, tuple)) and any(isinstance(x, (Factor, Group, LowRank)) for x in items)


def _flat(items: Sequence[Any]) -> Iterator[_Item]:
    for item in items:
        if isinstance(item, Group):
            inner = list(_flat(item.factors))
            if len(inner) == 1:
                yield _Item(inv(inner[0].factor), 0, 0)
                continue
            inner[0] = inner[0]._replace(opens=inner[0].opens + 1)
            inner[-1] = inner[-1]._replace(closes=inner[-1].closes + 1)
            yield from inner
        elif isinstance(item, Factor):
            yield _Item(item, 0, 0)
        else:
            array = item if _is_on_device(item) else unmasked(item)
            yield _Item(array if array.ndim == 1 else Factor(array), 0, 0)


def _key(array: Any) -> Tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides


def _same_of(text: str, count: int) -> List[int]:
    """The numbers of the first factors that a chain's text says others to be the same as."""
    dims, _, same = text.partition(":")[2].partition("=")
    sizes = re.split("[:@]", dims, maxsplit=1)[0].split("x")[1:]
    lengths = [int(size.partition("^")[2] or 1) for size in sizes]  # of runs of one factor
    begins = [1 + sum(lengths[:i]) for i in range(len(lengths))]
    firsts = [int(number) for number in same.split(",")] if same else begins
    numbers = [first for first, length in zip(firsts, lengths) for _ in range(length)]
    return numbers if len(numbers) == count else list(range(1, count + 1))


class _Chain:
    """The text of a chain, and the arrays that a plan for it executes: what each op makes of them."""

    def __init__(self, items: Sequence[Any], planned: Optional[str] = None):
        flat = [*_flat(items)]
        self._planned = None if planned is None else _same_of(planned, len(flat))
        self.factors = [x.factor for x in flat]
        arrays = [f.stored if isinstance(f, Factor) else f for f in self.factors]
        self.dtype = self._find_dtype(arrays)
        if self.dtype.char not in _direct:
            if self.dtype.kind not in "biu":
                raise TypeError(
                    "arrays: expected float32, float64, complex64 or complex128 where factors have "
                    f"structure, got {self.dtype}"
                )
            self.dtype = np.dtype("d")
        self._stored: Dict[Tuple[Any, ...], int] = {}
        self._made: Dict[int, Any] = {}
        self.arrays: List[Any] = []
        self._words: List[str] = []
        self._same: List[int] = []
        for number, item in enumerate(flat):
            self._add(number, item, arrays[number], number in (0, len(flat) - 1))
        self.dims = self._find_dims()

    def _find_dtype(self, arrays: Sequence[Any]) -> Any:
        return np.result_type(*arrays)

    def _key(self, array: Any) -> Tuple[Any, ...]:
        return _key(array)

    def _place(self, array: Any, number: int) -> Tuple[Any, ...]:
        """Where a factor lies, and as what: the real part of an array begins where it does. Arrays of which a plan
        does not say that they are the same are not."""
        return (*self._key(array), array.dtype, None if self._planned is None else self._planned[number])

    def _readable(self, array: Any) -> Any:
        array = array.astype(np.dtype(self.dtype.char), copy=False)
        if type(array) is not np.ndarray:
            raise TypeError(f"arrays: expected NumPy arrays where factors have structure, got {type(array)}")
        return array if _mmchain.readable(array, False) else np.array(array, order="C", copy=True)

    def _add(self, number: int, item: _Item, array: Any, at_end: bool) -> None:
        words: List[str] = []
        op = "N"
        if array.ndim == 1:
            if not at_end:
                raise LinAlgError("1-dimensional array given. Array must be two-dimensional")
            view, first = self._readable(array), number
        else:
            factor = item.factor
            words, op = list(factor.words), factor.op
            turned, lies = self._place(array.T, number), self._place(array, number)
            if turned in self._stored and lies not in self._stored and op in "NT" and not words:
                array, op, lies = array.T, "T" if op == "N" else "N", turned
            first = self._stored.setdefault(lies, number)
            if first not in self._made:
                self._made[first] = self._readable(array)
            view = self._made[first] if op == "N" else self._made[first].T
            if factor.inverse:
                op += ".inv"
        self.arrays.append(view)
        self._same.append(first + 1)
        self._words.append("(" * item.opens + ".".join([*words, op]) + ").inv" * item.closes)

    def _find_dims(self) -> List[int]:
        shapes = [tuple(factor.shape) for factor in self.factors]
        if len(shapes[0]) == 1:
            shapes[0] = (1, *shapes[0])
        if len(shapes[-1]) == 1:
            shapes[-1] = (*shapes[-1], 1)
        for left, right in zip(shapes, shapes[1:]):
            if left[1] != right[0]:
                raise ValueError(
                    f"shapes {left} and {right} not aligned: {left[1]} (dim 1) != {right[0]} (dim 0)"
                )
        return [shapes[0][0], *(shape[1] for shape in shapes)]

    def widen(self, plan: Plan) -> Tuple[int, ...]:
        """Makes the matrices for which a plan takes no lines, and returns their numbers."""
        wide = [i for i, factor in enumerate(self.factors) if _is_line(factor) and not plan._takes_line(i)]
        _widen(self.arrays, self.factors, wide, self.dtype)
        return tuple(wide)

    @property
    def repeats(self) -> bool:
        return len(set(self._same)) < len(self._same)

    @property
    def text(self) -> str:
        same = "=" + ",".join(map(str, self._same)) if self.repeats else ""
        return f"{dtype_name(self.dtype)}:{'x'.join(map(str, self.dims))}:{','.join(self._words)}{same}"


def _is_line(factor: Any) -> bool:
    return type(factor) is Factor and factor.is_line


def _widen(arrays: List[Any], factors: Sequence[Any], wide: Sequence[int], dtype: Any) -> None:
    """Puts matrices in place of lines; lines in the same memory are one matrix."""
    made: Dict[Any, Any] = {}
    for i in wide:
        key = _key(factors[i].stored)
        if key not in made:
            made[key] = factors[i].array.astype(dtype, copy=False)
        arrays[i] = made[key] if factors[i].op == "N" else made[key].T


def chain_text(items: Sequence[Any], dtype: Optional[str] = None) -> str:
    """The text of the chain, of a dtype that is given or that of the arrays."""
    items = splice(items)
    if any(map(_is_on_device, arrays_of(items))):
        text = str(_of_device().text(items))
    else:
        text = _Chain(_of_torch().numpy_items(items) if _has_torch(items) else _of_host(items, None)[0]).text
    return text if dtype is None else dtype + text[text.index(":") :]


def _of_host(items: Sequence[Any], out: Any) -> Tuple[Sequence[Any], Any]:
    """Factors of which JAX's are NumPy's, and what makes of NumPy's result one of the caller's kind."""
    if not any(map(_is_jax, arrays_of(items))):
        return items, lambda result: result
    numpy_items = [_numpy_item(item) for item in items]
    if out is not None:  # NumPy's: JAX's arrays cannot be written
        return numpy_items, lambda result: result
    return numpy_items, import_module("jax.numpy").asarray


def _numpy_item(item: Any) -> Any:
    if isinstance(item, Group):
        return Group([_numpy_item(factor) for factor in item.factors])
    array = item.stored if isinstance(item, Factor) else item
    expect_memory(array, "factors with structure")
    if isinstance(item, Factor):
        return item.like(item.words, item.op, item.inverse, np.asarray(array))
    return np.asarray(array) if _is_jax(array) else array


def arrays_of(items: Sequence[Any]) -> Iterator[Any]:
    """The arrays of factors and groups."""
    for item in items:
        if isinstance(item, Group):
            yield from arrays_of(item.factors)
        else:
            yield item.stored if isinstance(item, Factor) else item


def _has_torch(items: Sequence[Any]) -> bool:
    return any(map(_is_torch, arrays_of(items)))


@lru_cache(maxsize=256)
def _plan(text: str, objective: str, device: Optional[str], precision: str = "native") -> Plan:
    return Plan(text, objective, device, precision, "auto", None, None, False, None)


def _are_twins(left: Any, right: Any) -> bool:
    """Whether one array is the transposed one of the other."""
    if type(left) is not np.ndarray or type(right) is not np.ndarray or not left.ndim == right.ndim == 2:
        return False
    if left.dtype != right.dtype or left.dtype.char not in _direct:
        return False
    return np.may_share_memory(left, right) and _key(left) == _key(right.T)


def _has_twins(arrays: Sequence[Any]) -> bool:
    """Whether neighbours are twins in a chain of matrices alone. Beside a vector that is of no use: each meets the
    vector, or what became of it, and all of it is less than their product would be."""
    return any(map(_are_twins, arrays, arrays[1:])) and all(np.ndim(array) == 2 for array in arrays)


class _Known(NamedTuple):
    """The plan of a chain that was multiplied, and the dtype that its arrays are made of; None as they are."""

    plan: Plan
    dtype: Any
    wide: Tuple[int, ...]  # the factors of which the plan takes no lines


# By what the plan depends on, of chains whose arrays are executed as they lie, or transposed, or of another dtype.
_known: Dict[Tuple[Any, ...], _Known] = {}
_KNOWN = 256


def forget_plans() -> None:
    _plan.cache_clear()
    _known.clear()
    device = sys.modules.get(f"{__package__}._structure_device")
    if device is not None:
        device._known.clear()


def _lay_out(items: Any, views: List[Any], said: List[Any]) -> bool:
    """Appends the arrays as a plan executes them, and what is said of them; false where some are not NumPy's."""
    for item in items:
        kind = type(item)
        if kind is Factor:
            views.append(item.stored if item.op == "N" else item.stored.T)
            said += (item.words, item.op, item.inverse)
        elif kind is np.ndarray:
            views.append(item)
            said.append(None)
        elif kind is LowRank or kind is Group:
            inner = item.factors if kind is Group else (item.left, item.right)
            said.append(kind)
            if not _lay_out(inner, views, said):
                return False
            said.append(len(inner))
        else:
            return False
    return True


def _views_and_key(
    arrays: Any, objective: str, device: Optional[str]
) -> Tuple[List[Any], Optional[Tuple[Any, ...]]]:
    """The arrays as a plan executes them, and what it depends on, where they are NumPy's and read as they lie."""
    views: List[Any] = []
    said: List[Any] = [objective, device]
    places = _mmchain.places(views) if _lay_out(arrays, views, said) else None
    return views, None if places is None else (places, *said)


def _first_is_on_device(arrays: Any) -> bool:
    """Whether the first factor with structure, or that of a group, lies on a GPU."""
    for item in arrays:
        if type(item) is Group:
            return _first_is_on_device(item.factors) or _is_on_device(item.factors[0])
        if type(item) is Factor:
            return _is_on_device(item.stored)
    return False


def multiply_known(arrays: Any, out: Any, objective: str, device: Optional[str]) -> Any:
    """The product where a chain of the same factors, of other numbers, was multiplied before; else None."""
    views, key = _views_and_key(arrays, objective, device)
    if key is None:
        there = out is None and _first_is_on_device(arrays)
        return _of_device().multiply_known(arrays, objective, device) if there else None
    known = _known.get(key)
    if known is None:
        return None
    if known.wide:
        factors = [item.factor for item in _flat(splice(arrays))]
        _widen(views, factors, known.wide, known.dtype)
    if known.dtype is not None:
        views = [view.astype(known.dtype, copy=False) for view in views]
    return _executed(known.plan, views, out)


def _remember(
    arrays: Any, chain: _Chain, plan: Plan, wide: Tuple[int, ...], objective: str, device: Optional[str]
) -> None:
    views, key = _views_and_key(arrays, objective, device)
    converts = any(view.dtype != chain.dtype for view in views)
    if key is None or len(views) == 1 or (converts and chain.repeats):
        return
    if len(_known) >= _KNOWN:
        _known.clear()
    _known[key] = _Known(plan, chain.dtype if converts or wide else None, wide)


def multiply(
    arrays: Any, out: Any, objective: str, device: Optional[str], precision: str = "native"
) -> Any:
    """The product where factors have structure, or where one is the transposed array of its neighbour;
    else None."""
    if not isinstance(arrays, (list, tuple)):
        return None
    if not is_structured(arrays) and not (objective != "energy" and _has_twins(arrays)):
        return None
    given = arrays
    arrays = splice(arrays)
    if _has_torch(arrays):
        if out is not None:
            raise TypeError("out: expected none where PyTorch's factors have structure")
        return _of_torch().multiply(arrays, objective, device, precision)
    if any(map(_is_cupy, arrays_of(arrays))):
        return _of_device().multiply(arrays, out, objective, device, precision)
    arrays, finish = _of_host(arrays, out)
    chain = _Chain(arrays)
    plan = _plan(chain.text, objective, device, precision)
    wide = chain.widen(plan)
    if precision == "native":
        _remember(given, chain, plan, wide, objective, device)
    return finish(_run(plan, chain, out))


def execute(plan: Plan, items: Sequence[Any], out: Any) -> Any:
    """The product of factors with structure by a plan that was made for their like."""
    if any(_is_torch(array) or _is_cupy(array) for array in arrays_of(items)):
        raise TypeError("arrays: expected NumPy arrays where a plan's factors have structure")
    items, finish = _of_host(splice(items), out)
    # The second is for a plan that does not say which factors are the same, as nothing follows from it.
    for planned in (plan.chain, None):
        chain = _Chain(items, planned)
        said = _plan(chain.text, *plan._arguments[1:4]).chain
        if said == plan.chain:
            chain.widen(plan)
            return finish(_run(plan, chain, out))
    raise ValueError(f"arrays: expected factors as in {plan.chain}, got {said}")


def _run(plan: Plan, chain: _Chain, out: Any) -> Any:
    result = _executed(plan, chain.arrays, out)
    if result is None and isinstance(out, np.ndarray) and out.flags.carray:  # it may overlap a factor
        result = _executed(plan, chain.arrays, np.empty(out.shape, out.dtype))
        if result is not None:
            np.copyto(out, result)
            return out
    if result is None and out is not None:
        ends = chain.arrays[0].shape[:-1] + chain.arrays[-1].shape[1:]
        raise ValueError(f"out: expected a C-contiguous array of {chain.dtype} of shape {ends}")
    if result is None:
        raise ValueError(f"arrays: {chain.text} cannot be multiplied where they are")
    return result


def _executed(plan: Plan, arrays: List[Any], out: Any) -> Any:
    try:
        result = _mmchain.execute(plan, arrays, out, *as_stored, None, False)
    except ValueError as error:
        if has_no_inverse(error):
            raise LinAlgError(str(error)) from None
        raise
    return None if result is NotImplemented else result


def has_no_inverse(error: ValueError) -> bool:
    return "is singular" in str(error) or "is not positive definite" in str(error)
