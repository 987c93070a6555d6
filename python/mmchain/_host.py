"""Arrays in the host's memory as NumPy's, and results as those of the caller's library."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from typing import Any, Tuple

import numpy as np

from ._types import float_names, integer_names

# What stands for bfloat16, whose bits the library reads: a type that is no number's.
bits = np.dtype([("b", np.uint16)])


def unmasked(array: Any) -> np.ndarray:
    """What NumPy makes of an array, which must have no mask, as that would be lost."""
    if type(array) is not np.ndarray and np.ma.is_masked(array):
        raise TypeError("arrays: expected no masked array: fill it, a.filled(0), or give its .data")
    return np.asarray(array)


def expect_memory(array: Any, what: str) -> None:
    """Raises a TypeError where an array is one of JAX's tracers, of which JAX would have to know `what`."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.core.Tracer):
        raise TypeError(f"arrays: expected no jit, vmap or grad of JAX around {what}, as it sees JAX's own only")


class Kind:
    """A library of arrays: how its arrays become NumPy's, and results its own."""

    def __init__(self, array: Any):
        package = type(array).__module__.partition(".")[0]
        self.torch = sys.modules["torch"] if package == "torch" else None
        self.jax = sys.modules["jax"] if package in ("jax", "jaxlib") else None
        if package == "cupy":
            raise TypeError("arrays: expected arrays in the host's memory, got CuPy's")
        self.bf16: Any = None  # NumPy's type for bfloat16, which it has of ml_dtypes

    def to_numpy(self, array: Any) -> Any:
        if type(array) is np.ndarray and array.dtype.char in "efdFD":  # to ask for its name takes 1 us
            return array
        torch = self.torch
        if torch is not None and isinstance(array, torch.Tensor):
            if array.device.type != "cpu":
                raise TypeError(f"arrays: expected tensors on the CPU, got one on {array.device}")
            room = self._torch_room()
            room.expect_unseen("gradients() and Ranges")
            array = room.settled(array)
            if array.dtype is torch.bfloat16:
                return array.contiguous().view(torch.int16).numpy().view(bits)
            return array.numpy()
        if self.jax is not None and isinstance(array, self.jax.Array):
            expect_memory(array, "gradients() and Ranges")
            if any(device.platform != "cpu" for device in array.devices()):
                raise TypeError("arrays: expected arrays on the CPU, got one on another device")
        array = unmasked(array)
        if array.dtype.fields is not None:  # one field of 16 bits is no bfloat16, though it lies as `bits` do
            raise TypeError(f"arrays: expected numbers, got elements of {array.dtype}")
        if array.dtype.name == "bfloat16":
            self.bf16 = array.dtype
            return array.view(bits)
        return array

    @staticmethod
    def _torch_room() -> Any:
        return import_module("._torch", __package__)  # which needs that of gradients, and this

    def from_numpy(self, array: np.ndarray) -> Any:
        if self.torch is not None:
            if array.dtype == bits:
                return self.torch.from_numpy(array["b"].view(np.int16)).view(self.torch.bfloat16)
            return self.torch.from_numpy(array)
        if array.dtype == bits and self.bf16 is not None:
            array = array.view(self.bf16)
        return array if self.jax is None else self.jax.device_put(array, self.jax.devices("cpu")[0])


def plain(array: np.ndarray) -> np.ndarray:
    return array["b"] if array.dtype == bits else array


def summed(array: np.ndarray, axes: Tuple[int, ...]) -> np.ndarray:
    """The sum over axes, which stay; of bfloat16 it is of float32, rounded once."""
    if array.dtype != bits:
        return np.asarray(array.sum(axis=axes, keepdims=True))
    wide = np.left_shift(plain(array), 16, dtype=np.uint32).view(np.float32)
    total = wide.sum(axis=axes, keepdims=True).astype(np.float32)
    word = total.view(np.uint32)
    to_even = word + 0x7FFF + (word >> 16 & 1)
    word = np.where(np.isnan(total), word | 0x400000, to_even)  # NaN keeps no digit that a carry could change
    return (word >> 16).astype(np.uint16).view(bits)


@lru_cache(maxsize=64)
def name_of(dtype: np.dtype, integers: bool = False, what: str = "dtype") -> str:
    name = "bfloat16" if dtype == bits else dtype.name
    known = {**float_names, **integer_names} if integers else float_names
    if name not in known:
        raise TypeError(f"{what}: expected one of {', '.join(known)}, got {name}")
    return known[name]
