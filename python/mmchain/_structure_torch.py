"""Factors with structure that are PyTorch's tensors, on the CPU or on CUDA, and their gradients.

Of a product F1 F2 ... Fn with cotangent D the gradient of Fi is (F1 ... Fi-1)^H D (Fi+1 ... Fn)^H, which is such a
chain again; of an inverse F = A^-1 that of A is -F^H (...) F^H. So every gradient is solved with, too, and
gradients of gradients follow. What is said of a factor holds of its gradient: that of a lower triangular one is.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from . import _structure
from ._structure import Factor, Group, line_factor
from ._torch import expect_unseen, is_differentiated, settled


class _Leaf(NamedTuple):
    """Factor number `number` of the tensors."""

    number: int
    words: Tuple[str, ...]
    op: str
    inverse: bool
    is_line: bool = False  # one row, of its diagonal or of its index

    def of(self, array: Any) -> Factor:
        if self.is_line:
            return line_factor(array, self.words, self.op, self.inverse)
        return Factor(array, self.words, self.op, self.inverse)


class _Inverse(NamedTuple):
    """The inverse of a product."""

    nodes: List[Any]


_Node = Union[_Leaf, _Inverse]


# ---- what is multiplied ----------------------------------------------------------------------


def _flatten(items: Sequence[Any], tensors: List[torch.Tensor]) -> List[Any]:
    nodes: List[Any] = []
    for item in items:
        if isinstance(item, Group):
            nodes.append(_Inverse(_flatten(item.factors, tensors)))
            continue
        factor = item if isinstance(item, Factor) else None
        array = item if factor is None else factor.stored
        if not isinstance(array, torch.Tensor):
            raise TypeError(f"arrays: expected arrays of one library, got torch and {type(array).__name__}")
        if array.device.type not in ("cpu", "cuda") or (tensors and array.device != tensors[0].device):
            raise TypeError(
                "arrays: expected factors with structure on the CPU, or all of them on one CUDA device, "
                f"got {array.device}"
            )
        tensors.append(array)
        leaf = _Leaf(len(tensors) - 1, (), "N", False)
        if factor is not None:
            leaf = _Leaf(leaf.number, factor.words, factor.op, factor.inverse, factor.is_line)
        nodes.append(leaf)
    return nodes


def _values(tensor: torch.Tensor) -> Any:
    if tensor.is_cuda:
        return tensor.detach()
    return settled(tensor).numpy()


def _arrays(nodes: Sequence[Any], tensors: Sequence[torch.Tensor]) -> List[Any]:
    """The same chain without gradients: of NumPy's arrays in the same memory, or of tensors on CUDA."""
    items: List[Any] = []
    for node in nodes:
        if isinstance(node, _Inverse):
            items.append(Group(_arrays(node.nodes, tensors)))
        else:
            array = _values(tensors[node.number])
            items.append(array if array.ndim == 1 else node.of(array))
    return items


def numpy_items(items: Sequence[Any]) -> List[Any]:
    """Factors that are tensors as those of NumPy."""
    tensors: List[torch.Tensor] = []
    return _arrays(_flatten(items, tensors), tensors)


# ---- gradients -------------------------------------------------------------------------------

# A node with the tensor it is of: contexts of different depths are joined in one chain.
_Bound = Tuple[Any, Any]


def _bind(node: Any, tensors: Sequence[torch.Tensor]) -> Any:
    if isinstance(node, _Inverse):
        return Group([_bind(inner, tensors) for inner in node.nodes])
    return node.of(tensors[node.number])


def _adjoint(item: Any) -> Any:
    if isinstance(item, Group):
        return Group([_adjoint(inner) for inner in reversed(item.factors)])
    return item.H


def _project(words: Tuple[str, ...], gradient: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """The part of a gradient that changes a matrix of these words into another one."""
    unit = "unit" in words
    for word in words:
        if word.startswith("banded("):
            below, above = (int(width) for width in word[len("banded(") : -1].split(","))
            n = gradient.shape[-1]
            gradient = torch.triu(torch.tril(gradient, min(above, n)), -min(below, n))
        elif word == "tridiagonal":
            gradient = torch.triu(torch.tril(gradient, 1), -1)
        elif word == "orthogonal":
            gradient = (gradient - matrix @ (gradient.mH @ matrix)) / 2
        elif word in ("identity", "zero", "permutation"):
            gradient = torch.zeros_like(gradient)
        elif word == "diagonal":
            gradient = torch.diag(torch.diagonal(gradient)) * (0 if unit else 1)
        elif word == "lower":
            gradient = torch.tril(gradient, -1 if unit else 0)
        elif word == "upper":
            gradient = torch.triu(gradient, 1 if unit else 0)
        elif word == "symmetric":
            gradient = (gradient + gradient.mT) / 2
        elif word in ("hermitian", "spd"):
            gradient = (gradient + gradient.mH) / 2
    return gradient


def _descend(
    nodes: Sequence[Any],
    tensors: Sequence[torch.Tensor],
    context: List[Any],
    sign: int,
    wanted: Sequence[bool],
    found: List[Optional[torch.Tensor]],
) -> None:
    """Finds the gradients of the leaves of a product, of which the gradient is sign times the product of
    context."""
    bound = [_bind(node, tensors) for node in nodes]
    for i, node in enumerate(nodes):
        before = [_adjoint(item) for item in reversed(bound[:i])]
        behind = [_adjoint(item) for item in reversed(bound[i + 1 :])]
        chain, sign_here = [*before, *context, *behind], sign
        if isinstance(node, _Inverse):
            own = _adjoint(bound[i])
            _descend(node.nodes, tensors, [own, *chain, own], -sign, wanted, found)
            continue
        if not wanted[node.number]:
            continue
        if node.inverse:
            own = _adjoint(bound[i])
            chain, sign_here = [own, *chain, own], -sign
        value = _product(chain) * sign_here
        value = value.mT if node.op == "T" else value.mH if node.op == "H" else value
        found[node.number] = _project(node.words, value, tensors[node.number])


def _product(items: List[Any]) -> torch.Tensor:
    if len(items) == 1 and isinstance(items[0], Factor) and not items[0].inverse:
        array: Any = items[0].array
        result: torch.Tensor = array
        if items[0].op != "N":
            result = array.mT if items[0].op == "T" else array.mH
        return result
    return multiply(items, "flops", None)


def _computed(nodes: List[Any], options: Any, *tensors: torch.Tensor) -> torch.Tensor:
    """The product, without gradients."""
    arrays = _arrays(nodes, tensors)
    if tensors[0].is_cuda:
        from . import _structure_device  # it needs CUDA no more than this does, and is seldom wanted

        return torch.as_tensor(_structure_device.multiply(arrays, None, *options))
    objective, device, precision = options
    result = _structure.multiply_known(arrays, None, objective, device) if precision == "native" else None
    return torch.as_tensor(_structure.multiply(arrays, None, *options) if result is None else result)


class _Structured(torch.autograd.Function):
    """The product of a chain with structure."""

    @staticmethod
    def forward(ctx: Any, nodes: List[Any], options: Any, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.nodes = nodes
        ctx.save_for_backward(*tensors)
        return _computed(nodes, options, *tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        tensors = ctx.saved_tensors
        found: List[Optional[torch.Tensor]] = [None] * len(tensors)
        _descend(ctx.nodes, tensors, [Factor(gradients[0])], 1, ctx.needs_input_grad[2:], found)
        return (None, None, *found)


def multiply(
    items: Sequence[Any], objective: str, device: Optional[str], precision: str = "native"
) -> torch.Tensor:
    expect_unseen("factors with structure")
    tensors: List[torch.Tensor] = []
    nodes = _flatten(items, tensors)
    dtype = tensors[0].dtype
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    if dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        if dtype.is_complex or dtype.is_floating_point:
            raise TypeError(
                "arrays: expected float32, float64, complex64 or complex128 where factors have structure, "
                f"got {dtype}"
            )
        dtype = torch.float64
    tensors = [tensor.to(dtype) for tensor in tensors]
    row = column = True
    if tensors[0].dim() == 1:
        row, tensors[0] = False, tensors[0].unsqueeze(0)
    if tensors[-1].dim() == 1:
        column, tensors[-1] = False, tensors[-1].unsqueeze(1)
    product = _Structured.apply if is_differentiated(tensors) else _computed
    result: torch.Tensor = product(nodes, (objective, device, precision), *tensors)
    if not row:
        result = result.squeeze(0)
    return result if column else result.squeeze(-1)
