"""PyTorch tensors: on the CPU and on CUDA, on the current stream, with gradients.

A chain with gradients is multiplied product by product in the planned order. So PyTorch keeps the
intermediate products, and the gradients go back through the same tree: dA = dC B^H and dB = A^H dC
for each product C = A B, in all at most twice the products of the forward pass, and not a chain for
each factor. On the CPU these products are PyTorch's own, whose records of gradients cost the least,
for few factors; many matrices are one function, whose gradients the library computes in one call.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import reduce, wraps
from types import SimpleNamespace
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch.autograd import forward_ad
from torch.utils import _python_dispatch

from . import _general, _mmchain, _numpy, _running, _shapes
from ._gradients import Prepared
from ._types import float_names

_names = {getattr(torch, name): short for name, short in float_names.items()}
_integers = {
    torch.bool: "bool",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
}
_dtypes = {name: dtype for dtype, name in [*_names.items(), *_integers.items()]}
_exact = (torch.Tensor, torch.nn.Parameter)
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
_without_transforms = getattr(torch._C, "_DisableFuncTorch", nullcontext)
_is_any_autocast_enabled = getattr(torch._C, "_is_any_autocast_enabled", lambda: False)
# The modes that are at work, those of PyTorch's own traces with a key; where it cannot say, one of these.
_modes = getattr(_python_dispatch, "_get_current_dispatch_mode_stack", lambda: [SimpleNamespace(_mode_key=True)])
_without_modes = getattr(_python_dispatch, "_disable_current_modes", nullcontext)
_has_exchange = "__dlpack_c_exchange_api__" in vars(torch.Tensor)


def _is_seen() -> bool:
    """Whether PyTorch must see every product, as its own: under torch.func, by a trace or a mode. C asks
    the same of calls that it multiplies at once (modes.h)."""
    return _transforms_active() or _mmchain.is_watched()


def _is_traced() -> bool:
    """Whether what is not PyTorch's would be lost, as in a graph, and not only uncounted or unkept."""
    if _transforms_active() or torch._C._get_tracing_state() is not None:
        return True
    if not _mmchain.is_watched():
        return False
    return any(getattr(mode, "_mode_key", None) is not None for mode in _modes())


def _has_level() -> bool:
    """Whether tensors may have tangents."""
    return getattr(forward_ad, "_current_level", -1) >= 0


def is_differentiated(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a derivative is wanted of some: a gradient, or in forward mode a tangent."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    if not _has_level() or _transforms_active():
        return False
    unpack: Any = forward_ad.unpack_dual
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided]  # others have no tangents
    return any(unpack(tensor).tangent is not None for tensor in dense)


def expect_unseen(what: str) -> None:
    """Raises a TypeError where PyTorch must see products that it has none of."""
    if _is_traced():
        raise TypeError(f"arrays: expected no torch.func or trace with {what}, as it sees PyTorch's own only")


def _as_given(tensor: torch.Tensor) -> Any:
    """A context in which products like this tensor have its dtype, also under torch.autocast, which other
    devices may not have."""
    kind = tensor.device.type
    if not _is_any_autocast_enabled() or kind not in ("cpu", "cuda"):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


def _uncast(backward: Any) -> Any:
    """A backward pass in the dtypes of the way forward, also where it is called under torch.autocast."""

    @wraps(backward)
    def call(ctx: Any, *gradients: torch.Tensor) -> Any:
        with _as_given(gradients[0]):
            return backward(ctx, *gradients)

    return call


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether it is plain memory: no subclass, no tracer, dense, on a device that is known."""
    return (
        type(tensor) in _exact
        and tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda")
    )


def _place(tensor: torch.Tensor) -> Tuple[Any, ...]:
    """Where a tensor lies, and as what: views of one matrix are that matrix."""
    lazy = tensor.is_conj(), tensor.is_neg()
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, lazy


def _is_batched(gradient: torch.Tensor) -> bool:
    """Whether a gradient stands for several, as by is_grads_batched or under vmap, and has no memory itself."""
    try:
        gradient.data_ptr()
    except RuntimeError:
        return True
    return False


def _readable(tensor: torch.Tensor, first: bool) -> torch.Tensor:
    """The tensor, or a copy where it is strided in both dimensions."""
    probe = tensor if _has_exchange else _capsule(tensor)
    return tensor if _mmchain.readable(probe, first) else tensor.contiguous()


def settled(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in memory as it is meant: PyTorch conjugates and negates lazily, and has zeros without memory."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor.clone() if tensor._is_zerotensor() else tensor


def _capsule(tensor: torch.Tensor) -> Any:
    """Without waiting: the work goes to the current stream, where the tensor is."""
    return tensor.__dlpack__(stream=-1) if tensor.is_cuda else tensor.__dlpack__()


def _execute(
    plan: Any,
    chain: _shapes.Chain,
    tensors: List[torch.Tensor],
    out: Any,
    options: _shapes.Options,
    rule: int = 0,
) -> Any:
    if _has_exchange:
        return _mmchain.execute(plan, tensors, out, *options, None, False, rule)
    first = tensors[0]
    result = out
    if result is None:
        result = torch.empty(chain.result, dtype=first.dtype, device=first.device)
    stream = torch.cuda.current_stream(first.device).cuda_stream if first.is_cuda else None
    capsules = [_capsule(tensor) for tensor in tensors]
    done = _mmchain.execute(plan, capsules, _capsule(result), *options, stream, False, rule)
    return done if done is NotImplemented else result


def _direct(
    plan: Any, tensors: List[torch.Tensor], out: Any, options: _shapes.Options, rule: int = 0
) -> Any:
    """The product of tensors of one dtype that have memory, without gradients, by a rule of
    execute()."""
    tensors = _shapes.once(settled, tensors)
    chain = _shapes.check([tensor.shape for tensor in tensors], 1)
    result = _execute(plan, chain, tensors, out, options, rule)
    if result is NotImplemented:
        first = tensors[0]
        tensors = _shapes.once(lambda tensor: _readable(tensor, tensor is first), tensors)
        result = _execute(plan, chain, tensors, None, options, rule)
        if result is NotImplemented:
            raise _shapes.does_not_fit(plan, chain)
        if out is not None:
            result = out.copy_(result)
    return result


class _Product(torch.autograd.Function):
    """C = A B, also of stacks, through mmchain; its gradients are such products again."""

    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, b: torch.Tensor, options: _shapes.Options
    ) -> Any:
        ctx.save_for_backward(a, b)
        ctx.save_for_forward(a, b)
        ctx.options = options
        return _direct(None, [a, b], None, options)

    @staticmethod
    def jvp(ctx: Any, da: torch.Tensor, db: torch.Tensor, _: None) -> torch.Tensor:
        a, b = ctx.saved_tensors
        tangent: torch.Tensor = _Product.apply(da, b, ctx.options) + _Product.apply(a, db, ctx.options)
        return tangent

    @staticmethod
    @_uncast
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        (gradient,) = gradients
        da = db = None
        options = ctx.options
        product = torch.matmul if _is_batched(gradient) else lambda a, b: _Product.apply(a, b, options)
        if ctx.needs_input_grad[0]:
            da = product(gradient, b.mH).sum_to_size(a.shape)
        if ctx.needs_input_grad[1]:
            db = product(a.mH, gradient).sum_to_size(b.shape)
        return da, db, None


class _Chain(torch.autograd.Function):
    """The product of many small matrices, or stacks of them of three dimensions. The gradients take
    the place of what was kept for them, in one piece of memory, so that they are good once; when they
    are asked for again, the product is computed again first. That memory is one of the saved tensors,
    so that torch.utils.checkpoint and saved_tensors_hooks see to it as to any."""

    @staticmethod
    def forward(
        ctx: Any, dims: List[int], stack: List[int], *matrices: torch.Tensor
    ) -> torch.Tensor:
        first, batch = matrices[0], stack[0] if stack else 1
        place = f"cuda:{first.device.index}" if first.is_cuda else "cpu"
        ctx.chain = _names[first.dtype], dims, batch, ctx.needs_input_grad[2:], place
        ctx.stack = stack
        ctx.is_fresh = True
        out = first.new_empty((*stack, dims[0], dims[-1]))
        ctx.save_for_backward(*matrices, _Chain._go_forward(ctx.chain, matrices, out))
        return out

    @staticmethod
    def _go_forward(chain: Any, matrices: Sequence[torch.Tensor], out: torch.Tensor) -> torch.Tensor:
        with Prepared(*chain) as work:
            memory = out.new_empty(work.places()[1])
            _Chain._go(work.forward, matrices, memory, out)
        return memory

    @staticmethod
    def _go(way: Any, matrices: Sequence[torch.Tensor], memory: torch.Tensor, end: torch.Tensor) -> None:
        """Goes a way with the matrices where they lie, or with copies where they cannot be read so."""
        if way(tuple(map(_handed, matrices)), _handed(memory), _handed(end)) is NotImplemented:
            copies = tuple(_handed(settled(matrix).contiguous()) for matrix in matrices)
            if way(copies, _handed(memory), _handed(end.contiguous())) is NotImplemented:
                raise BufferError("arrays: expected tensors whose memory can be read")

    @staticmethod
    @_uncast
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (*matrices, memory), (_, dims, _, wanted, _) = ctx.saved_tensors, ctx.chain
        again = torch.is_grad_enabled()  # gradients of gradients
        if again or _is_batched(gradients[0]):
            pairs = _shapes.products(dims)
            with torch.enable_grad():
                # A matrix may stand at several places, each of which has a gradient of its own.
                placed = [matrix.view_as(matrix) for matrix in matrices]
                product = _shapes.multiply(pairs, placed, torch.matmul)
            inputs = [matrix for matrix, is_wanted in zip(placed, wanted) if is_wanted]
            made = iter(torch.autograd.grad(product, inputs, gradients, create_graph=again))
            return (None, None, *(next(made) if is_wanted else None for is_wanted in wanted))
        if ctx.is_fresh:
            ctx.is_fresh = False
        else:
            out = torch.empty_like(gradients[0], memory_format=torch.contiguous_format)
            memory = _Chain._go_forward(ctx.chain, matrices, out)
        cotangent = settled(gradients[0])
        with Prepared(*ctx.chain) as work:
            _Chain._go(work.backward, matrices, memory, cotangent)
            places, _ = work.places()
        return (None, None, *_parts(memory, places, dims, ctx.stack))


def _handed(tensor: torch.Tensor) -> Any:
    """As the library takes it, which reads it though it requires a gradient, but of this type alone."""
    if not _has_exchange:
        return _capsule(tensor.detach())
    return tensor if type(tensor) is torch.Tensor else tensor.detach()


def _parts(
    memory: torch.Tensor, places: List[Optional[int]], dims: List[int], stack: List[int]
) -> List[Any]:
    """The gradients in the memory, each of which begins at a multiple of 64 bytes."""
    if len(set(dims)) == 1 and dims[0] > 0 and not stack:
        side, line = dims[0], 64 // memory.element_size()
        one = -(-side * side // line) * line
        parts = memory.as_strided((len(memory) // one, side, side), (one, side, 1)).unbind()
        return [None if place is None else parts[place // one] for place in places]
    strides = [[rows * cols] * len(stack) + [cols, 1] for rows, cols in zip(dims, dims[1:])]
    return [
        None if place is None else memory.as_strided((*stack, rows, cols), stride, place)
        for place, rows, cols, stride in zip(places, dims, dims[1:], strides)
    ]


# Dtypes in which PyTorch's products on the CPU are those of a BLAS.
_plain_on_cpu = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# For longer chains the order takes PyTorch longer to find than us.
_most_by_torch = 128
# From so many small matrices on, one call for all gradients is faster than PyTorch's records of each.
# Larger products take most of the time themselves, and PyTorch's threads are at work already.
_least_by_us, _largest_by_us = 20, 64
# On a GPU every product is a launch of PyTorch's, and one that is recorded takes longer than several
# of ours.
_least_by_us_on_gpu = 4
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
_multi_dot = torch.linalg.multi_dot
_mm = torch.mm


def _of_three(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """The product of three matrices, whose gradients take a seventh less than those of torch's multi_dot."""
    (m, k), (l, n) = a.shape, c.shape
    return _mm(_mm(a, b), c) if m * l * (k + n) <= k * n * (l + m) else _mm(a, _mm(b, c))


def _by_us(tensors: List[torch.Tensor]) -> Any:
    """The product as one function; None where they are no matrices, or on a GPU stacks of as many, of
    one dtype on one device that fit together, or tangents are wanted."""
    first = tensors[0]
    kinds = {(tensor.dtype, tensor.layout, tensor.device, tensor.is_neg()) for tensor in tensors}
    if kinds != {(first.dtype, torch.strided, first.device, False)}:
        return None
    stack = list(first.shape[:-2])
    shapes = [tensor.shape for tensor in tensors]
    if {shape[:-2] for shape in shapes} != {first.shape[:-2]} or min(map(len, shapes)) < 2:
        return None
    if len(stack) > first.is_cuda or _has_level() or _is_seen():
        return None
    dims = [*(shape[-2] for shape in shapes), shapes[-1][-1]]
    if [shape[-1] for shape in shapes] != dims[1:] or max(dims) > _largest_by_us:
        return None
    if first.is_complex():
        tensors = [tensor.resolve_conj() for tensor in tensors]
    return _Chain.apply(dims, stack, *tensors)


def _matrices_by_us(tensors: Sequence[torch.Tensor], dims: List[int]) -> Any:
    """The product of strided matrices of one dtype on one device that have these dims, as one
    function; None where PyTorch is at work that must see every product, or tangents are wanted."""
    first = tensors[0]
    if _is_seen() or _is_any_autocast_enabled() or _is_compiling():
        return None
    if _has_level() or any(map(torch.Tensor.is_neg, tensors)):
        return None
    if first.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    if first.is_complex():
        tensors = [tensor.resolve_conj() for tensor in tensors]
    return _Chain.apply(dims, [], *tensors)


def _on_gpu(tensors: List[torch.Tensor]) -> Any:
    """The product of tensors on a GPU as one function, or None."""
    if len(tensors) < _least_by_us_on_gpu or tensors[0].dtype not in _names or _is_compiling():
        return None
    if torch.cuda.is_current_stream_capturing():
        chain = _shapes.check([tensor.shape for tensor in tensors], 2)
        return _in_order(None, chain, tensors, torch.matmul)
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if first or last:
        tensors = list(tensors)
        tensors[0] = tensors[0][None, :] if first else tensors[0]
        tensors[-1] = tensors[-1][:, None] if last else tensors[-1]
    result = _by_us(tensors)
    if result is None:
        return None
    result = result[..., 0] if last else result
    return result[0] if first else result


def _with_gradients(tensors: List[torch.Tensor], device: Optional[str]) -> Any:
    """The product by PyTorch, whose order is one of fewest multiplications too and whose records of
    gradients cost least, or of many small matrices as one function; None where it is neither."""
    gradients = False
    for tensor in tensors:
        if type(tensor) not in _exact or tensor.layout is not torch.strided:
            return None
        gradients = gradients or tensor.requires_grad
    if not gradients or not torch.is_grad_enabled() or _transforms_active():
        return None
    first = tensors[0]
    if not _is_on(first, device):
        return None
    if first.is_cuda and not _is_any_autocast_enabled():
        return _on_gpu(tensors)
    if not first.is_cpu or first.dtype not in _plain_on_cpu or len(tensors) < 2:
        return None
    if _is_any_autocast_enabled():
        return None
    if len(tensors) >= _least_by_us and not _is_compiling():
        result = _by_us(tensors)
        if result is not None:
            return result
    if len(tensors) > _most_by_torch or any(tensor.ndim > 2 for tensor in tensors):
        return None
    try:
        if len(tensors) == 3 and first.ndim == tensors[2].ndim == 2:
            return _of_three(*tensors)
        return _multi_dot(tensors)
    except RuntimeError:
        return None  # what does not fit is said in NumPy's words


def _has_bf16() -> bool:
    """Whether PyTorch multiplies bfloat16 by oneDNN on this processor, and not in plain loops."""
    try:
        return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return False


def _learn_tensors() -> bool:
    """Has C ask exact tensors what they are by PyTorch's functions of C++, where those answer as PyTorch does."""
    with _without_modes(), _without_transforms(), torch.inference_mode(False):
        plain, wanting = (
            torch.zeros(1, dtype=torch.complex64, device="cpu", requires_grad=wants) for wants in (False, True)
        )
        tensors = [plain, wanting, plain.conj().imag, plain.conj()]
        return _mmchain.learn_tensors(_exact, *tensors, tuple(tensor._cdata for tensor in tensors))


for _kind in _exact:
    _general.shortcuts[_kind] = lambda tensors, options: _with_gradients(tensors, options[1])
# Few plain matrices are multiplied from C, by the same functions.
_mmchain.set_torch(
    _exact,
    _mm,
    torch.mv,
    torch.dot,
    torch.matmul,
    _multi_dot,
    torch.is_grad_enabled,
    _matrices_by_us,
    torch.get_float32_matmul_precision,
    _has_bf16(),
)
_learn_tensors()


def _autocast_dtype(tensors: List[torch.Tensor]) -> Optional[torch.dtype]:
    """What torch.autocast has products in, or None."""
    kind = tensors[0].device.type
    if not _is_any_autocast_enabled() or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As torch.autocast does, which leaves float64 and what is not real alone."""
    lowers = tensor.is_floating_point() and tensor.dtype is not torch.float64
    return tensor.to(dtype) if lowers else tensor


def _in_order(plan: Any, chain: _shapes.Chain, tensors: List[torch.Tensor], product: Any) -> Any:
    pairs = _shapes.planned_products(plan, chain, tensors)
    return chain.squeeze(_shapes.multiply(pairs, chain.matrices(tensors), product))


def _check_out(out: Any, chain: _shapes.Chain, like: torch.Tensor, dtype: torch.dtype) -> None:
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"out: expected a tensor, got {type(out).__name__}")
    expected = (tuple(chain.result), dtype, like.device)
    if (tuple(out.shape), out.dtype, out.device) != expected:
        raise ValueError(
            "out: expected shape {}, {}, on {}; got {}, {}, on {}".format(
                *expected, tuple(out.shape), out.dtype, out.device
            )
        )


def _dtype_for(plan: Any, tensors: List[torch.Tensor]) -> torch.dtype:
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    if plan is None:
        return dtype
    planned = _dtypes.get(_shapes.dtype_of(plan))
    if planned is None or torch.promote_types(dtype, planned) != planned:
        raise TypeError(f"arrays: expected those planned for, {plan.chain}, got {dtype}")
    return planned


def _one_device(tensors: List[torch.Tensor]) -> None:
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise ValueError(f"arrays: expected tensors on one device, got {names}")


def chain_of(tensors: List[torch.Tensor]) -> Any:
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    if dtype not in _names or not all(map(_has_memory, tensors)):
        return NotImplemented

    def convert(tensor: torch.Tensor) -> Any:
        plain = _readable(settled(tensor.to(dtype)), tensor is first)
        return plain if _has_exchange else _capsule(plain)

    first = tensors[0]
    return _mmchain.chain_of(_shapes.once(convert, tensors), False)


def _is_on(tensor: torch.Tensor, device: Optional[str]) -> bool:
    """Whether a device is the tensor's, by any of its names or none."""
    return device is None or device == tensor.device.type or device == str(tensor.device)


def _is_for_torch(first: torch.Tensor, options: _shapes.Options) -> bool:
    """Whether products that are recorded are PyTorch's own, whose records take the least. On the CPU its
    products of 16 bits are no BLAS's."""
    objective, device, precision = options
    if _shapes.is_reproducible(precision) or not _is_on(first, device):
        return False
    if first.is_cpu:
        return first.dtype in _plain_on_cpu
    return precision == "native" and objective != "energy"


def multiply(
    plan: Optional[_mmchain.Plan],
    tensors: List[torch.Tensor],
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
) -> Any:
    options = (objective, device, precision)
    lower = _autocast_dtype(tensors) if tensors else None
    if lower is not None:
        with torch.autocast(tensors[0].device.type, enabled=False):
            if plan is None:  # which says itself what dtype its products have
                tensors = _shapes.once(lambda tensor: _cast(tensor, lower), tensors)
            return multiply(plan, tensors, out, objective, device, precision)
    by_own = _shapes.is_reproducible(precision)
    if plan is None and out is None and not by_own:
        result = _with_gradients(tensors, device)
        if result is not None:
            return result
    chain = _shapes.check([tensor.shape for tensor in tensors], 2 if plan is None else 1)
    _one_device(tensors)
    dtype = _dtype_for(plan, tensors)
    gradients = is_differentiated(tensors)
    plain = all(map(_has_memory, tensors))
    is_seen = plain and _is_seen()
    lies = _place if plain and not gradients and not is_seen else id
    tensors = _shapes.once(lambda tensor: tensor.to(dtype), tensors, lies)
    if out is not None:
        _check_out(out, chain, tensors[0], dtype)
    if gradients and out is not None:
        raise RuntimeError("out: expected None, as a factor requires a gradient")
    if is_seen:
        if (by_own or dtype is torch.bool) and not _is_traced():  # of which PyTorch has no product
            with _without_modes():
                return multiply(plan, tensors, out, objective, device, precision)
        plain = False
    if plain and (dtype in _names or dtype in _integers):
        if not gradients:
            return _direct(plan, tensors, out, options)
        if plan is not None:  # each product is planned by itself, for what the plan is for
            options = (plan._arguments[1], device, precision)
        if _is_for_torch(tensors[0], options):
            return _in_order(plan, chain, tensors, torch.matmul)
        return _in_order(plan, chain, tensors, lambda a, b: _Product.apply(a, b, options))
    if dtype.is_floating_point or dtype.is_complex:
        _shapes.expect_own(precision)
    result = _in_order(plan, chain, tensors, torch.matmul)
    return result if out is None else out.copy_(result)


def multiply_integers(
    tensors: List[torch.Tensor], out: Any, options: _shapes.Options, rule: int
) -> Any:
    """multi_dot of integers by a rule of execute()."""
    chain = _shapes.check([tensor.shape for tensor in tensors])
    _one_device(tensors)
    names = [str(tensor.dtype).partition(".")[2] for tensor in tensors]
    dtype = getattr(torch, _shapes.integer_dtype(names, rule))
    expect_unseen("checked or mod")
    if not all(map(_has_memory, tensors)):
        raise TypeError("arrays: expected dense tensors with memory with checked or mod")
    if out is not None:
        _check_out(out, chain, tensors[0], dtype)
    if not tensors[0].is_cuda:
        views = _shapes.once(lambda tensor: settled(tensor).numpy(), tensors)
        result = torch.as_tensor(_numpy.multiply_integers(views, None, options, rule))
        return result if out is None else out.copy_(result)
    if dtype not in _integers:
        raise TypeError(f"arrays: expected integers that PyTorch multiplies, got {dtype}")
    tensors = _shapes.once(lambda tensor: tensor.to(dtype), tensors)
    # Nothing of bool overflows, so that nothing is checked.
    return _direct(None, tensors, out, options, 0 if dtype is torch.bool else rule)


# ---- semirings ------------------------------------------------------------------------------------


def _expect_plain(tensors: List[torch.Tensor], dtype: torch.dtype) -> None:
    """Raises where tensors are none of which products over semirings are computed: dense, without
    gradients, of real numbers or, but for running products on a GPU, of integers."""
    _one_device(tensors)
    expect_unseen("semiring")
    if is_differentiated(tensors):
        raise ValueError("semiring: expected tensors that require no gradients with it")
    if not all(map(_has_memory, tensors)):
        raise TypeError("arrays: expected dense tensors with memory with semiring")
    if dtype not in (torch.float32, torch.float64, *_integers):
        raise TypeError(f"arrays: expected float32, float64 or integers with semiring, got {dtype}")


def multiply_otherwise(
    tensors: List[torch.Tensor], out: Any, options: _shapes.Options, semiring: int, scaled: bool
) -> Any:
    """multi_dot over a semiring; scaled is False."""
    chain = _shapes.check([tensor.shape for tensor in tensors])
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    _expect_plain(tensors, dtype)
    if out is not None:
        _check_out(out, chain, tensors[0], dtype)
    tensors = _shapes.once(lambda tensor: settled(tensor.to(dtype)), tensors)
    if tensors[0].is_cuda:
        return _direct(None, tensors, out, options, -1 - semiring)
    views = _shapes.once(lambda tensor: tensor.numpy(), tensors)
    result = torch.as_tensor(_numpy.multiply_otherwise(views, None, options, semiring, scaled))
    return result if out is None else out.copy_(result)


# ---- running products -----------------------------------------------------------------------------


class _Names:
    """PyTorch's functions by NumPy's names, for tensors on a device."""

    matmul = staticmethod(torch.matmul)
    concatenate = staticmethod(torch.cat)
    stack = staticmethod(torch.stack)

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def eye(self, n: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.eye(n, dtype=dtype, device=self.device)


def as_array(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _of_integers(what: Any, tensors: List[Optional[torch.Tensor]], shapes: Any, out: Any) -> Any:
    """Running products of whole numbers in the host's memory, by NumPy's views of it."""
    views = [None if tensor is None else settled(tensor).numpy() for tensor in tensors]
    if out is None or out.is_neg():
        result = torch.from_numpy(_numpy.running(what, views, shapes, None))
        return result if out is None else out.copy_(result)
    _numpy.running(what, views, shapes, out.numpy())
    return out


class _States(torch.autograd.Function):
    """Running products, or states of a recurrence, whose gradients are another recurrence.

    In the order in which states follow one another, x_s = a_s x_(s-1) + b_s, or x_(s-1) a_s. Where
    g_s is the cotangent of x_s alone, that of all that comes of it is l_s = g_s + a_(s+1)^H l_(s+1),
    or g_s + l_(s+1) a_(s+1)^H; the gradients of a_s and b_s are l_s x_(s-1)^H, or x_(s-1)^H l_s, and
    l_s. So they take two products a factor, besides those of the way forward.
    """

    @staticmethod
    def forward(ctx: Any, what: Any, shapes: Any, *inputs: Optional[torch.Tensor]) -> Any:
        ctx.what = what
        ctx.given = [x is not None for x in inputs]
        states = _compute(what, inputs, shapes, None)
        ctx.save_for_backward(*[x for x in inputs if x is not None], states)
        return states

    @staticmethod
    @_uncast
    def backward(ctx: Any, cotangent: torch.Tensor) -> Any:
        what = ctx.what
        saved = list(ctx.saved_tensors)
        states = saved.pop()
        factors, initial, addend = [saved.pop(0) if given else None for given in ctx.given]

        def turn(x: Any) -> Any:
            return x.flip(-3) if what.reverse else x

        factors, states, slopes = turn(factors), turn(states), turn(cotangent)
        of_initial = None
        if what.exclusive:  # each state is the one before its factor
            before = states
            of_initial = slopes[..., 0, :, :]
            slopes = torch.cat([slopes[..., 1:, :, :], torch.zeros_like(slopes[..., :1, :, :])], -3)
        else:
            first = states[..., :1, :, :] if initial is None else initial[..., None, :, :]
            before = torch.cat([first, states[..., :-1, :, :]], -3)
        right = not what.recurrence and not what.reverse
        if right:  # l_s^H = a_(s+1) l_(s+1)^H + g_s^H
            later = _adjoint(factors[..., 1:, :, :], slopes.mH).mH
            of_factors = torch.matmul(before.mH, later)
        else:
            later = _adjoint(factors[..., 1:, :, :].mH, slopes)
            of_factors = torch.matmul(later, before.mH)
        if initial is None:  # the first state is the first factor
            of_factors = torch.cat([later[..., :1, :, :], of_factors[..., 1:, :, :]], -3)
            of_initial = None
        else:
            first, slope = factors[..., 0, :, :].mH, later[..., 0, :, :]
            more = torch.matmul(slope, first) if right else torch.matmul(first, slope)
            of_initial = more if of_initial is None else of_initial + more
        of_addend = None if addend is None else turn(later)
        return None, None, turn(of_factors), of_initial, of_addend


def _adjoint(factors: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    """All l_s = factors_s l_(s+1) + slopes_s, where the last is the last slope."""
    if slopes.shape[-3] < 2:
        return slopes
    back = _running.Running(True, True, False, None)
    last = slopes[..., -1, :, :]
    shapes = _running.fit(back, factors.shape, last.shape, slopes[..., :-1, :, :].shape)
    inputs = [factors, last, slopes[..., :-1, :, :]]
    if _is_batched(slopes):
        inputs = [x.expand(shape) for x, shape in zip(inputs, shapes.inputs)]
        names = _Names(slopes.device)
        rest = _running.by_products(back, inputs, names, lambda x, axis: x.flip(axis))
    else:
        rest = running(back, inputs, shapes, None)
    return torch.cat([rest, slopes[..., -1:, :, :]], -3)


# The sides, and elements, of states whose recurrences are one launch or few on a GPU.
_most_rows, _most_elements = 32, 256


def _has_own_gradients(what: Any, given: List[torch.Tensor], shapes: Any) -> bool:
    """Whether gradients are a recurrence of ours, which is no slower than PyTorch's."""
    rows, columns = shapes.out[-2:]
    if not all(map(_has_memory, given)) or _is_seen() or _is_compiling():
        return False
    if _has_level() or what.device not in (None, "cpu"):
        return False
    fits = rows <= _most_rows and rows * columns <= _most_elements
    return shapes.out[-3] > 0 and (given[0].is_cpu or fits)


def running(
    what: Any, tensors: List[Optional[torch.Tensor]], shapes: Any, out: Any
) -> Any:
    """Running products, or states of a recurrence; shapes are those that tensors broadcast to."""
    given = [tensor for tensor in tensors if tensor is not None]
    _one_device(given)
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in given))
    if what.semiring:
        _expect_plain(given, dtype)
    if dtype in _integers and given[0].is_cpu and all(map(_has_memory, given)):
        expect_unseen("running products of integers")
        return _of_integers(what, tensors, shapes, out)
    if dtype not in _names:
        raise TypeError(f"{what.name}: expected tensors of floating-point or complex elements, got {dtype}")
    gradients = is_differentiated(given)
    if gradients and out is not None:
        raise RuntimeError("out: expected None, as a tensor requires a gradient")
    if out is not None and (out.dtype, out.device) != (dtype, given[0].device):
        raise TypeError(f"out: expected a tensor of {dtype} on {given[0].device}")
    inputs = [
        None if tensor is None else tensor.to(dtype).expand(shape)
        for tensor, shape in zip(tensors, shapes.inputs)
    ]
    if gradients and _has_own_gradients(what, given, shapes):
        return _States.apply(what, shapes, *inputs)
    if gradients or _is_seen() or not all(map(_has_memory, given)):
        with _as_given(given[0]):
            result = _running.by_products(
                what, inputs, _Names(given[0].device), lambda x, axis: x.flip(axis)
            )
        return result if out is None else out.copy_(result)
    return _compute(what, inputs, shapes, out)


def _compute(what: Any, inputs: Sequence[Optional[torch.Tensor]], shapes: Any, out: Any) -> Any:
    """Without gradients, of tensors of one dtype that have memory."""
    inputs = [None if x is None else settled(x) for x in inputs]
    factors: Any = inputs[0]
    result = factors.new_empty(shapes.out) if out is None else out
    if result.is_cuda and result.numel() == 0:  # such tensors have no address
        return result
    if _fill(what, inputs, result):
        return result
    inputs = [None if x is None else x.contiguous() for x in inputs]
    fresh = result.new_empty(shapes.out)
    if not _fill(what, inputs, fresh):
        raise ValueError("expected tensors that can be read")
    return fresh if out is None else out.copy_(fresh)


def _fill(what: Any, inputs: List[Optional[torch.Tensor]], out: torch.Tensor) -> bool:
    plain = out.detach()
    stream = None
    factors, initial, addend, made = arrays = [*inputs, plain]
    if not _has_exchange:
        factors, initial, addend, made = (None if x is None else _capsule(x) for x in arrays)
        if out.is_cuda:
            stream = torch.cuda.current_stream(out.device).cuda_stream
    flags = (what.recurrence, what.reverse, what.exclusive, what.device, stream, False, what.semiring, None)
    return _mmchain.scan(factors, initial, addend, made, *flags) is not NotImplemented
