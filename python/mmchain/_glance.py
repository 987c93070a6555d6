"""Which bytes of a tensor of PyTorch tell what it is (glance.h)."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Set, Tuple

import torch

from . import _mmchain


def _bytes_of(tensor: torch.Tensor) -> Optional[bytes]:
    return _mmchain.tensor_bytes(tensor, tensor._cdata)


def _differences(before: Optional[bytes], after: Optional[bytes]) -> Set[int]:
    """The words that differ, by their first byte."""
    if before is None or after is None or len(before) != len(after):
        return set()
    return {8 * (b // 8) for b in range(len(before)) if before[b] != after[b]}


def _changed(make: Callable[[], Any], change: Callable[[Any], Any]) -> Set[int]:
    """The words that a change of a new tensor changes."""
    tensor = make()
    before = _bytes_of(tensor)
    held = change(tensor)
    words = _differences(before, _bytes_of(tensor))
    del held
    return words


def _real() -> torch.Tensor:
    return torch.zeros(2, 3, dtype=torch.float32, device="cpu")


def _complex() -> torch.Tensor:
    return torch.zeros(2, 3, dtype=torch.complex64, device="cpu")


def _put(value: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    def change(tensor: torch.Tensor) -> None:
        tensor.data = value(tensor)

    return change


def _learn_negated() -> Set[int]:
    """The words that tell that a tensor is lazily negated."""
    pairs = _complex()
    return _changed(lambda: pairs.imag, _put(lambda t: pairs.conj().imag))


# What is of one dimension or two, the sizes, the strides, the dtype, the storage, conjugated. That sizes and strides
# themselves are among the bytes, C sees where it takes a glance, and it asks where the storage lies.
_changes: List[Tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], Any]]] = [
    (_real, lambda t: t.as_strided_((6,), (1,))),
    (_real, lambda t: t.as_strided_((2, 2), (3, 1))),
    (_real, lambda t: t.as_strided_((2, 3), (2, 1))),
    (_real, _put(lambda t: t.data.view(torch.int32))),
    (_real, _put(lambda t: t.data.clone())),
    (_complex, _put(lambda t: t.data.conj())),
]


def _find_words() -> Optional[Set[int]]:
    """The words that tell all that bytes tell; None where something is told otherwise."""
    words = _learn_negated()
    # The kind of device is told by the word of the bit for negation, if by any.
    if not words or not words <= _differences(_bytes_of(_real()), _bytes_of(_real().to("meta"))):
        return None
    for make, change in _changes:
        changed = _changed(make, change)
        if not changed:
            return None
        words |= changed
    return words


def learn(kind: type) -> bool:
    """Has glances at tensors of this type taken, where that can be done."""
    if kind is not torch.Tensor:
        return False
    with torch.inference_mode(False):
        words = _find_words()
        if words is None:
            return False
        devices = torch.cuda.device_count() != 1
        return _mmchain.set_glance(kind, min(words), max(words) + 8, devices, _real(), _real().requires_grad_())
