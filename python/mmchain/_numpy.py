"""NumPy arrays, and what becomes one, that need a conversion, a copy or another's arithmetic."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from . import _mmchain, _shapes
from ._host import unmasked
from ._swap import theirs

_direct = "efdFD"
_plan_dtypes = {"f16": "e", "f32": "f", "f64": "d", "c64": "F", "c128": "D", "bool": "?"}
_plan_dtypes.update({f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)})


def _is_bf16(dtype: np.dtype) -> bool:
    """Whether it is the bfloat16 of ml_dtypes, of which NumPy knows nothing."""
    return dtype.itemsize == 2 and dtype.kind == "V" and dtype.name == "bfloat16"  # a name takes 3 us


def _dtype_for(plan: Optional[_mmchain.Plan], arrays: List[np.ndarray]) -> np.dtype:
    dtype = np.result_type(*arrays)
    if plan is None:
        return dtype
    name = _shapes.dtype_of(plan)
    planned = dtype if name == "bf16" and _is_bf16(dtype) else np.dtype(_plan_dtypes.get(name, "V"))
    for array in arrays:
        if not (array.dtype == planned or np.can_cast(array.dtype, planned, "safe")):
            raise TypeError(f"arrays: expected {name} as planned, got {array.dtype}")
    return planned


def _by_numpy(pairs: Any, chain: _shapes.Chain, arrays: List[Any]) -> Any:
    """The planned order in NumPy's arithmetic: integers, objects, subclasses."""
    if chain.stack:
        return chain.squeeze(_shapes.multiply(pairs, chain.matrices(arrays), np.matmul))
    matrices = [np.atleast_2d(array) for array in arrays]
    if not chain.column:
        matrices[-1] = matrices[-1].T
    result = _shapes.multiply(pairs, matrices, np.dot)
    if not chain.row and not chain.column:
        return result[0, 0]
    return result if chain.row and chain.column else result.ravel()


def _readable(array: np.ndarray, first: bool) -> np.ndarray:
    """The array, or a copy where it is strided in both dimensions, or not aligned."""
    probe = array.view(np.float16) if array.dtype == np.uint16 else array
    return array if _mmchain.readable(probe, first) else np.array(array, order="C", copy=True)


def _are_mixed_integers(arrays: List[Any]) -> bool:
    """Whether it matters which are multiplied first: NumPy promotes pair by pair, and integers of a
    pair may overflow. The order of their bytes does not matter."""
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1:
        dtypes = {dtype.newbyteorder("=") for dtype in dtypes}
    return len(dtypes) > 1 and any(dtype.kind in "biu" for dtype in dtypes)


def _dispatches(array: Any) -> bool:
    """Whether its type says what NumPy's functions do with it, as those of units do."""
    own = getattr(type(array), "__array_function__", None)
    return own is not None and own is not np.ndarray.__array_function__


def multiply_integers(arrays: List[Any], out: Any, options: _shapes.Options, rule: int) -> Any:
    """multi_dot of integers by a rule of execute()."""
    arrays = [unmasked(array) for array in arrays]
    chain = _shapes.check([array.shape for array in arrays])
    names = [dtype.name for dtype in {array.dtype: None for array in arrays}]  # a name takes 3 us
    dtype = np.dtype(_shapes.integer_dtype(names, rule))
    arrays = _converted(arrays, dtype)
    result = _mmchain.execute(None, arrays, None, *options, None, False, rule)
    if result is NotImplemented:
        raise _shapes.does_not_fit(None, chain)
    return result if out is None else _store(result, chain, len(arrays), dtype, out)


def multiply_otherwise(
    arrays: List[Any], out: Any, options: _shapes.Options, semiring: int, scaled: bool
) -> Any:
    """multi_dot over a semiring, or with exponents."""
    arrays = [unmasked(array) for array in arrays]
    chain = _shapes.check([array.shape for array in arrays])
    dtype = np.result_type(*arrays)
    if not dtype.isnative and (dtype.char in _direct or dtype.kind in "iu"):
        dtype = dtype.newbyteorder("=")
    if not _is_direct(arrays, dtype):
        raise TypeError(f"arrays: expected NumPy's, of numbers or bool, got {dtype}")
    exponents = np.zeros(chain.stack, np.int64) if scaled else None
    rule: List[Any] = [-1 - semiring if semiring else 0]
    if scaled:
        rule.append(exponents)
    more = (None, *options, None, _is_bf16(dtype), *rule)
    result = _mmchain.execute(None, arrays, *more)
    if result is NotImplemented:
        result = _mmchain.execute(None, _converted(arrays, dtype), *more)
    if result is NotImplemented:
        raise _shapes.does_not_fit(None, chain)
    if out is not None:
        result = _store(result, chain, len(arrays), dtype, out)
    if exponents is None:
        return result
    return result, exponents if chain.stack else int(exponents)


def _as_given(array: Any) -> np.ndarray:
    """The array as NumPy's functions would take it; one of a file is an array like any other."""
    return np.asarray(array) if type(array) is np.memmap else np.asanyarray(array)


def _is_direct(arrays: List[Any], dtype: np.dtype) -> bool:
    """Whether mmchain multiplies them, and not NumPy: no subclass, no mixed integers."""
    direct = dtype.char in _direct or dtype.kind in "biu" or _is_bf16(dtype)
    return direct and all(type(array) is np.ndarray for array in arrays)


def _converted(arrays: List[np.ndarray], dtype: np.dtype) -> List[np.ndarray]:
    """The arrays in the dtype, bfloat16 as uint16, as mmchain can read them."""
    first = arrays[0]

    def convert(array: np.ndarray) -> np.ndarray:
        converted = array.astype(dtype, copy=False)
        return _readable(converted.view(np.uint16) if _is_bf16(dtype) else converted, array is first)

    return _shapes.once(convert, arrays, _shapes.place)


def _by_mmchain(
    plan: Any,
    chain: _shapes.Chain,
    arrays: List[np.ndarray],
    dtype: np.dtype,
    options: _shapes.Options,
) -> Any:
    bf16 = _is_bf16(dtype)
    result = _mmchain.execute(plan, _converted(arrays, dtype), None, *options, None, bf16, 0)
    if result is NotImplemented:
        raise _shapes.does_not_fit(plan, chain)
    return np.asarray(result).view(dtype)[()] if bf16 else result


def chain_of(arrays: List[Any]) -> Any:
    arrays = _shapes.once(_as_given, arrays)
    if not all(type(array) is np.ndarray for array in arrays):
        return NotImplemented
    dtype = np.result_type(*arrays)
    if not _is_direct(arrays, dtype):
        return NotImplemented
    return _mmchain.chain_of(_converted(arrays, dtype), _is_bf16(dtype))


def _store(result: Any, chain: _shapes.Chain, count: int, dtype: np.dtype, out: Any) -> Any:
    """Puts the result into out, if NumPy takes it; returns what NumPy returns."""
    row, column = chain.row, chain.column
    if isinstance(out, np.ndarray) and out.dtype == dtype:
        dtype = out.dtype  # NumPy's dot tells two integers of one size apart by their names in C
    if count > 2 and not chain.stack and getattr(out, "ndim", 0) == 2:
        row = column = True  # NumPy makes vectors matrices first, and out must be one as well
    lead = chain.stack + (chain.dims[0],) * row
    trail = (chain.dims[-1],) * column
    np.dot(np.empty(lead + (0,), dtype), np.empty((0,) + trail, dtype), out=out)
    np.copyto(out, np.reshape(result, out.shape))
    if (row, column) == (chain.row, chain.column):
        return out
    return out.ravel() if chain.row or chain.column else out[0, 0]


def multiply(
    plan: Optional[_mmchain.Plan],
    arrays: List[Any],
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
) -> Any:
    if len(arrays) < 2 and plan is None:
        raise ValueError("Expecting at least two arrays.")
    if plan is None and any(map(_dispatches, arrays)):
        _shapes.expect_own(precision)
        return theirs(arrays, out=out)
    arrays = _shapes.once(_as_given, arrays)
    if len(arrays) == 2 and plan is None and 0 in (arrays[0].ndim, arrays[1].ndim):
        return np.dot(arrays[0], arrays[1], out=out)  # a scalar scales
    chain = _shapes.check([array.shape for array in arrays], 2 if plan is None else 1)
    if plan is None and not chain.stack and _are_mixed_integers(arrays):
        if np.result_type(*arrays).kind not in "biu":
            _shapes.expect_own(precision)
        return theirs(arrays, out=out)
    dtype = _dtype_for(plan, arrays)
    if not dtype.isnative and (dtype.char in _direct or dtype.kind in "iu"):
        dtype = dtype.newbyteorder("=")
    mixed = dtype.kind in "biu" and plan is None and _are_mixed_integers(arrays)
    if _is_direct(arrays, dtype) and not mixed:
        result = _by_mmchain(plan, chain, arrays, dtype, (objective, device, precision))
        return result if out is None else _store(result, chain, len(arrays), dtype, out)
    if dtype.kind not in "biu":
        _shapes.expect_own(precision)
    pairs = (
        _shapes.products_of(chain.dims, arrays)
        if plan is None
        else _shapes.planned_products(plan, chain, arrays)
    )
    result = _by_numpy(pairs, chain, arrays)
    return result if out is None else _store(result, chain, len(arrays), dtype, out)


# ---- running products -----------------------------------------------------------------------------


def as_array(array: Any) -> np.ndarray:
    return unmasked(array)


def _kind_of(array: Any) -> str:
    kind = type(array).__name__
    return f"one of {array.dtype.str}" if type(array) is np.ndarray else kind


def running(what: Any, arrays: List[Any], shapes: Any, out: Any) -> Any:
    """Running products, or states of a recurrence; shapes are those that the arrays broadcast to."""
    given = [array for array in arrays if array is not None]
    dtype = np.result_type(*given)
    if dtype.char in _direct:
        dtype = np.dtype(dtype.char)  # in native byte order
    if not _is_direct(given, dtype):
        raise TypeError(f"{what.name}: expected arrays of numbers, got {dtype}")
    bf16 = _is_bf16(dtype)
    if out is not None and (type(out) not in (np.ndarray, np.memmap) or out.dtype != dtype):
        raise TypeError(f"out: expected a NumPy array of {dtype}, got {_kind_of(out)}")
    if out is not None and not out.flags.writeable:
        raise ValueError("out: expected an array that can be written, got a read-only one")

    def convert(array: Any, shape: Any) -> Any:
        if array is None:
            return None
        array = array.astype(dtype, copy=False)
        array = array.view(np.uint16) if bf16 else array
        return array if array.shape == shape else np.broadcast_to(array, shape)

    inputs = [convert(array, shape) for array, shape in zip(arrays, shapes.inputs)]
    result = np.empty(shapes.out, dtype) if out is None else out
    exponents = np.zeros(shapes.out[:-2], np.int64) if what.scaled else None
    answer = result if exponents is None else (result, exponents)
    written = np.asarray(result).view(np.uint16) if bf16 else np.asarray(result)
    flags = (what.recurrence, what.reverse, what.exclusive, what.device, None, bf16, what.semiring, exponents)
    factors, initial, addend = inputs
    if _mmchain.scan(factors, initial, addend, written, *flags) is not NotImplemented:
        return answer
    factors, initial, addend = (None if x is None else np.array(x, order="C") for x in inputs)
    fresh = np.empty(shapes.out, written.dtype)
    if _mmchain.scan(factors, initial, addend, fresh, *flags) is NotImplemented:
        raise ValueError("expected arrays that can be read")
    np.copyto(written, fresh)
    return answer
