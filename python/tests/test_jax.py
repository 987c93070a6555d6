"""JAX arrays, where JAX is installed."""

import importlib
import itertools
import os
import threading

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402

import mmchain  # noqa: E402
from chains import assert_close, random_array, random_chain  # noqa: E402


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


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex128", "int32"])
def test_small_arrays_that_come_again_are_compiled(rng, dtype, monkeypatch):
    from mmchain import _jax

    called = []
    compiled = _jax._compiled
    monkeypatch.setattr(_jax, "_compiled", lambda options: called.append(options) or compiled(options))
    monkeypatch.setattr(_jax, "_times", {})
    eps = {"bfloat16": 2.0**-7, "float32": 1e-6}.get(dtype, 1e-14)
    shapes = [[(4, 3), (3, 5), (5, 2)], [(3,), (3, 5)], [(7, 1, 2, 3), (3, 4), (3, 5), (5,)][:2]]
    for chain in shapes:
        for times in range(_jax._OFTEN + 3):
            arrays = [jnp.asarray(3 * random_array(rng, shape, "float64")).astype(dtype) for shape in chain]
            called.clear()
            result = mmchain.multi_dot(arrays)
            assert len(called) == (times >= _jax._OFTEN)
            assert isinstance(result, jax.Array) and result.dtype == dtype and not result.weak_type
            assert result.devices() == arrays[0].devices()
            assert_close(np.asarray(result), [np.asarray(a) for a in arrays], eps=eps)
    row, square, large = jnp.ones((3, 5)), jnp.ones((3, 3), dtype), jnp.ones((300, 300))
    for arrays, options in (
        ([row, row.T], {"precision": "reproducible"}),  # which XLA is not asked for
        ([row, row.T], {"device": "ref"}),
        ([large, 2 * large], {}),
        ([square] * 3, {}),  # a power
    ):
        for _ in range(_jax._OFTEN + 3):
            called.clear()
            result = mmchain.multi_dot(arrays, **options)
            assert not called
        expected = np.linalg.multi_dot([np.asarray(array) for array in arrays])
        np.testing.assert_array_equal(np.asarray(result), expected)
    with jax.disable_jit():
        assert mmchain.multi_dot([jnp.ones((3,), dtype), jnp.ones((3, 5), dtype)]).shape == (5,)
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([jnp.ones((4, 3), dtype), jnp.ones((4, 3), dtype)])


def test_plan(rng):
    arrays = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2], "float32")]
    p = mmchain.plan(arrays)
    assert p.chain == "f32:4x3x5x2"
    assert_close(np.asarray(p.execute(arrays)), [np.asarray(a) for a in arrays], eps=1e-6)


def test_plan_under_jit(rng):
    arrays = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2], "float32")]
    execute = jax.jit(mmchain.plan("f32:4x3x5x2").execute)
    assert_close(np.asarray(execute(arrays)), [np.asarray(a) for a in arrays], eps=1e-6)
    assert execute([array.astype("bfloat16") for array in arrays]).dtype == jnp.float32
    for others in (arrays[:2], [arrays[0][:3], *arrays[1:]]):
        with pytest.raises(ValueError, match="expected the shapes of f32:4x3x5x2, got"):
            execute(others)
    with pytest.raises(TypeError, match="expected those planned for, f32:4x3x5x2, got complex64"):
        execute([array.astype("complex64") for array in arrays])


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


ours_under_jit = pytest.mark.skipif(
    jax.default_backend() != "cpu" or not importlib.import_module("mmchain._jax")._is_registered(),
    reason="this JAX has no foreign functions of version 0, or no CPU first",
)


def compiled(arrays, **options):
    """The product under jit, and whether it was a call of ours."""
    function = jax.jit(lambda x: mmchain.multi_dot(x, **options))
    text = function.lower(arrays).compile().as_text()
    return function(arrays), "mmchain_chain" in text


@ours_under_jit
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("dims", [[4, 3, 5, 2], [1, 70, 1], [3, 0, 4], [80, 70, 90, 75]])
def test_jit_is_one_call_of_ours(rng, dtype, dims):
    arrays = [jnp.asarray(a).astype(dtype) for a in random_chain(rng, dims)]
    result, is_ours = compiled(arrays)
    assert is_ours and result.dtype == dtype and result.shape == (dims[0], dims[-1])
    eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float64": 1e-14, "complex128": 1e-14}.get(dtype, 1e-6)
    assert_close(np.asarray(result), [np.asarray(a) for a in arrays], eps=eps)


@ours_under_jit
def test_jit_of_vectors_stacks_and_powers(rng):
    a, b, c = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    stack = jnp.stack([jnp.stack([a, 2 * a, 3 * a])] * 2)
    column = jnp.stack([b, -b])[:, None]
    square = jnp.asarray(rng.standard_normal((6, 6)))
    for arrays in (
        [a[0], b, c[:, 0]],
        [a, b, c[:, 0]],
        [stack, b, c],
        [stack, column, c],  # which broadcast across each other
        [square] * 5,
    ):
        result, is_ours = compiled(arrays)
        expected = mmchain.multi_dot([np.asarray(x) for x in arrays])
        assert is_ours and result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@ours_under_jit
def test_jit_with_transformations(rng):
    arrays = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    stack = jnp.stack([arrays[0], 2 * arrays[0]])
    mapped = jax.jit(jax.vmap(lambda x: mmchain.multi_dot([x, *arrays[1:]])))
    assert "mmchain_chain" in mapped.lower(stack).compile().as_text()
    np.testing.assert_allclose(mapped(stack)[1], 2 * mmchain.multi_dot(arrays))
    twice = jax.jit(jax.vmap(jax.vmap(lambda x, y: mmchain.multi_dot([x, y, arrays[2]]), (0, None)), (None, 0)))
    other = jnp.stack([arrays[1], -arrays[1], 3 * arrays[1]])
    np.testing.assert_allclose(twice(stack, other), stack[None] @ other[:, None] @ arrays[2], rtol=1e-12)

    def squares(product):
        return lambda x: (product(x) ** 2).sum()

    ours, theirs = squares(mmchain.multi_dot), squares(lambda x: x[0] @ x[1] @ x[2])
    for a, b in zip(jax.jit(jax.grad(ours))(arrays), jax.grad(theirs)(arrays)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    directions = [jnp.ones_like(x) for x in arrays]
    for a, b in zip(jax.jvp(ours, (arrays,), (directions,)), jax.jvp(theirs, (arrays,), (directions,))):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    first = jax.hessian(lambda x: ours([x, *arrays[1:]]))(arrays[0])
    np.testing.assert_allclose(first, jax.hessian(lambda x: theirs([x, *arrays[1:]]))(arrays[0]), rtol=1e-9, atol=1e-9)


@ours_under_jit
def test_vmap_of_stacks(rng):
    """Of stacks and matrices some are mapped, whose new axis is none of those that the stacks have."""
    for batch in (2, 3):
        a, b, c = (random_array(rng, shape, "float32") for shape in [(3, 4, 5), (5, 6), (2, 1, 6, 2)])
        want = a @ b @ c
        for axes in itertools.product([None, 0, -1], repeat=3):
            if axes == (None,) * 3:
                continue
            mapped = [x if d is None else np.stack([x * (i + 1) for i in range(batch)], d) for x, d in zip((a, b, c), axes)]
            power = 3 - axes.count(None)
            call = jax.vmap(lambda *factors: mmchain.multi_dot(list(factors)), in_axes=axes)
            for got in (call(*mapped), jax.jit(call)(*mapped)):
                expected = np.stack([want * (i + 1) ** power for i in range(batch)])
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_jit_in_many_threads(rng):
    chains = [[jnp.asarray(x) for x in random_chain(rng, [d, 70, d + 1, 3])] for d in range(60, 68)]
    function = jax.jit(lambda x: mmchain.multi_dot(x))
    expected = [np.asarray(function(x)) for x in chains]
    failures = []

    def work(t):
        for i in range(60):
            c = (t + i) % len(chains)
            if not np.allclose(function(chains[c]), expected[c], rtol=1e-12):
                failures.append((t, i))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@ours_under_jit
@pytest.mark.skipif(not os.environ.get("MMCHAIN_TEST_LONG"), reason="compiling takes half a minute")
def test_jit_of_more_chains_than_are_remembered(rng):
    a = jnp.asarray(rng.standard_normal((300, 3)))
    for n in range(1, 290):
        result = importlib.import_module("mmchain._jax")._chain(0, a[:n], a[:3])
        if n % 40 == 1:
            np.testing.assert_allclose(result, a[:n] @ a[:3], rtol=1e-12, atol=1e-12)


def test_jit_by_xla_where_options_ask_for_it(rng):
    arrays = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    result, is_ours = compiled(arrays, device="ref")
    assert not is_ours
    np.testing.assert_allclose(result, mmchain.multi_dot(arrays), rtol=1e-12)


def test_exceptions(rng):
    a, b, _ = [jnp.asarray(x) for x in random_chain(rng, [4, 3, 5, 2])]
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([a, a])
    with pytest.raises(TypeError, match="out: expected None"):
        mmchain.multi_dot([a, b], out=jnp.zeros((4, 5)))
    square = jnp.eye(3)
    for transform in (jax.jit, jax.jacfwd, jax.jacrev):
        with pytest.raises(TypeError, match="arrays: expected no jit, .* around factors with structure"):
            transform(lambda x: mmchain.multi_dot([mmchain.inv(mmchain.lower(x)), x]))(square)
        with pytest.raises(TypeError, match="arrays: expected no jit"):
            transform(lambda x: mmchain.gradients([x, x], x)[0])(square)
        with pytest.raises(TypeError, match="arrays: expected no jit"):
            transform(lambda x: mmchain.Ranges(x[None]).product())(square)


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


def test_factors_with_structure_are_of_its_kind():
    a = jnp.asarray(np.tril(np.ones((3, 3))) + np.eye(3), dtype=jnp.float32)
    factors = [mmchain.inv(mmchain.lower(a)), mmchain.diagonal(jnp.ones(3, jnp.float32)), mmchain.permutation(jnp.arange(3)), a]
    for product in (mmchain.multi_dot(factors), mmchain.plan(factors).execute(factors)):
        assert isinstance(product, jax.Array) and product.dtype == jnp.float32
        np.testing.assert_allclose(product, np.eye(3), atol=1e-6)
    out = np.ones((3, 3), np.float32)
    assert mmchain.multi_dot(factors, out=out) is out
    np.testing.assert_allclose(out, np.eye(3), atol=1e-6)
