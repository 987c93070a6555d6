"""JAX arrays.

They cannot be written, so results come in memory of ours (CUDA) or NumPy's (CPU) that JAX takes
over. Under jit and vmap a chain is one call of ours where XLA compiles for the CPU (a foreign
function, src/xla.c); everywhere else, and where it is differentiated, it is multiplied by
jax.numpy.matmul in the planned order. Sharded arrays are planned as by ranks (_jax_sharded.py).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache, partial
from math import prod
from typing import Any, Dict, List, Optional

import jax
import jax.numpy as jnp
import numpy as np

from . import _general, _jax_sharded, _mmchain, _numpy, _running, _shapes
from ._types import float_names, integer_names

_dtypes = {short: name for name, short in [*float_names.items(), *integer_names.items()]}


# ---- under jit ------------------------------------------------------------------------------------

_target = "mmchain_chain"
_objectives = ("time", "energy", "flops")
_precisions = ("native", "faithful", "fast")


@lru_cache(None)
def _is_registered() -> bool:
    """Registers our function with XLA; False where this JAX has another interface for such."""
    try:
        header = os.path.join(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
        with open(header) as text:
            numbers = re.findall(r"^#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text.read(), re.M)
        version = {name: int(number) for name, number in numbers}
        if version["MAJOR"] != 0:
            return False
        capsule = _mmchain.xla_target(version["MINOR"])
        jax.ffi.register_ffi_target(_target, capsule, platform="cpu")
        return True
    except Exception:  # what an older or a newer JAX lacks; its own products are there
        return False


def _by_xla(*matrices: Any) -> Any:
    """The product in the planned order by XLA's own products."""
    pairs = _shapes.products(_shapes.check([matrix.shape for matrix in matrices]).dims)
    return _shapes.multiply(pairs, matrices, jnp.matmul)


def _by_us(number: int, *matrices: Any) -> Any:
    chain = _shapes.check([matrix.shape for matrix in matrices])
    result = jax.ShapeDtypeStruct(chain.result, matrices[0].dtype)
    # vmap puts an axis before those that are here, so that all must have as many.
    ndim = len(chain.result)
    matrices = _shapes.once(lambda a: jnp.expand_dims(a, tuple(range(ndim - a.ndim))), matrices)
    call = jax.ffi.ffi_call(_target, result, vmap_method="expand_dims")
    return call(*matrices, options=np.int64(number))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _chain(number: int, *matrices: Any) -> Any:
    """One call of ours on the CPU. Differentiated, it is a tree of XLA's products: they keep the
    intermediate ones, so that gradients go back through the planned order."""
    return jax.lax.platform_dependent(*matrices, cpu=partial(_by_us, number), default=_by_xla)


@_chain.defjvp
def _chain_jvp(number: int, primals: Any, tangents: Any) -> Any:
    return jax.jvp(_by_xla, primals, tangents)


def _varies(array: Any) -> bool:
    """Whether it is each device's own under shard_map, of which foreign functions would lose the axes."""
    aval = getattr(array, "aval", None)
    axes = getattr(getattr(aval, "mat", None), "varying", None)  # since JAX 0.10
    return bool(axes or getattr(aval, "vma", None))


def _number_of(arrays: List[Any], options: _shapes.Options) -> Optional[int]:
    """The options as a number for our function; None where the chain is not for it."""
    objective, device, precision = options
    if device not in (None, "cpu") or objective not in _objectives or precision not in _precisions:
        return None
    if not any(isinstance(array, jax.core.Tracer) for array in arrays) or not _is_registered():
        return None
    if any(map(_varies, arrays)):
        return None
    return 3 * _objectives.index(objective) + _precisions.index(precision)


# ---- small arrays that come again ----------------------------------------------------------------

# To make an array of a result takes JAX some 20 us where it is not its own function's. So arrays of the same shapes
# are multiplied by a compiled function once they have come so often, which JAX compiles for its own products at once.
_OFTEN, _MOST_KEYS, _MOST_MULTIPLICATIONS = 64, 4096, 1 << 24
_times: Dict[Any, int] = {}


@lru_cache(None)
def _compiled(options: _shapes.Options) -> Any:
    return jax.jit(lambda *arrays: multiply(None, list(arrays), None, *options))


def _key_of(arrays: List[Any], options: _shapes.Options) -> Any:
    return options, tuple([(array.aval, array.sharding) for array in arrays])


def _multiply_again(arrays: List[Any], options: _shapes.Options) -> Any:
    """The product of arrays of which such came often; else None."""
    for array in arrays:
        if type(array) is not _concrete:
            return None
    if _times.get(_key_of(arrays, options), 0) < _OFTEN or jax.config.jax_disable_jit:
        return None
    return _compiled(options)(*arrays) if len({*map(id, arrays)}) == len(arrays) else None


def _count(arrays: List[Any], chain: _shapes.Chain, options: _shapes.Options) -> None:
    """Notes that arrays on the CPU have come, where a function would compute as they are computed."""
    objective, device, precision = options
    if device not in (None, "cpu") or objective not in _objectives or precision not in _precisions:
        return
    dims = chain.dims
    each = dims[0] * sum(k * n for k, n in zip(dims[1:], dims[2:]))
    if each * prod(chain.stack) > _MOST_MULTIPLICATIONS or any(array.weak_type for array in arrays):
        return
    if len(_times) >= _MOST_KEYS:
        _times.clear()
    key = _key_of(arrays, options)
    _times[key] = _times.get(key, 0) + 1


# ---- arrays with memory ---------------------------------------------------------------------------


def _platform(arrays: List[Any]) -> str:
    """ "cpu" or "gpu" where all lie whole on one such device, else ""."""
    places = set()
    for array in arrays:
        if isinstance(array, jax.core.Tracer) or len(array.devices()) != 1:
            return ""
        places |= array.devices()
    return places.pop().platform if len(places) == 1 else ""


def _lies_apart(arrays: List[Any]) -> bool:
    """Whether some array lies on several devices, and none is traced."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays) and any(
        len(array.devices()) > 1 for array in arrays
    )


def _on_cuda(
    plan: Any, chain: _shapes.Chain, arrays: List[Any], dtype: Any, options: _shapes.Options
) -> Any:
    jax.block_until_ready(arrays)
    (place,) = arrays[0].devices()
    # JAX numbers devices as the process sees them, as CUDA does.
    number = getattr(place, "local_hardware_id", None)
    where = f"cuda:{place.id if number is None else number}"
    result = _mmchain.Array(where, float_names[dtype.name], chain.result)
    capsules = _shapes.once(lambda array: array.__dlpack__(), arrays)
    done = _mmchain.execute(plan, capsules, result.__dlpack__(), *options, None, False)
    if done is NotImplemented:
        raise _shapes.does_not_fit(plan, chain)
    return jax.dlpack.from_dlpack(result)


def _on_cpu(plan: Any, arrays: List[Any], options: _shapes.Options) -> Any:
    (place,) = arrays[0].devices()
    # numpy.asarray() of an array on the CPU is a view.
    views = _shapes.once(np.asarray, arrays)
    result = _mmchain.execute(plan, views, None, *options, None, False)
    if result is NotImplemented:
        result = _numpy.multiply(plan, views, None, *options)
    return jax.device_put(result, place)


def chain_of(arrays: List[Any]) -> Any:
    if not all(isinstance(array, jax.Array) for array in arrays):
        return NotImplemented
    platform = _platform(arrays)
    dtype = jnp.result_type(*arrays)
    if platform not in ("cpu", "gpu") or dtype.name not in float_names:
        return NotImplemented
    arrays = _shapes.once(lambda array: array.astype(dtype), arrays)
    if platform == "cpu":
        return _numpy.chain_of(_shapes.once(np.asarray, arrays))
    return _mmchain.chain_of(_shapes.once(lambda array: array.__dlpack__(), arrays), False)


def _dtype_for(plan: _mmchain.Plan, dtype: Any) -> Any:
    """The planned dtype, as far as JAX is asked to have such, for arrays that are promoted to another."""
    planned = _dtypes.get(_shapes.dtype_of(plan))
    there = None if planned is None else jax.dtypes.canonicalize_dtype(planned)
    if there is None or jnp.promote_types(dtype, there) != there:
        raise TypeError(f"arrays: expected those planned for, {plan.chain}, got {dtype}")
    return there


def multiply(
    plan: Optional[_mmchain.Plan],
    arrays: List[Any],
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
) -> Any:
    if out is not None:
        raise TypeError("out: expected None, as JAX arrays cannot be written")
    if plan is None and precision == "native":
        product = _jax_sharded.multiply_known(arrays)
        if product is not None:
            return product
    arrays = [array if isinstance(array, jax.Array) else jnp.asarray(array) for array in arrays]
    given = arrays
    chain = _shapes.check([array.shape for array in arrays], 2 if plan is None else 1)
    dtype = jnp.result_type(*arrays)
    options = (objective, device, precision)
    if plan is None and all(type(array) is _concrete for array in arrays) and _platform(arrays) == "cpu":
        _count(arrays, chain, options)
    if dtype.name in float_names:
        if any(array.dtype != dtype for array in arrays):
            arrays = _shapes.once(lambda array: array.astype(dtype), arrays)
        platform = _platform(arrays)
        if platform == "cpu":
            return _on_cpu(plan, arrays, options)
        if platform == "gpu":
            return _on_cuda(plan, chain, arrays, dtype, options)
        if plan is None and precision == "native" and _lies_apart(arrays):
            product = _jax_sharded.multiply(chain.matrices(arrays), dtype)
            if product is not NotImplemented:
                _jax_sharded.remember(given, dtype)
                return chain.squeeze(product)
        number = _number_of(arrays, options) if plan is None else None
        if number is not None:
            return chain.squeeze(_chain(number, *chain.matrices(arrays)))
    if plan is not None:
        planned = _dtype_for(plan, dtype)
        arrays = _shapes.once(lambda array: array.astype(planned), arrays)
    if not jnp.issubdtype(dtype, jnp.integer):
        _shapes.expect_own(precision)
    pairs = _shapes.planned_products(plan, chain, arrays)
    return chain.squeeze(_shapes.multiply(pairs, chain.matrices(arrays), jnp.matmul))


_concrete = type(jnp.zeros(()))
_general.shortcuts[_concrete] = _multiply_again


# ---- running products -----------------------------------------------------------------------------


def as_array(array: Any) -> Any:
    return jnp.asarray(array)


def running(what: Any, arrays: List[Any], shapes: Any, out: Any) -> Any:
    """Running products, or states of a recurrence; shapes are those that arrays broadcast to. Under
    jit, vmap and grad, and for sharded arrays, they are XLA's products."""
    if out is not None:
        raise TypeError("out: expected None, as JAX arrays cannot be written")
    given = [array for array in arrays if array is not None]
    dtype = jnp.result_type(*given)
    if dtype.name not in float_names:
        raise TypeError(f"{what.name}: expected arrays of floating-point or complex elements, got {dtype}")
    arrays = [None if array is None else array.astype(dtype) for array in arrays]
    platform = _platform([array for array in arrays if array is not None])
    if platform == "cpu":
        (place,) = given[0].devices()
        views = [None if array is None else np.asarray(array) for array in arrays]
        return jax.device_put(_numpy.running(what, views, shapes, None), place)
    arrays = [
        None if array is None else jnp.broadcast_to(array, shape)
        for array, shape in zip(arrays, shapes.inputs)
    ]
    if platform == "gpu":
        return _running_on_cuda(what, arrays, shapes, dtype)
    if what.recurrence:
        return _follow(what, *arrays)
    return _running.by_products(what, arrays, jnp, jnp.flip)


def _follow(what: Any, factors: Any, initial: Any, addend: Any) -> Any:
    """All states of a recurrence by one loop of XLA's, which it traces once however long it is."""

    def step(state: Any, given: Any) -> Any:
        factor, more = given
        after = jnp.matmul(factor, state)
        after = after if more is None else after + more
        return after, state if what.exclusive else after

    along = [None if x is None else jnp.moveaxis(x, -3, 0) for x in (factors, addend)]
    if factors.shape[-3] and any(map(_varies, along)):
        # States vary along the axes of all that they are made of, as the one that the loop begins with must.
        after, _ = step(initial, [None if x is None else x[0] for x in along])
        initial = jnp.where(False, jax.lax.stop_gradient(after), initial)
    _, states = jax.lax.scan(step, initial, tuple(along), reverse=what.reverse)
    return jnp.moveaxis(states, 0, -3)


def _running_on_cuda(what: Any, arrays: List[Any], shapes: Any, dtype: Any) -> Any:
    arrays = jax.block_until_ready(arrays)
    (place,) = arrays[0].devices()
    number = getattr(place, "local_hardware_id", None)
    where = f"cuda:{place.id if number is None else number}"
    result = _mmchain.Array(where, float_names[dtype.name], shapes.out)
    factors, initial, addend = (None if x is None else x.__dlpack__() for x in arrays)
    flags = (what.recurrence, what.reverse, what.exclusive, what.device, None, False, 0, None)
    done = _mmchain.scan(factors, initial, addend, result.__dlpack__(), *flags)
    if done is NotImplemented:
        raise ValueError("expected arrays that can be read")
    return jax.dlpack.from_dlpack(result)
