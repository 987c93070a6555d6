"""CuPy arrays, on CuPy's current stream."""

from __future__ import annotations

from typing import Any, List, Optional

import cupy

from . import _mmchain, _shapes
from ._types import float_names, integer_names

_names = {name: short for name, short in float_names.items() if name != "bfloat16"}  # which CuPy lacks
_dtypes = {name: cupy.dtype(dtype) for dtype, name in [*_names.items(), *integer_names.items()]}


def _capsule(array: Any) -> Any:
    """Without waiting: the work goes to the current stream, where the array is."""
    return array.__dlpack__(stream=-1)


def _execute(
    plan: Any, arrays: List[Any], result: Any, options: _shapes.Options, rule: int = 0
) -> bool:
    stream = cupy.cuda.get_current_stream().ptr
    capsules = [_capsule(array) for array in arrays]
    done = _mmchain.execute(plan, capsules, _capsule(result), *options, stream, False, rule)
    return done is not NotImplemented


def _readable(array: Any, first: bool) -> Any:
    return array if _mmchain.readable(_capsule(array), first) else cupy.ascontiguousarray(array)


def chain_of(arrays: List[Any]) -> Any:
    dtype = cupy.result_type(*arrays)
    if dtype.name not in _names:
        return NotImplemented

    def convert(array: Any) -> Any:
        return _capsule(_readable(array.astype(dtype, copy=False), array is first))

    first = arrays[0]
    return _mmchain.chain_of(_shapes.once(convert, arrays), False)


def _direct(
    plan: Any,
    chain: _shapes.Chain,
    arrays: List[Any],
    out: Any,
    options: _shapes.Options,
    rule: int = 0,
) -> Any:
    result = cupy.empty(chain.result, arrays[0].dtype) if out is None else out
    if _execute(plan, arrays, result, options, rule):
        return result
    first = arrays[0]
    arrays = _shapes.once(lambda array: _readable(array, array is first), arrays)
    fresh = cupy.empty(chain.result, arrays[0].dtype)
    if not _execute(plan, arrays, fresh, options, rule):
        raise _shapes.does_not_fit(plan, chain)
    if out is None:
        return fresh
    out[...] = fresh
    return out


def _check_out(out: Any, chain: _shapes.Chain, dtype: Any) -> None:
    if not isinstance(out, cupy.ndarray):
        raise TypeError(f"out: expected a CuPy array, got {type(out).__name__}")
    if (tuple(out.shape), out.dtype) != (chain.result, dtype) or not out.flags.c_contiguous:
        raise ValueError(
            f"out: expected C-contiguous {dtype} of shape {chain.result}, got {out.dtype} of shape "
            f"{tuple(out.shape)}"
        )


def _dtype_for(plan: Any, arrays: List[Any]) -> Any:
    dtype = cupy.result_type(*arrays)
    if plan is None:
        return dtype
    planned = _dtypes.get(_shapes.dtype_of(plan))
    if planned is None or not cupy.can_cast(dtype, planned, "safe"):
        raise TypeError(f"arrays: expected those planned for, {plan.chain}, got {dtype}")
    return planned


def multiply(
    plan: Optional[_mmchain.Plan],
    arrays: List[Any],
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
) -> Any:
    chain = _shapes.check([array.shape for array in arrays], 2 if plan is None else 1)
    dtype = _dtype_for(plan, arrays)
    if out is not None:
        _check_out(out, chain, dtype)
    with arrays[0].device:
        of_one = dtype.name in integer_names and all(array.dtype == dtype for array in arrays)
        if dtype.name in _names or of_one:
            arrays = _shapes.once(lambda array: array.astype(dtype, copy=False), arrays)
            return _direct(plan, chain, arrays, out, (objective, device, precision))
        if dtype.kind not in "biu":
            _shapes.expect_own(precision)
        pairs = _shapes.planned_products(plan, chain, arrays)
        result = chain.squeeze(_shapes.multiply(pairs, chain.matrices(arrays), cupy.matmul))
        if out is None:
            return result
        out[...] = result
        return out


def multiply_integers(arrays: List[Any], out: Any, options: _shapes.Options, rule: int) -> Any:
    """multi_dot of integers by a rule of execute()."""
    chain = _shapes.check([array.shape for array in arrays])
    dtype = cupy.dtype(_shapes.integer_dtype([array.dtype.name for array in arrays], rule))
    if out is not None:
        _check_out(out, chain, dtype)
    with arrays[0].device:
        arrays = _shapes.once(lambda array: array.astype(dtype, copy=False), arrays)
        # Nothing of bool overflows, so that nothing is checked.
        return _direct(None, chain, arrays, out, options, 0 if dtype == bool else rule)


# ---- semirings ------------------------------------------------------------------------------------


def _expect_dtype(dtype: Any) -> None:
    if dtype.name not in ("float32", "float64", "int64", "bool"):
        raise TypeError(f"arrays: expected float32, float64, int64 or bool with semiring, got {dtype}")


def multiply_otherwise(
    arrays: List[Any], out: Any, options: _shapes.Options, semiring: int, scaled: bool
) -> Any:
    """multi_dot over a semiring; scaled is False."""
    chain = _shapes.check([array.shape for array in arrays])
    dtype = cupy.result_type(*arrays)
    _expect_dtype(dtype)
    if out is not None:
        _check_out(out, chain, dtype)
    with arrays[0].device:
        arrays = _shapes.once(lambda array: array.astype(dtype, copy=False), arrays)
        return _direct(None, chain, arrays, out, options, -1 - semiring)


# ---- running products -----------------------------------------------------------------------------


def as_array(array: Any) -> Any:
    return array


def running(what: Any, arrays: List[Any], shapes: Any, out: Any) -> Any:
    """Running products, or states of a recurrence; shapes are those that arrays broadcast to."""
    given = [array for array in arrays if array is not None]
    dtype = cupy.result_type(*given)
    if what.semiring:
        _expect_dtype(dtype)
    if dtype.name not in _names:
        raise TypeError(f"{what.name}: expected arrays of floating-point or complex elements, got {dtype}")
    if out is not None and (not isinstance(out, cupy.ndarray) or out.dtype != dtype):
        raise TypeError(f"out: expected a CuPy array of {dtype}")
    with given[0].device:
        inputs = [
            None if x is None else cupy.ascontiguousarray(cupy.broadcast_to(x.astype(dtype), shape))
            for x, shape in zip(arrays, shapes.inputs)
        ]
        fresh = cupy.empty(shapes.out, dtype)
        if fresh.size == 0:  # such arrays have no address
            return fresh if out is None else out
        factors, initial, addend = (None if x is None else _capsule(x) for x in inputs)
        stream = cupy.cuda.get_current_stream().ptr
        flags = (what.recurrence, what.reverse, what.exclusive, what.device, stream, False, what.semiring, None)
        done = _mmchain.scan(factors, initial, addend, _capsule(fresh), *flags)
        if done is NotImplemented:
            raise ValueError("expected arrays that can be read")
        if out is None:
            return fresh
        out[...] = fresh
        return out
