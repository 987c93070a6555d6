"""JAX arrays, where JAX is installed."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

import mmchain  # noqa: E402
from chains import assert_close, random_chain  # noqa: E402


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_values(rng, dtype):
    arrays = [jnp.asarray(a).astype(dtype) for a in random_chain(rng, [4, 3, 5, 2])]
    result = mmchain.multi_dot(arrays)
    assert isinstance(result, jax.Array) and result.dtype == dtype
    assert result.devices() == arrays[0].devices()
    eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype, 1e-6)
    assert_close(np.asarray(result), [np.asarray(a) for a in arrays], eps=eps)
    # The result is JAX's own: it takes part in what follows.
    assert float(jnp.abs(result - jnp.asarray(np.asarray(result))).max()) == 0


def test_vectors_stacks_integers(rng):
    a, b, c = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    np.testing.assert_allclose(mmchain.multi_dot([a[0], b, c[:, 0]]), a[0] @ b @ c[:, 0])
    assert mmchain.multi_dot([a[0], b, c[:, 0]]).shape == ()
    stack = jnp.stack([a, 2 * a])
    np.testing.assert_allclose(mmchain.multi_dot([stack, b]), stack @ b)
    i = jnp.arange(6).reshape(2, 3)
    result = mmchain.multi_dot([i, i.T, i])
    assert result.dtype == i.dtype
    np.testing.assert_array_equal(result, i @ i.T @ i)
    np.testing.assert_allclose(mmchain.multi_dot([a, b.T[:, ::1].T, np.asarray(c)]), a @ b @ c)


def test_plan(rng):
    arrays = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2], "float32")]
    p = mmchain.plan(arrays)
    assert p.chain == "f32:4x3x5x2"
    assert_close(np.asarray(p.execute(arrays)), [np.asarray(a) for a in arrays], eps=1e-6)


def test_transformations(rng):
    arrays = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    plain = mmchain.multi_dot(arrays)
    np.testing.assert_allclose(jax.jit(lambda x: mmchain.multi_dot(x))(arrays), plain)
    ours = jax.grad(lambda x: mmchain.multi_dot(x).sum())(arrays)
    theirs = jax.grad(lambda x: (x[0] @ x[1] @ x[2]).sum())(arrays)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    stack = jnp.stack([arrays[0], 2 * arrays[0]])
    mapped = jax.vmap(lambda x: mmchain.multi_dot([x, *arrays[1:]]))(stack)
    np.testing.assert_allclose(mapped[1], 2 * plain)


def test_exceptions(rng):
    a, b, _ = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([a, a])
    with pytest.raises(TypeError, match="out: expected None"):
        mmchain.multi_dot([a, b], out=jnp.zeros((4, 5)))


gpu = pytest.mark.skipif(jax.default_backend() != "gpu", reason="JAX sees no GPU")


@gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_cuda(rng, dtype):
    arrays = [jnp.asarray(a).astype(dtype) for a in random_chain(rng, [40, 30, 50, 20])]
    result = mmchain.multi_dot(arrays)
    assert result.devices() == arrays[0].devices()
    assert mmchain.plan(arrays).device.startswith("cuda")
    eps = {"bfloat16": 2.0**-7, "float32": 1e-6}.get(dtype, 1e-14)
    assert_close(np.asarray(result), [np.asarray(a) for a in arrays], eps=eps)
