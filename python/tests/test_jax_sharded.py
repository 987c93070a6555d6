"""JAX arrays in pieces on several devices, in a process of its own, which has four."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("jax")

PROGRAM = r"""
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import mmchain
from mmchain import _jax_sharded

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(int(sys.argv[1]))
line = Mesh(np.array(jax.devices()), ("x",))
square = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
ROWS, COLUMNS, WHOLE = [NamedSharding(line, P(*at)) for at in (("x", None), (None, "x"), ())]
GRID, HALVES = NamedSharding(square, P("a", "b")), NamedSharding(square, P("a", None))
planned = []
plan = _jax_sharded._plan
_jax_sharded._plan = lambda *arguments: planned.append(arguments) or plan(*arguments)

def check(dims, shardings, dtype="float64", ours=True):
    given = [rng.standard_normal(pair).astype(dtype) for pair in zip(dims, dims[1:])]
    arrays = [jnp.asarray(a) if at is None else jax.device_put(a, at) for a, at in zip(given, shardings)]
    before = len(planned)
    result = mmchain.multi_dot(arrays)
    assert (len(planned) > before) == ours, (dims, shardings)
    wanted = np.linalg.multi_dot([a.astype("float64") for a in given])
    tolerance = {"float64": 1e-12, "float32": 1e-4, "float16": 0.1}[dtype] * np.abs(wanted).max()
    assert result.shape == wanted.shape and result.dtype == dtype
    assert not (np.abs(np.asarray(result, "float64") - wanted) > tolerance).any(), (dims, shardings)
    return result

check([16, 8, 12, 4], [ROWS, WHOLE, COLUMNS], "float32")
check([16, 8, 12, 4], [GRID, GRID, GRID], "float16")
# Such arrays were multiplied before: nothing is planned again.
check([16, 8, 12, 4], [GRID, GRID, GRID], "float16", ours=False)
check([16, 8, 12, 4], [GRID, GRID, GRID], "float32")
check([16, 8, 12, 4], [GRID, WHOLE, GRID], "float32")
check([16, 8, 12, 4], [ROWS, WHOLE, COLUMNS], "float32", ours=False)
check([8, 4, 4, 20, 8], [COLUMNS, ROWS, None, GRID])
check([7, 8, 3], [COLUMNS, ROWS])  # a result of 7 x 3, which four devices cannot divide
check([8, 6, 5], [HALVES, WHOLE], ours=False)
check([4, 0, 4], [WHOLE, ROWS], ours=False)

# Blocks of rows stay where they are: nothing is sent.
arguments = planned[-1][0], "f64:4096x64x64x64", ("rows", "whole", "whole")
shapes = [jax.ShapeDtypeStruct(pair, "float64", sharding=at)
          for pair, at in (((4096, 64), ROWS), ((64, 64), WHOLE), ((64, 64), WHOLE))]
compiled = plan(*arguments).lower(*shapes).compile()
assert compiled.output_shardings.is_equivalent_to(ROWS, 2)
assert not any(word in compiled.as_text() for word in ("all-gather", "all-reduce", "all-to-all"))

# Vectors at the ends, stacks and gradients go on as they do without pieces.
a = jax.device_put(jnp.asarray(rng.standard_normal((8, 4))), ROWS)
v = jnp.asarray(rng.standard_normal(4))
np.testing.assert_allclose(mmchain.multi_dot([a, v]), np.asarray(a) @ np.asarray(v))
stack = jax.device_put(jnp.asarray(rng.standard_normal((4, 3, 8))), NamedSharding(line, P("x")))
np.testing.assert_allclose(mmchain.multi_dot([stack, a]), np.asarray(stack) @ np.asarray(a))
slope = jax.grad(lambda x: mmchain.multi_dot([x, v]).sum())(a)
np.testing.assert_allclose(slope, np.broadcast_to(np.asarray(v), (8, 4)))

# Under shard_map each device has its own, also where JAX looks after the axes along which they vary.
if hasattr(jax, "shard_map"):
    b, c = jnp.asarray(rng.standard_normal((4, 5))), jnp.asarray(rng.standard_normal((5, 3)))
    wanted = np.linalg.multi_dot([np.asarray(x) for x in (a, b, c)])
    for checks in (True, False):
        def product(x):
            return mmchain.multi_dot([x, b, c])

        mapped = jax.shard_map(product, mesh=line, in_specs=P("x"), out_specs=P("x"), check_vma=checks)
        for call in (mapped, jax.jit(mapped)):
            np.testing.assert_allclose(call(a), wanted, rtol=1e-12)
        slope = jax.jit(jax.grad(lambda x: mapped(x).sum()))(a)
        np.testing.assert_allclose(slope, np.ones((8, 3)) @ np.asarray(b @ c).T, rtol=1e-12)

    steps, start, more = rng.random((4, 5, 3, 3)), jnp.ones(3), jnp.ones((5, 3))
    for running in (
        lambda x: mmchain.scan(x, exclusive=True),
        lambda x: mmchain.recurrence(x, start),
        lambda x: mmchain.recurrence(x, start, more, reverse=True),
    ):
        mapped = jax.shard_map(running, mesh=line, in_specs=P("x"), out_specs=P("x"))
        np.testing.assert_allclose(mapped(jnp.asarray(steps)), running(jnp.asarray(steps)), rtol=1e-12)
        slope = jax.grad(lambda x: mapped(x).sum())(jnp.asarray(steps))
        want = jax.grad(lambda x: running(x).sum())(jnp.asarray(steps))
        np.testing.assert_allclose(slope, want, rtol=1e-12)
"""


def test_sharded():
    environment = dict(os.environ, JAX_PLATFORMS="cpu")
    environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "1"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
