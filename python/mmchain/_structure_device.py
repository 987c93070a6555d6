"""Factors with structure on a GPU: PyTorch's tensors on CUDA, and CuPy's arrays.

They are planned as NumPy's are, and multiplied where they lie, on the library's current stream.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from numpy.linalg import LinAlgError

from . import _structure


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def _dtype(array: Any) -> np.dtype[Any]:
    name = str(array.dtype).rpartition(".")[2]
    try:
        return np.dtype(name)
    except TypeError:
        raise TypeError(
            f"arrays: expected float32, float64, complex64 or complex128 where factors have structure, got {name}"
        ) from None


def _number(array: Any) -> int:
    return int(array.device.id if _is_cupy(array) else array.device.index)


class _Torch:
    """What PyTorch's tensors are asked for."""

    def __init__(self) -> None:
        self._torch = import_module("torch")
        self._room = import_module("._torch", __package__)

    def readable(self, array: Any, dtype: np.dtype[Any]) -> Any:
        array = array.detach().to(getattr(self._torch, dtype.name)).resolve_conj().resolve_neg()
        return self._room._readable(array, False)

    @staticmethod
    def key(array: Any) -> Tuple[Any, ...]:
        return array.data_ptr(), tuple(array.shape), array.stride(), array.is_conj(), array.is_neg()

    def execute(self, plan: Any, arrays: List[Any], shape: Tuple[int, ...]) -> Any:
        chain = SimpleNamespace(result=shape)
        return self._room._execute(plan, chain, arrays, None, _structure.as_stored)


class _CuPy:
    """What CuPy's arrays are asked for."""

    def __init__(self) -> None:
        self._cupy = import_module("cupy")
        self._room = import_module("._cupy", __package__)

    def readable(self, array: Any, dtype: np.dtype[Any]) -> Any:
        return self._room._readable(array.astype(dtype, copy=False), False)

    @staticmethod
    def key(array: Any) -> Tuple[Any, ...]:
        return array.data.ptr, array.shape, array.strides

    def execute(self, plan: Any, arrays: List[Any], shape: Tuple[int, ...]) -> Any:
        with arrays[0].device:
            result = self._cupy.empty(shape, arrays[0].dtype)
            done = self._room._execute(plan, arrays, result, _structure.as_stored)
        return result if done else NotImplemented


class _Chain(_structure._Chain):
    """The text of a chain on a GPU, and its arrays."""

    def __init__(self, items: Sequence[Any]):
        arrays = list(_structure.arrays_of(items))
        self.library: Any = (_CuPy if _is_cupy(arrays[0]) else _Torch)()
        self.number = _number(next(filter(_structure._is_on_device, arrays)))
        for array in arrays:
            alike = _structure._is_on_device(array) and _is_cupy(array) == _is_cupy(arrays[0])
            if not alike or _number(array) != self.number:
                raise TypeError("arrays: expected factors with structure of one library, on one device")
        super().__init__(items)

    def _find_dtype(self, arrays: Sequence[Any]) -> np.dtype[Any]:
        return np.result_type(*map(_dtype, arrays))

    def _readable(self, array: Any) -> Any:
        return self.library.readable(array, self.dtype)

    def _key(self, array: Any) -> Tuple[Any, ...]:
        return tuple(self.library.key(array))

    @property
    def device(self) -> str:
        return f"cuda:{self.number}"

    @property
    def result(self) -> Tuple[int, ...]:
        ends = (self.arrays[0].ndim == 1, self.arrays[-1].ndim == 1)
        return tuple(dim for dim, gone in zip((self.dims[0], self.dims[-1]), ends) if not gone)


# ---- chains that were multiplied before --------------------------------------------------------

# Plans and shapes of results by what they depend on, of PyTorch's chains that are executed as they lie.
_known: Dict[Tuple[Any, ...], Tuple[Any, Tuple[int, ...]]] = {}
_KNOWN = 256


def _look(items: Sequence[Any], places: Dict[int, int], said: List[Any], views: List[Any]) -> bool:
    """Whether all are matrices of PyTorch on CUDA without gradients, and what a plan depends on of them."""
    torch = sys.modules["torch"]
    for item in items:
        if type(item) is _structure.Group:
            said.append("(")
            if not _look(item.factors, places, said, views):
                return False
            said.append(")")
            continue
        factor = item if type(item) is _structure.Factor else None
        array = item if factor is None else factor.array
        if not (isinstance(array, torch.Tensor) and array.is_cuda) or array.dim() != 2:
            return False
        if (array.requires_grad and torch.is_grad_enabled()) or array.is_conj() or array.is_neg():
            return False
        place = places.setdefault(array.data_ptr(), len(places))
        said += (place, array.dtype, array.device.index, array.shape, array.stride())
        said += ((), "N", False) if factor is None else (factor.words, factor.op, factor.inverse)
        views.append(array if factor is None or factor.op == "N" else array.mT)
    return True


def _key_of(items: Any, objective: str, device: Optional[str], views: List[Any]) -> Optional[Tuple[Any, ...]]:
    said: List[Any] = [objective, device]
    if "torch" not in sys.modules or not isinstance(items, (list, tuple)):
        return None
    return tuple(said) if _look(items, {}, said, views) else None


def multiply_known(items: Any, objective: str, device: Optional[str]) -> Any:
    """The product where a chain of the same factors, of other numbers, was multiplied before; else None."""
    views: List[Any] = []
    key = _key_of(items, objective, device, views)
    known = None if key is None else _known.get(key)
    if known is None:
        return None
    room = import_module("._torch", __package__)
    views = [view.detach() if view.requires_grad else view for view in views]
    return _solved(lambda: room._execute(known[0], SimpleNamespace(result=known[1]), views, None, _structure.as_stored))


def _remember(items: Sequence[Any], chain: _Chain, plan: Any, objective: str, device: Optional[str]) -> None:
    views: List[Any] = []
    key = _key_of(items, objective, device, views)
    if key is None or len(views) != len(chain.arrays):
        return
    for view, array in zip(views, chain.arrays):
        if chain.library.key(view) != chain.library.key(array) or view.dtype != array.dtype:
            return
    if len(_known) >= _KNOWN:
        _known.clear()
    _known[key] = plan, chain.result


def _solved(execute: Any) -> Any:
    try:
        return execute()
    except ValueError as error:
        if _structure.has_no_inverse(error):
            raise LinAlgError(str(error)) from None
        raise


def multiply(
    items: Sequence[Any], out: Any, objective: str, device: Optional[str], precision: str = "native"
) -> Any:
    chain = _Chain(items)
    if device not in (None, "cuda", chain.device):
        raise ValueError(f"device: expected {chain.device}, where the arrays are, got {device}")
    plan = _structure._plan(chain.text, objective, chain.device, precision)
    result = _solved(lambda: chain.library.execute(plan, chain.arrays, chain.result))
    if result is NotImplemented:
        raise ValueError(f"arrays: {chain.text} cannot be multiplied where they are")
    if out is None and precision == "native":
        _remember(items, chain, plan, objective, device)
    if out is None:
        return result
    if not _is_cupy(out) or (out.shape, out.dtype) != (result.shape, result.dtype):
        raise ValueError(f"out: expected {result.dtype} of shape {result.shape} of the factors' library")
    out[...] = result
    return out


def text(items: Sequence[Any]) -> str:
    return _Chain(items).text
