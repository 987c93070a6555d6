"""Factors with structure on a GPU: PyTorch's tensors on CUDA, and CuPy's arrays.

They are planned as NumPy's are, and multiplied where they lie, on the library's current stream.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
from numpy.linalg import LinAlgError

from . import _structure

_options = ("", None, "")


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
        return self._room._execute(plan, chain, arrays, None, _options)


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
            done = self._room._execute(plan, arrays, result, _options)
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


def multiply(items: Sequence[Any], out: Any, objective: str, device: Optional[str]) -> Any:
    chain = _Chain(items)
    if device not in (None, "cuda", chain.device):
        raise ValueError(f"device: expected {chain.device}, where the arrays are, got {device}")
    plan = _structure._plan(chain.text, objective, chain.device)
    try:
        result = chain.library.execute(plan, chain.arrays, chain.result)
    except ValueError as error:
        if _structure.has_no_inverse(error):
            raise LinAlgError(str(error)) from None
        raise
    if result is NotImplemented:
        raise ValueError(f"arrays: {chain.text} cannot be multiplied where they are")
    if out is None:
        return result
    if not _is_cupy(out) or (out.shape, out.dtype) != (result.shape, result.dtype):
        raise ValueError(f"out: expected {result.dtype} of shape {result.shape} of the factors' library")
    out[...] = result
    return out


def text(items: Sequence[Any]) -> str:
    return _Chain(items).text
