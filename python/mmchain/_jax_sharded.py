"""JAX arrays that lie in pieces on several devices.

The plan over ranks (docs/distributed.md) says in which order they are multiplied and how every
operand and every result lies; XLA carries it out, as one compiled function in which that is said.
Each device is a rank, and no array comes to the host.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import _mmchain, _shapes
from ._team import _spread

_constrain: Any = jax.lax.with_sharding_constraint
_planned = {"float16": "f32", "bfloat16": "f32", "float32": "f32", "float64": "f64"}
_planned.update({"complex64": "c64", "complex128": "c128"})


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

    def layout(self, array: Any) -> Optional[str]:
        """How a matrix lies; None for what no layout of ours is."""
        if len(array.devices()) == 1:
            return None if array.committed else "whole"
        return _layout_of(self, array.sharding, array.shape)


@lru_cache(1024)
def _layout_of(devices: _Devices, sharding: Any, shape: Tuple[int, ...]) -> Optional[str]:
    count = len(devices.of)
    grids = [f"grid {r}x{count // r}" for r in range(2, count) if count % r == 0]
    for layout in ("whole", "rows", "columns", *grids):
        if devices.can(layout, shape) and sharding.is_equivalent_to(devices.sharding(layout), 2):
            return layout
    return None


def _devices_of(matrices: Sequence[Any]) -> Optional[_Devices]:
    """The devices of the first array that lies on several."""
    first = next(each for each in matrices if len(each.devices()) > 1)
    if not isinstance(first.sharding, NamedSharding):
        return None
    return _Devices(tuple(first.sharding.mesh.devices.flatten()))


def _laid_out(result: Any, devices: _Devices, layouts: Sequence[str]) -> Any:
    """The result in the first of the layouts that divides it evenly, else whole. XLA by itself may
    choose what JAX has no array for."""
    layout = next((at for at in layouts if devices.can(at, result.shape)), "whole")
    return _constrain(result, devices.sharding(layout))


@lru_cache(64)
def _plan(devices: _Devices, text: str, layouts: Tuple[str, ...]) -> Any:
    """The compiled function that multiplies as the plan over the devices says."""
    spreads = [_spread(layout, "layouts") for layout in layouts]
    made = _mmchain.TeamPlan(
        len(devices.of), text, spreads, None, "time", "native", True, None, None
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


@lru_cache(64)
def _alone(devices: _Devices, dims: Tuple[int, ...]) -> Any:
    """The planned order, in which XLA lays out what it likes."""
    pairs = _shapes.products(list(dims))

    def product(*factors: Any) -> Any:
        return _laid_out(_shapes.multiply(pairs, factors, jnp.matmul), devices, ["rows", "columns"])

    return jax.jit(product)


def multiply(matrices: Sequence[Any], dtype: Any) -> Any:
    """The product of matrices of which some lie on several devices: by a plan over them, or, where
    one lies in another way than our layouts, as XLA likes. NotImplemented for stacks."""
    devices = _devices_of(matrices)
    if devices is None or any(each.ndim != 2 for each in matrices):
        return NotImplemented
    dims = (matrices[0].shape[0], *(each.shape[1] for each in matrices))
    layouts = tuple(devices.layout(each) for each in matrices)
    # XLA would divide what lies nowhere in particular as it likes, unevenly as well.
    matrices = [
        jax.device_put(each, devices.sharding("whole"))
        if len(each.devices()) == 1 and not each.committed
        else each
        for each in matrices
    ]
    if 0 in dims or None in layouts or dtype.name not in _planned:
        return _alone(devices, dims)(*matrices)
    text = _planned[dtype.name] + ":" + "x".join(map(str, dims))
    return _plan(devices, text, layouts)(*matrices)
