"""Running products and recurrences: against left to right, by shapes, dtypes, layouts and mistakes."""

import doctest
import os
import runpy

import numpy as np
import pytest

import mmchain
from mmchain import _running

SEED = 23
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")


def left_to_right(factors, initial=None, addend=None, reverse=False, exclusive=False):
    """All states in the widest dtype, one after the other."""
    wide = np.result_type(factors.dtype, np.float64)
    n = factors.shape[-1]
    state = np.eye(n, dtype=wide) if initial is None else initial.astype(wide)
    states, order = [], range(factors.shape[-3])
    for t in reversed(order) if reverse else order:
        a = factors[..., t, :, :].astype(wide)
        before = np.broadcast_to(state, factors.shape[:-3] + state.shape[-2:])
        from_left = reverse or addend is not False
        state = np.matmul(a, state) if from_left else np.matmul(state, a)
        if addend is not None and addend is not False:
            state = state + addend[..., t, :, :]
        states.append(before if exclusive else state)
    return np.stack(states[::-1] if reverse else states, -3)


def stack_of(shape, dtype, rng):
    positive = rng.random(shape) * 2 / shape[-1]
    return (positive * rng.choice([-1, 1], shape[:-2] + (1, 1))).astype(dtype)


def assert_near(got, want, n, dtype):
    bound = 8 * (n + 2) * np.finfo(dtype).eps * np.arange(2, got.shape[-3] + 2)[:, None, None]
    # Elements of a factor are of one sign, so a product is as large as that of their sizes.
    assert np.all(np.abs(got - want) <= bound * np.abs(want) + np.finfo(dtype).tiny)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_scans(dtype, reverse, exclusive):
    rng = np.random.default_rng(SEED)
    for shape in [(1, 3, 3), (7, 8, 8), (33, 5, 5), (2, 9, 4, 4), (2, 3, 5, 2, 2), (1000, 4, 4)]:
        stack = stack_of(shape, dtype, rng)
        for initial in [None, stack_of(shape[:-3] + shape[-2:], dtype, rng)]:
            got = mmchain.scan(stack, reverse, exclusive, initial)
            want = left_to_right(stack, initial, False, reverse, exclusive)
            assert got.shape == shape and got.dtype == stack.dtype
            assert_near(got, want, shape[-1], dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_recurrences(reverse, exclusive):
    rng = np.random.default_rng(SEED)
    a = stack_of((2, 17, 4, 4), "f8", rng)
    x0, b = rng.random((2, 4, 3)), rng.random((2, 17, 4, 3))
    for addend in [None, b]:
        got = mmchain.recurrence(a, x0, addend, reverse, exclusive)
        want = left_to_right(a, x0, addend, reverse, exclusive)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-13 * np.abs(want).max())


def test_vectors_and_shared_factors():
    rng = np.random.default_rng(SEED)
    a, x0, b = rng.random((6, 3, 3)), rng.random(3), rng.random((6, 3))
    got = mmchain.recurrence(a, x0, b)
    want = left_to_right(a, x0[:, None], b[..., None])[..., 0]
    np.testing.assert_allclose(got, want, rtol=1e-14)
    many = rng.random((5, 3, 2))
    shared = mmchain.recurrence(a, many)
    assert shared.shape == (5, 6, 3, 2)
    for i in range(5):
        assert np.array_equal(shared[i], mmchain.recurrence(a, many[i]))


def test_layouts_and_out():
    rng = np.random.default_rng(SEED)
    stack = rng.random((9, 4, 4)) / 2
    want = mmchain.scan(stack)
    wide = np.zeros((9, 6, 8))
    wide[:, :4, ::2] = stack
    assert np.array_equal(mmchain.scan(wide[:, :4, ::2]), want)
    turned = np.ascontiguousarray(stack.swapaxes(1, 2)).swapaxes(1, 2)
    np.testing.assert_allclose(mmchain.scan(turned), want, rtol=1e-14)
    np.testing.assert_allclose(mmchain.scan(stack[::-1])[::-1], left_to_right(stack[::-1], None, False)[::-1])
    out = np.full((9, 5, 7), 7.0)
    assert mmchain.scan(stack, out=out[:, :4, :4]) is not None
    assert np.array_equal(out[:, :4, :4], want) and np.all(out[:, 4:] == 7) and np.all(out[:, :, 4:] == 7)
    column_major = np.empty((4, 4, 9)).T
    mmchain.scan(stack, out=column_major)
    np.testing.assert_allclose(column_major, want, rtol=1e-14)
    assert np.array_equal(mmchain.scan(np.broadcast_to(stack[0], (5, 4, 4)))[4], mmchain.scan(stack[[0] * 5])[4])


def test_empty():
    assert mmchain.scan(np.ones((0, 3, 3))).shape == (0, 3, 3)
    assert mmchain.scan(np.ones((3, 0, 0))).shape == (3, 0, 0)
    assert mmchain.scan(np.ones((0, 4, 3, 3))).shape == (0, 4, 3, 3)
    assert mmchain.recurrence(np.ones((0, 2, 2)), np.ones(2)).shape == (0, 2)


def test_nan_is_where_its_factor_is():
    stack = np.full((5000, 2, 2), 0.5)
    stack[3210, 1, 0] = np.nan
    assert np.array_equal(np.isnan(mmchain.scan(stack)).any((1, 2)), np.arange(5000) >= 3210)
    assert np.array_equal(np.isnan(mmchain.scan(stack, True)).any((1, 2)), np.arange(5000) <= 3210)


@pytest.mark.parametrize("recurrence", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_by_products_of_a_library(recurrence, reverse, exclusive):
    """What PyTorch differentiates and JAX traces, here by NumPy."""
    rng = np.random.default_rng(SEED)
    what = _running.Running(recurrence, reverse, exclusive, None)
    for length in [1, 2, 3, 4, 5, 8, 13]:
        stack = rng.random((2, length, 3, 3)) / 2
        initial = rng.random((2, 3, 3))
        addend = rng.random((2, length, 3, 3)) if recurrence else None
        for start in [initial] if recurrence else [None, initial]:
            got = _running.by_products(what, [stack, start, addend], np, np.flip)
            run = (
                mmchain.recurrence(stack, start, addend, reverse, exclusive)
                if recurrence
                else mmchain.scan(stack, reverse, exclusive, start)
            )
            np.testing.assert_allclose(got, run, rtol=1e-13)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((np.ones((3, 3)),), "stack: expected a stack of square matrices"),
        ((np.ones((2, 3, 4)),), "stack: expected a stack of square matrices"),
        ((np.ones((2, 3, 3)), False, False, np.ones((2, 3))), "initial: expected 3 rows"),
        ((np.ones((2, 3, 3)), False, False, np.ones((3, 2))), "initial: expected 3 columns"),
        ((np.ones((2, 3, 3)), False, False, None, np.ones((3, 3))), "out: expected shape"),
        ((np.ones((4, 2, 3, 3)), False, False, np.ones((5, 3, 3))), "do not broadcast"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(ValueError, match=message):
        mmchain.scan(*arguments)


def test_mistakes_of_kind():
    stack = np.ones((2, 3, 3))
    with pytest.raises(TypeError, match="expected arrays of numbers"):
        mmchain.scan(np.full((2, 3, 3), "a"))
    with pytest.raises(TypeError, match="out: expected"):
        mmchain.scan(stack, out=np.empty((2, 3, 3), "f4"))
    with pytest.raises(ValueError, match="apart"):
        mmchain.scan(stack, out=stack)
    with pytest.raises(ValueError, match="device"):
        mmchain.scan(stack, device="abacus")
    with pytest.raises(ValueError, match="b: expected"):
        mmchain.recurrence(stack, np.ones(3), np.ones((3, 3)))
    with pytest.raises(ValueError, match="x0: expected 3 rows"):
        mmchain.recurrence(stack, np.ones(4))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8", "?"])
def test_integers(dtype):
    high = 2 if dtype == "?" else min(np.iinfo(dtype).max, 2**62)
    stack = np.random.default_rng(5).integers(0, high, (33, 5, 5)).astype(dtype)
    products = mmchain.scan(stack)
    states = mmchain.recurrence(stack, stack[0, :, 0])
    product, state = stack[0], stack[0] @ stack[0, :, 0]
    for t in range(33):
        assert products.dtype == states.dtype == stack.dtype
        assert (products[t] == product).all() and (states[t] == state).all()
        if t < 32:
            product, state = product @ stack[t + 1], stack[t + 1] @ state


def test_example(capsys):
    runpy.run_path(os.path.join(EXAMPLES, "hmm.py"), run_name="__main__")
    assert "log likelihood" in capsys.readouterr().out


def test_doctests():
    assert doctest.testmod(_running, extraglobs={"mmchain": mmchain, "np": np}).failed == 0
