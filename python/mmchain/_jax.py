"""JAX arrays.

They cannot be written, so results come in memory of ours (CUDA) or NumPy's (CPU) that JAX takes
over. Tracers (under jit, grad, vmap) and sharded arrays are multiplied by jax.numpy.matmul in the
planned order.
"""

from __future__ import annotations

from typing import Any, List, Optional

import jax
import jax.numpy as jnp
import numpy as np

from . import _mmchain, _numpy, _shapes

_names = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}


def _platform(arrays: List[Any]) -> str:
    """ "cpu" or "gpu" where all lie whole on one such device, else ""."""
    places = set()
    for array in arrays:
        if isinstance(array, jax.core.Tracer) or len(array.devices()) != 1:
            return ""
        places |= array.devices()
    return places.pop().platform if len(places) == 1 else ""


def _on_cuda(
    plan: Any, chain: _shapes.Chain, arrays: List[Any], dtype: Any, options: _shapes.Options
) -> Any:
    jax.block_until_ready(arrays)
    (place,) = arrays[0].devices()
    # JAX numbers devices as the process sees them, as CUDA does.
    number = getattr(place, "local_hardware_id", None)
    where = f"cuda:{place.id if number is None else number}"
    result = _mmchain.Array(where, _names[dtype.name], chain.result)
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
    if platform not in ("cpu", "gpu") or dtype.name not in _names:
        return NotImplemented
    arrays = _shapes.once(lambda array: array.astype(dtype), arrays)
    if platform == "cpu":
        return _numpy.chain_of(_shapes.once(np.asarray, arrays))
    return _mmchain.chain_of(_shapes.once(lambda array: array.__dlpack__(), arrays), False)


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
    arrays = [jnp.asarray(array) for array in arrays]
    chain = _shapes.check([array.shape for array in arrays], 2 if plan is None else 1)
    dtype = jnp.result_type(*arrays)
    options = (objective, device, precision)
    if dtype.name in _names:
        arrays = _shapes.once(lambda array: array.astype(dtype), arrays)
        platform = _platform(arrays)
        if platform == "cpu":
            return _on_cpu(plan, arrays, options)
        if platform == "gpu":
            return _on_cuda(plan, chain, arrays, dtype, options)
    pairs = _shapes.products(chain.dims) if plan is None else plan.products()
    return chain.squeeze(_shapes.multiply(pairs, chain.matrices(arrays), jnp.matmul))
