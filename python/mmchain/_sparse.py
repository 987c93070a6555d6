"""Chains of which factors are sparse: matrices of scipy.sparse, or sparse tensors of PyTorch."""

from __future__ import annotations

import math
import operator
import re
import sys
from functools import lru_cache, reduce
from importlib import import_module
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from numpy.linalg import LinAlgError

from . import _mmchain
from ._host import unmasked
from ._plan import dtype_name
from ._structure import Factor, Group, has_no_inverse, inv, splice
from ._types import Device


def _is_scipy(item: Any) -> bool:
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(item))


def _is_torch(item: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(item, torch.Tensor)


def _is_torch_sparse(item: Any) -> bool:
    if not _is_torch(item) or item.layout is sys.modules["torch"].strided:
        return False
    return str(item.layout) in ("torch.sparse_csr", "torch.sparse_csc", "torch.sparse_coo")


@lru_cache(maxsize=None)
def _of_torch() -> Any:
    return import_module("._torch", __package__)


def is_sparse(items: Any) -> bool:
    if "scipy.sparse" not in sys.modules and "torch" not in sys.modules:
        return False
    if not isinstance(items, (list, tuple)):
        return False
    return any(map(_is_or_has_sparse, items))


def _is_or_has_sparse(item: Any) -> bool:
    if isinstance(item, Group):
        return is_sparse(item.factors)
    array = item.stored if isinstance(item, Factor) else item
    return _is_scipy(array) or _is_torch_sparse(array)


def _alone(item: Any) -> Any:
    """The inverse of a dense factor alone instead of a group of it, of which nothing is multiplied."""
    if not isinstance(item, Group) or len(item.factors) > 1 or _is_or_has_sparse(item):
        return item
    return inv(item.factors[0])


def _readable(array: Any, dtype: Any = None) -> np.ndarray:
    """The array in one piece of memory that is aligned, as the extension reads it."""
    array = np.ascontiguousarray(array, dtype)
    return array if array.flags.aligned else array.copy()


def _turned(words: Tuple[str, ...]) -> Tuple[str, ...]:
    other = {"lower": "upper", "upper": "lower"}
    return tuple(other.get(word, word) for word in words)


class _Chain:
    """The factors as the extension takes them, and what the result is."""

    def __init__(self, items: Sequence[Any]):
        items = [_alone(item) for item in items]
        plain = [self._without_words(item) for item in items]
        self.torch = any(map(_is_torch, plain))
        self._words = [self._words_of(item) for item in items]
        self._check_kinds(plain)
        sparse = [self._is_sparse(item) for item in plain]
        arrays = [item if is_sparse else self._dense(item) for item, is_sparse in zip(plain, sparse)]
        self.given = arrays
        self.dense = not all(sparse)
        self.dtype = self._dtype(arrays)
        stacks = [a.shape[:-2] for a in arrays if type(a) is np.ndarray and a.ndim > 2]
        self.stack = np.broadcast_shapes(*stacks) if stacks else ()
        self.row = self.column = True
        self.factors: List[Tuple[Any, ...]] = []
        self._made: Dict[int, Any] = {}  # sparse factors by where their objects lie, which are held meanwhile
        self._shapes: List[Tuple[int, int]] = []
        for number, array in enumerate(arrays):
            self._add(number, array, len(arrays) - 1)

    @staticmethod
    def _without_words(item: Any) -> Any:
        if isinstance(item, Group):
            product = sys.modules[__package__].multi_dot(item.factors)
            if _is_scipy(product):
                return product.toarray()
            return product.to_dense() if _is_torch_sparse(product) else product
        if not isinstance(item, Factor):
            return item
        array = item.array if item.op == "N" else item.array.T
        return array.conj() if item.op == "H" else array

    @staticmethod
    def _words_of(item: Any) -> Tuple[str, ...]:
        """What is said of the item after its op; a group is a matrix of which nothing is known."""
        if isinstance(item, Group):
            return ("inv",)
        if not isinstance(item, Factor):
            return ()
        words = (*item.words, *(("inv",) if item.inverse else ()))
        if words and _is_torch_sparse(item.stored):
            raise TypeError("arrays: expected nothing said of a sparse factor, give a dense one: to_dense()")
        return words if item.op == "N" else _turned(words)

    @staticmethod
    def _is_sparse(item: Any) -> bool:
        return _is_scipy(item) or _is_torch_sparse(item)

    def _check_kinds(self, items: Sequence[Any]) -> None:
        if self.torch:
            _of_torch().expect_unseen("sparse factors")
        for item in items:
            if self.torch and not _is_torch(item):
                raise TypeError(f"arrays: expected arrays of one library, got torch and {type(item).__name__}")
            if not self.torch:
                continue
            if _of_torch().is_differentiated([item]):
                raise TypeError("arrays: expected no gradients beside sparse factors: detach() them")
            if item.device.type != "cpu":
                raise TypeError(f"arrays: expected sparse chains on the CPU, got {item.device}")

    def _dense(self, item: Any) -> Any:
        array = _of_torch().settled(item).numpy() if self.torch else unmasked(item)
        if array.ndim == 0:
            raise ValueError(f"{array.ndim}-dimensional array given. Array must be two-dimensional")
        return array

    def _dtype(self, arrays: Sequence[Any]) -> Any:
        dtypes = [self._dtype_of(array) for array in arrays]
        dtype = np.result_type(*dtypes)
        inverts = any("inv" in words for words in self._words)
        self.integers = dtype.kind in "biu" and not inverts
        if self.integers and self.torch:
            raise TypeError(
                f"arrays: expected floating-point or complex elements beside sparse tensors, got {dtype}"
            )
        if dtype.char in "fdFD":
            return dtype
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise TypeError(
                f"arrays: expected float32, float64, complex64 or complex128 beside sparse factors, got {dtype}"
            )
        return np.dtype("f" if dtype.char == "e" else "d")

    def _dtype_of(self, array: Any) -> Any:
        if _is_torch_sparse(array):
            return np.dtype(str(array.dtype).replace("torch.", ""))
        return array.dtype

    def _sparse_parts(self, item: Any) -> Tuple[Tuple[int, int], bool, Any, Any, Any]:
        """The shape as stored, whether that is transposed, and the three arrays."""
        if _is_torch(item):
            item = item.detach()
            item = item.coalesce().to_sparse_csr() if str(item.layout) == "torch.sparse_coo" else item
            by_columns = str(item.layout) == "torch.sparse_csc"
            offsets = item.ccol_indices() if by_columns else item.crow_indices()
            indices = item.row_indices() if by_columns else item.col_indices()
            if item.dim() != 2 or item.values().dim() != 1:
                raise TypeError("arrays: expected sparse tensors of two dimensions, of single elements")
            values = item.values().resolve_conj().resolve_neg().numpy()
            return tuple(item.shape), by_columns, offsets.numpy(), indices.numpy(), values
        if item.ndim != 2:
            raise ValueError(f"{item.ndim}-dimensional array given. Array must be two-dimensional")
        item = item if item.format in ("csr", "csc") else item.tocsr()
        return item.shape, item.format == "csc", item.indptr, item.indices, item.data

    def _sparse_factor(self, array: Any) -> Tuple[Tuple[int, int], Tuple[Any, ...]]:
        """The shape, and the factor as the extension takes it, of one that stands there again as before."""
        if id(array) not in self._made:
            (rows, columns), turned, indptr, indices, values = self._sparse_parts(array)
            if indptr.dtype != indices.dtype or indices.dtype.char not in "ilq":
                indptr, indices = indptr.astype(np.int64), indices.astype(np.int64)
            index_bytes = indices.dtype.itemsize
            kept = (_readable(indptr), _readable(indices), _readable(values, self.dtype))
            stored = (columns, rows) if turned else (rows, columns)
            self._made[id(array)] = (rows, columns), (*stored, turned, index_bytes, *kept)
        return self._made[id(array)]

    def _add(self, number: int, array: Any, last: int) -> None:
        if not isinstance(array, np.ndarray):
            (rows, columns), factor = self._sparse_factor(array)
            self.factors.append(factor)
        else:
            if array.ndim == 1:
                if number not in (0, last):
                    raise ValueError("1-dimensional array given. Array must be two-dimensional")
                self.row, self.column = self.row and number != 0, self.column and number != last
                array = array.reshape((1, -1) if number == 0 else (-1, 1))
            rows, columns = array.shape[-2:]
            stacked = array.ndim > 2
            if stacked:
                array = np.broadcast_to(array, (*self.stack, rows, columns))
            turned = not stacked and array.flags.f_contiguous and not array.flags.c_contiguous
            view = _readable(array.T if turned else array, self.dtype)
            words = self._words[number]
            self.factors.append((*view.shape[-2:], turned, _turned(words) if turned else words, stacked, view))
        if self._shapes and self._shapes[-1][1] != rows:
            before = self._shapes[-1]
            raise ValueError(
                f"shapes {before} and {(rows, columns)} not aligned: {before[1]} (dim 1) != {rows} (dim 0)"
            )
        self._shapes.append((rows, columns))

    @property
    def shape(self) -> Tuple[int, int]:
        return self._shapes[0][0], self._shapes[-1][1]


def _call(chain: _Chain, objective: str, device: Optional[str], out: Any, explains: bool) -> Any:
    target = None if out is None else (*chain.shape, out)
    count = math.prod(chain.stack)
    if count == 0 and not explains:
        return None
    try:
        return _mmchain.sparse(
            dtype_name(chain.dtype), chain.factors, count, objective, device, target, chain.dense, explains
        )
    except ValueError as error:
        if has_no_inverse(error):
            raise LinAlgError(str(error)) from None
        raise


def _squeezed(chain: _Chain, result: Any) -> Any:
    shape = ([chain.shape[0]] if chain.row else []) + ([chain.shape[1]] if chain.column else [])
    shape = [*chain.stack, *shape]
    return result.reshape(shape) if shape else result.reshape(())[()]


def _multiply_to_dense(chain: _Chain, out: Any, objective: str, device: Optional[str]) -> Any:
    result = np.empty((*chain.stack, *chain.shape), chain.dtype)
    _call(chain, objective, device, result, False)
    result = _squeezed(chain, result)
    if chain.torch:
        result = sys.modules["torch"].as_tensor(result)
    return result if out is None else _filled(out, result)


def _multiply_to_sparse(chain: _Chain, objective: str, device: Optional[str]) -> Any:
    index_bytes, *memories = _call(chain, objective, device, None, False)
    kinds = [np.dtype(f"i{index_bytes}")] * 2 + [chain.dtype]
    indptr, indices, values = (np.frombuffer(memory, kind) for memory, kind in zip(memories, kinds))
    if chain.torch:
        torch = sys.modules["torch"]
        return torch.sparse_csr_tensor(
            torch.from_numpy(indptr), torch.from_numpy(indices), torch.from_numpy(values), size=chain.shape
        )
    scipy = sys.modules["scipy.sparse"]
    newer = any(type(item).__name__.endswith("_array") for item in chain.given)
    kind = scipy.csr_array if newer else scipy.csr_matrix
    result = kind((values, indices, indptr), shape=chain.shape, copy=False)
    result.has_sorted_indices = True
    return result


def _multiply_integers(chain: _Chain, out: Any, objective: str, device: Optional[str]) -> Any:
    """The product of integers or bool by SciPy's own products, in the planned order."""
    if chain.stack:
        raise TypeError("arrays: expected no stacks of integers beside sparse factors")
    if out is not None and not chain.dense:
        raise ValueError("out: expected none where all factors are sparse")
    text = _call(chain, objective, device, None, True)
    # Of vectors and of other formats than CSR and CSC SciPy's products have other shapes, and some cannot
    # be had. Its products are in no order, and what turns those of CSC to CSR takes less than sorting.
    if not chain.dense:
        factors = [array.tocsc() for array in chain.given]
        return _by_scipy(_order_of(text), factors).tocsr()
    factors = [array.tocsr() if _is_scipy(array) else array for array in chain.given]
    factors[0] = factors[0] if chain.row else factors[0].reshape((1, -1))
    factors[-1] = factors[-1] if chain.column else factors[-1].reshape((-1, 1))
    result = _squeezed(chain, _by_scipy(_order_of(text), factors))
    return result if out is None else _filled(out, result)


def _order_of(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("order "))


def _by_scipy(order: str, factors: Sequence[Any]) -> Any:
    """The product in an order like ((A1 A2) A3)."""
    open_ones: List[List[Any]] = [[]]
    for token in re.findall(r"[()]|A\d+", order):
        if token == "(":
            open_ones.append([])
        elif token == ")":
            product = reduce(operator.matmul, open_ones.pop())
            open_ones[-1].append(product)
        else:
            open_ones[-1].append(factors[int(token[1:]) - 1])
    return open_ones[0][0]


def _filled(out: Any, result: Any) -> Any:
    if getattr(out, "shape", None) != result.shape or getattr(out, "dtype", None) != result.dtype:
        raise ValueError(f"out: expected an array of {result.dtype} of shape {tuple(result.shape)}")
    out[...] = result
    return out


def multiply(arrays: Any, out: Any, objective: str, device: Optional[str]) -> Any:
    """The product where factors are sparse; else None."""
    arrays = splice(arrays)
    if not is_sparse(arrays):
        return None
    chain = _Chain(arrays)
    if chain.integers:
        return _multiply_integers(chain, out, objective, device)
    if chain.dense:
        return _multiply_to_dense(chain, out, objective, device)
    if out is not None:
        raise ValueError("out: expected none where all factors are sparse")
    return _multiply_to_sparse(chain, objective, device)


def sparse_plan(arrays: Sequence[Any], *, objective: str = "time", device: Optional[Device] = None) -> str:
    """How `multi_dot` multiplies a chain with sparse factors: its order, and how products are held.

    The nonzeros of all products are estimated from those of the factors.

    >>> import scipy.sparse, mmchain  # doctest: +SKIP
    >>> s = scipy.sparse.random(1000, 1000, 0.01, format="csr", random_state=1)  # doctest: +SKIP
    >>> print(mmchain.sparse_plan([s, s.T, s[:, :1]]).splitlines()[1])  # doctest: +SKIP
    order            (A1 (A2 A3))
    """
    arrays = splice(arrays)
    if not is_sparse(arrays):
        raise TypeError("arrays: expected at least one sparse factor")
    text: str = _call(_Chain(arrays), objective, device, None, True)
    return text
