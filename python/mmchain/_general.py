"""Where arrays go that cannot be read as they are: to the room of the library they come from."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from . import _mmchain, _shapes

# By the package that a type, or one that it inherits from, is defined in.
_rooms = {"torch": "._torch", "cupy": "._cupy", "jax": "._jax", "jaxlib": "._jax"}
_room_of_type: Dict[type, str] = {}
_opened: Dict[str, Any] = {}

# By the exact type of the first array: what multiplies a list of such arrays at once, with these options, or
# returns None.
shortcuts: Dict[type, Callable[[List[Any], _shapes.Options], Any]] = {}


def _room_of(array: Any) -> str:
    kind = type(array)
    room = _room_of_type.get(kind)
    if room is None:
        packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
        room = next((_rooms[name] for name in packages if name in _rooms), "._numpy")
        if room == "._numpy" and _is_tracer(array):
            room = "._jax"
        _room_of_type[kind] = room
    return room


def _is_tracer(array: Any) -> bool:
    return hasattr(array, "aval") and hasattr(array, "_trace")


def multiply(
    plan: Optional[_mmchain.Plan],
    arrays: Any,
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
) -> Any:
    """multi_dot, or the product by a plan, of any arrays."""
    if plan is None:
        _shapes.check_options(objective, device, precision)
    by_own = _shapes.is_reproducible(precision)
    if plan is None and out is None and not by_own and type(arrays) is list and arrays:
        shortcut = shortcuts.get(type(arrays[0]))
        result = None if shortcut is None else shortcut(arrays, (objective, device, precision))
        if result is not None:
            return result
    if plan is None and precision == "native" and isinstance(arrays, (list, tuple)):
        result = _structure().multiply_known(arrays, out, objective, device)
        if result is not None:
            return result
    if plan is None and ("scipy.sparse" in sys.modules or "torch" in sys.modules):
        result = _sparse(arrays, out, objective, device, precision)
        if result is not None:
            return result
    if plan is None:
        result = _structured(arrays, out, objective, device, precision)
        if result is not None:
            return result
    elif _structure().is_structured(arrays):
        return _structure().execute(plan, arrays, out)
    else:
        expect_dense(arrays, "plans")
        _expect_no_conjugates(plan.chain)
    arrays = factors_of(arrays)
    return room_of(arrays).multiply(plan, arrays, out, objective, device, precision)


def _expect_no_conjugates(chain: str) -> None:
    """Raises a ValueError where a plan for factors of which it takes the conjugates, by an op H, is given arrays."""
    ops = chain.rpartition(":")[2].partition("=")[0]
    if chain[0] == "c" and re.search(r"\b[Hh]\b|^[NTHnth]*[Hh][NTHnth]*$", ops):
        if "@" in chain:
            raise ValueError(f"arrays: expected a plan without H for stacks, of a.conj(), got one of {chain:.200}")
        raise ValueError(f"arrays: expected mmchain.Factor(a).H where {chain:.200} has an H, got arrays alone")


def _open(name: str) -> Any:
    """A room, which may need others that need this one."""
    room = _opened.get(name)
    if room is None:
        room = _opened[name] = import_module(name, __package__)
    return room


def _structure() -> Any:
    return _open("._structure")


def _sparse(arrays: Any, out: Any, objective: str, device: Optional[str], precision: str) -> Any:
    room = _open("._sparse")
    if precision == "native" or not room.is_sparse(arrays):
        return room.multiply(arrays, out, objective, device)
    if precision[:1].isdigit():
        raise TypeError(f"tolerance: expected None with sparse factors, got {precision}")
    raise TypeError(f"precision: expected native with sparse factors, got {precision}")


def _structured(arrays: Any, out: Any, objective: str, device: Optional[str], precision: str) -> Any:
    room = _structure()
    if _shapes.is_reproducible(precision) and not room.is_structured(arrays):
        return None  # twins have the bits of any others
    return room.multiply(arrays, out, objective, device, precision)


def _is_plain(array: Any) -> bool:
    """Whether it is a dense array of NumPy's or PyTorch's, as far as its type tells at once."""
    kind = type(array)
    if kind is np.ndarray:
        return True
    torch = sys.modules.get("torch")
    return torch is not None and kind is torch.Tensor and array.layout is torch.strided


def _are_plain(arrays: Any) -> bool:
    return isinstance(arrays, (list, tuple)) and all(map(_is_plain, arrays))


def expect_dense(arrays: Any, what: str) -> None:
    """Raises a TypeError where some factors are sparse, or have structure, of which there is no such thing."""
    if _are_plain((arrays,) if _is_plain(arrays) else arrays):
        return
    structure = _structure().is_structured(arrays)
    if structure or _open("._sparse").is_sparse(arrays):
        found = "factors with structure" if structure else "sparse factors"
        raise TypeError(f"arrays: expected plain dense arrays with {what}, got {found}")


def _are_numpy_integers(arrays: Any, rule: int) -> bool:
    """Whether all are NumPy's arrays of the one dtype that their product by the rule has."""
    if type(arrays) not in (list, tuple) or len(arrays) < 2 or {*map(type, arrays)} != {np.ndarray}:
        return False
    dtypes = {array.dtype for array in arrays}
    dtype = dtypes.pop()
    return not dtypes and dtype.isnative and dtype.kind in "iu" and (rule < 0 or dtype.itemsize == 8)


def multiply_integers(
    arrays: Any,
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
    checked: bool,
    mod: Optional[int],
) -> Any:
    """multi_dot of integers with `checked` or `mod`, whose bits are the same by any precision."""
    _shapes.check_options(objective, device, precision)
    rule = _shapes.rule_of(checked, mod)
    if out is None and _are_numpy_integers(arrays, rule):
        result = _mmchain.execute(None, arrays, None, objective, device, "native", None, False, rule)
        if result is not NotImplemented:
            return result
    expect_dense(arrays, "checked or mod")
    arrays = factors_of(arrays)
    others = sorted({_room_of(array) for array in arrays} - {"._numpy", "._torch", "._cupy"})
    if others:
        raise TypeError(
            "arrays: expected NumPy's, PyTorch's or CuPy's with checked or mod, "
            f"got those of {others[0][2:]}"
        )
    return room_of(arrays).multiply_integers(arrays, out, (objective, device, "native"), rule)


_semirings = ("plus-times", "max-plus", "min-plus", "log", "or-and")


def semiring_number(name: str) -> int:
    """The number of a semiring, as in mmc_semiring."""
    if name not in _semirings:
        raise ValueError(f"semiring: expected one of {', '.join(_semirings)}, got {name!r}")
    return _semirings.index(name)


def multiply_otherwise(
    arrays: Any,
    out: Any,
    objective: str,
    device: Optional[str],
    precision: str,
    semiring: str,
    scaled: bool,
) -> Any:
    """multi_dot over a semiring, or with exponents, which are planned by their multiplications."""
    number = semiring_number(semiring)
    expect_dense(arrays, "semiring or scaled")
    arrays = factors_of(arrays)
    expect_arithmetic(arrays, number, scaled)
    if scaled and number:
        raise ValueError("scaled: expected semiring plus-times with it")
    options = ("flops" if objective == "time" else objective, device, precision)
    return room_of(arrays).multiply_otherwise(arrays, out, options, number, scaled)


def expect_arithmetic(arrays: List[Any], semiring: int, scaled: bool) -> None:
    """Raises a TypeError where the library of an array has no products with exponents, or none over
    semirings."""
    theirs = {"._numpy"} if scaled else {"._numpy", "._torch", "._cupy"}
    others = sorted({_room_of(array) for array in arrays} - theirs)
    if (semiring or scaled) and others:
        expected = "NumPy's with scaled" if scaled else "NumPy's, PyTorch's or CuPy's with semiring"
        raise TypeError(f"arrays: expected {expected}, got those of {others[0][2:]}")


def factors_of(arrays: Any) -> List[Any]:
    """The factors, one by one, also of a stack that is the chain."""
    if isinstance(arrays, (list, tuple)):
        return list(arrays)
    if getattr(arrays, "ndim", 0) > 2:
        if hasattr(arrays, "unbind"):  # of tensors, whose gradients come together again as one
            return list(arrays.unbind(-3))
        return [arrays[..., i, :, :] for i in range(arrays.shape[-3])]
    if not hasattr(arrays, "__len__"):
        len(arrays)  # NumPy's exception for an iterator
    return list(arrays)


def chain_of(arrays: List[Any]) -> Any:
    """What `_mmchain.chain_of` says of the arrays that `multiply` makes of these."""
    return room_of(arrays).chain_of(arrays)


def room_of(arrays: List[Any]) -> Any:
    """The room of the library that all arrays are of."""
    names = {_room_of(array) for array in arrays}
    name = names.pop() if len(names) == 1 else _mixed(names)
    return _open(name)


def _mixed(rooms: Any) -> str:
    rooms = sorted(rooms)
    # JAX computes with NumPy's arrays too.
    if not rooms or rooms == ["._jax", "._numpy"]:
        return rooms[0] if rooms else "._numpy"
    names = " and ".join(room[2:] for room in rooms)
    raise TypeError(f"arrays: expected arrays of one library, got {names}")
