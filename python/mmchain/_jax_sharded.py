"""JAX arrays that lie in pieces on several devices.

The plan over ranks (docs/distributed.md) says in which order they are multiplied and how every
operand and every result lies; XLA carries it out, as one compiled function in which that is said.
Each device is a rank, and no array comes to the host.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import _mmchain, _shapes
from ._team import _spread

_constrain: Any = jax.lax.with_sharding_constraint
_planned = {"float16": "f32", "bfloat16": "f32", "float32": "f32", "float64": "f64"}
_planned.update({"complex64": "c64", "complex128": "c128"})

# Flops of a device in a second, seconds of a byte between two, and of a message: of the host's devices, whose
# memory is one, and of accelerators with links among them. Networks are slower.
_rates_on_host = (2e10, 1e-10, 2e-5)
_rates_on_links = (2e13, 5e-12, 1e-5)


class _Devices(NamedTuple):
    """Devices in the order in which they are ranks."""

    of: Tuple[Any, ...]

    def sharding(self, layout: str) -> NamedSharding:
        devices = np.array(self.of, dtype=object)
        if layout.startswith("grid "):
            mesh = Mesh(devices.reshape(self.sides(layout)), ("rows", "columns"))
            return NamedSharding(mesh, PartitionSpec("rows", "columns"))
        ends = {"rows": ("ranks", None), "columns": (None, "ranks"), "whole": ()}[layout]
        return NamedSharding(Mesh(devices, ("ranks",)), PartitionSpec(*ends))

    def sides(self, layout: str) -> Tuple[int, int]:
        """Into how many parts a layout divides rows and columns."""
        if layout.startswith("grid "):
            rows, cols = map(int, layout[5:].split("x"))
            return rows, cols
        count = len(self.of)
        return {"rows": (count, 1), "columns": (1, count), "whole": (1, 1)}[layout]

    def can(self, layout: str, shape: Sequence[int]) -> bool:
        """JAX divides evenly, or not at all."""
        return all(size % parts == 0 for size, parts in zip(shape, self.sides(layout)))

    def layout(self, matrix: "_Matrix") -> Optional[str]:
        """How a matrix lies; None for what no layout of ours is."""
        if matrix.lies_nowhere():
            return "whole"
        if len(matrix.sharding.device_set) == 1:
            return None
        count = len(self.of)
        grids = [f"grid {r}x{count // r}" for r in range(2, count) if count % r == 0]
        for layout in ("whole", "rows", "columns", *grids):
            if not self.can(layout, matrix.shape):
                continue
            if matrix.sharding.is_equivalent_to(self.sharding(layout), 2):
                return layout
        return None


class _Matrix(NamedTuple):
    """What a plan goes by of a matrix."""

    shape: Tuple[int, ...]
    sharding: Any
    committed: bool

    def lies_nowhere(self) -> bool:
        """Whether it lies on a device that nobody has asked for."""
        return not self.committed and len(self.sharding.device_set) == 1


def _devices_of(matrices: Sequence[_Matrix]) -> Optional[_Devices]:
    """The devices of the first matrix that lies on several."""
    first = next(each.sharding for each in matrices if len(each.sharding.device_set) > 1)
    if not isinstance(first, NamedSharding):
        return None
    return _Devices(tuple(first.mesh.devices.flatten()))


def _laid_out(result: Any, devices: _Devices, layouts: Sequence[str]) -> Any:
    """The result in the first of the layouts that divides it evenly, else whole. XLA by itself may
    choose what JAX has no array for."""
    layout = next((at for at in layouts if devices.can(at, result.shape)), "whole")
    return _constrain(result, devices.sharding(layout))


def _plan(devices: _Devices, text: str, layouts: Tuple[Optional[str], ...]) -> Any:
    """The compiled function that multiplies as the plan over the devices says."""
    spreads = [_spread(layout, "layouts") for layout in layouts]
    rates = _rates_on_host if devices.of[0].platform == "cpu" else _rates_on_links
    made = _mmchain.TeamPlan(
        len(devices.of), text, spreads, None, "time", "native", True, None, None, rates
    )
    plan = json.loads(made.explain("json"))

    def lay(matrix: Any, layout: str) -> Any:
        if not devices.can(layout, matrix.shape):
            return matrix
        return _constrain(matrix, devices.sharding(layout))

    def product(*factors: Any) -> Any:
        have = {f"A{i}": factor for i, factor in enumerate(factors, 1)}
        for i, step in enumerate(plan["steps"], 1):
            left, right = (have[name] for name in step["operands"])
            result = jnp.matmul(lay(left, step["left"]["to"]), lay(right, step["right"]["to"]))
            have[f"T{i}"] = lay(result, step["result"])
        return _laid_out(result, devices, [plan["result"]["to"]])

    return jax.jit(product)


def _alone(devices: _Devices, dims: Sequence[int]) -> Any:
    """The planned order, in which XLA lays out what it likes."""
    pairs = _shapes.products(list(dims))

    def product(*factors: Any) -> Any:
        return _laid_out(_shapes.multiply(pairs, factors, jnp.matmul), devices, ["rows", "columns"])

    return jax.jit(product)


@lru_cache(256)
def _function(matrices: Tuple[_Matrix, ...], name: str) -> Any:
    """What multiplies such matrices, compiled; None for what JAX itself multiplies."""
    devices = _devices_of(matrices)
    if devices is None or any(len(each.shape) != 2 for each in matrices):
        return None
    dims = (matrices[0].shape[0], *(each.shape[1] for each in matrices))
    layouts = tuple(devices.layout(each) for each in matrices)
    if 0 in dims or None in layouts or name not in _planned:
        compiled = _alone(devices, dims)
    else:
        compiled = _plan(devices, _planned[name] + ":" + "x".join(map(str, dims)), layouts)
    if not any(each.lies_nowhere() for each in matrices):
        return compiled
    whole = devices.sharding("whole")

    # XLA would divide what lies nowhere in particular as it likes, unevenly as well.
    def brought(*factors: Any) -> Any:
        pairs = zip(factors, matrices)
        return compiled(*(jax.device_put(x, whole) if on.lies_nowhere() else x for x, on in pairs))

    return brought


def multiply(matrices: Sequence[Any], dtype: Any) -> Any:
    """The product of matrices of which some lie on several devices: by a plan over them, or, where
    one lies in another way than our layouts, as XLA likes. NotImplemented for stacks."""
    found = tuple(_Matrix(each.shape, each.sharding, each.committed) for each in matrices)
    function = _function(found, dtype.name)
    return NotImplemented if function is None else function(*matrices)


# What multiplied such arrays before: matrices of one dtype, of types that no tracer has.
_known: Dict[Optional[Tuple[Any, ...]], Any] = {}
_concrete: Set[type] = set()
_KNOWN = 256


def _key(arrays: Sequence[Any]) -> Optional[Tuple[Any, ...]]:
    """What _function() depends on, or None."""
    key: List[Any] = []
    for array in arrays:
        if type(array) not in _concrete:
            return None
        key += (array.aval, array.sharding, array.committed)
    return tuple(key)


def multiply_known(arrays: Sequence[Any]) -> Any:
    """The product, where such arrays were multiplied here before; else None."""
    function = _known.get(_key(arrays)) if _known else None
    return None if function is None else function(*arrays)


def remember(arrays: Sequence[Any], dtype: Any) -> None:
    """Lets multiply_known() multiply such arrays, which multiply() has multiplied as they are."""
    if any(each.ndim != 2 or each.dtype != dtype for each in arrays):
        return
    _concrete.update(map(type, arrays))
    if len(_known) >= _KNOWN:
        _known.clear()
    found = tuple(_Matrix(each.shape, each.sharding, each.committed) for each in arrays)
    _known[_key(arrays)] = _function(found, dtype.name)
