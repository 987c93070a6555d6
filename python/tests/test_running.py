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
    none = mmchain.recurrence(np.ones((5, 3, 3)), np.ones((3, 0)), np.ones((2, 5, 3, 0)))
    assert none.shape == (2, 5, 3, 0)
    assert mmchain.recurrence(np.ones((5, 3, 3), int), np.ones((3, 0), int)).shape == (5, 3, 0)


def test_empty_on_a_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    for shape in [(0, 3, 3), (3, 0, 0), (0, 4, 3, 3), (2, 0, 3, 3)]:
        for flags in [{}, {"reverse": True}, {"exclusive": True}]:
            assert mmchain.scan(torch.ones(shape, device="cuda"), **flags).shape == shape
    none, start = torch.ones((0, 2, 2), device="cuda"), torch.ones(2, device="cuda")
    assert mmchain.recurrence(none, start).shape == (0, 2)


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
        ((np.ones((4, 2, 3, 3)), False, False, np.ones((5, 3, 3))), "^stack, initial: expected stacks that broadcast"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(ValueError, match=message):
        mmchain.scan(*arguments)


def test_mistakes_of_kind():
    stack = np.ones((2, 3, 3))
    with pytest.raises(TypeError, match="^stack: expected arrays of numbers"):
        mmchain.scan(np.full((2, 3, 3), "a"))
    with pytest.raises(TypeError, match="^a: expected arrays of numbers"):
        mmchain.recurrence(np.full((2, 3, 3), "a"), np.ones(3))
    with pytest.raises(TypeError, match="out: expected"):
        mmchain.scan(stack, out=np.empty((2, 3, 3), "f4"))
    with pytest.raises(TypeError, match="out: expected a NumPy array of float64, got one of >f8"):
        mmchain.scan(stack, out=np.empty((2, 3, 3), ">f8"))
    with pytest.raises(ValueError, match="out: expected an array that can be written"):
        mmchain.scan(stack, out=np.broadcast_to(0.0, (2, 3, 3)))
    with pytest.raises(ValueError, match="^stack: expected memory apart"):
        mmchain.scan(stack, out=stack)
    addend = np.ones((2, 3))
    with pytest.raises(ValueError, match="^b: expected memory apart"):
        mmchain.recurrence(stack, np.ones(3), addend, out=addend)
    with pytest.raises(ValueError, match="scaled: expected no b"):
        mmchain.recurrence(stack, np.ones(3), addend, scaled=True)
    with pytest.raises(ValueError, match="device"):
        mmchain.scan(stack, device="abacus")
    with pytest.raises(ValueError, match="b: expected"):
        mmchain.recurrence(stack, np.ones(3), np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"x0: expected 3 rows, got shape \(4,\)"):
        mmchain.recurrence(stack, np.ones(4))
    with pytest.raises(ValueError, match=r"b: expected .* \(2, 3\), got \(2, 4\)"):
        mmchain.recurrence(stack, np.ones(3), np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"out: expected shape \(2, 3\), got \(2, 4\)"):
        mmchain.recurrence(stack, np.ones(3), out=np.empty((2, 4)))


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


# ---- gradients ------------------------------------------------------------------------------------


def by_torch(torch, a, x0, b, recurrence, reverse, exclusive):
    """All states by PyTorch's own products, one after the other."""
    stack, n, length = a.shape[:-3], a.shape[-1], a.shape[-3]
    if x0 is not None:
        x0 = x0.expand(*stack, *x0.shape[-2:])
    state, states = x0, [None] * length
    for t in reversed(range(length)) if reverse else range(length):
        before = torch.eye(n, dtype=a.dtype).expand(*stack, n, n) if state is None else state
        factor = a[..., t, :, :]
        if state is None:
            state = factor
        else:
            state = factor @ state if recurrence or reverse else state @ factor
        if b is not None:
            state = state + b[..., t, :, :]
        states[t] = before if exclusive else state
    return torch.stack(states, -3)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_of_torch(dtype):
    torch = pytest.importorskip("torch")
    random = torch.Generator().manual_seed(SEED)
    print("seed", SEED)
    dtype = getattr(torch, dtype)

    def draw(*shape):
        values = torch.randn(*shape, dtype=dtype, generator=random) / 1.5
        return values.requires_grad_()

    for case in range(64):
        reverse, exclusive, has_initial, recurrence, has_stack = (case >> i & 1 for i in range(5))
        length = (1, 2, 5, 9)[int(torch.randint(4, (), generator=random))]
        if (recurrence and not has_initial) or (exclusive and length == 1):
            continue
        n, stack = 3, (2,) * has_stack
        columns = 2 if recurrence else n
        a = draw(*stack, length, n, n)
        x0 = draw(*(1,) * has_stack, n, columns) if has_initial else None
        b = draw(length, n, columns) if recurrence and case & 32 else None
        flags = {"reverse": bool(reverse), "exclusive": bool(exclusive)}
        if recurrence:
            got = mmchain.recurrence(a, x0, b, **flags)
        else:
            got = mmchain.scan(a, initial=x0, **flags)
        expected = by_torch(torch, a, x0, b, recurrence, reverse, exclusive)
        assert torch.allclose(got, expected)
        inputs = [x for x in (a, x0, b) if x is not None]
        cotangent = torch.randn(got.shape, dtype=dtype, generator=random)
        theirs = torch.autograd.grad(expected, inputs, cotangent, create_graph=True)
        ours = torch.autograd.grad(got, inputs, cotangent, create_graph=True)
        for x, y in zip(ours, theirs):
            assert torch.allclose(x, y), (case, length)
        # and the gradients of gradients
        again = [sum((x.abs() ** 2).sum() for x in slopes) for slopes in (ours, theirs)]
        if not again[1].requires_grad:
            continue
        twice = [torch.autograd.grad(x, inputs, allow_unused=True) for x in again]
        for x, y in zip(*twice):
            x, y = (torch.zeros(1) if z is None else z for z in (x, y))
            assert torch.allclose(x, y.to(x.dtype), rtol=1e-4, atol=1e-7), (case, length)


def test_integers_of_torch():
    torch = pytest.importorskip("torch")
    a = torch.randint(-3, 4, (6, 3, 3), generator=torch.Generator().manual_seed(SEED))
    expected = by_torch(torch, a, None, None, False, False, False)
    got = mmchain.scan(a)
    assert got.dtype is torch.int64 and torch.equal(got, expected)
    out = torch.empty_like(a)
    assert mmchain.scan(a, out=out) is out and torch.equal(out, expected)
    x0 = torch.tensor([1, 2, 3])
    assert torch.equal(mmchain.recurrence(a, x0)[1], a[1] @ a[0] @ x0)


def test_jax_follows_recurrences():
    jax = pytest.importorskip("jax")
    random = np.random.default_rng(SEED)
    a, b = random.standard_normal((40, 3, 3)) / 2, random.standard_normal((40, 3))
    x0 = random.standard_normal(3)
    for reverse in (False, True):
        for exclusive in (False, True):
            flags = {"reverse": reverse, "exclusive": exclusive}
            expected = mmchain.recurrence(a, x0, b, **flags)
            follow = jax.jit(lambda a, x0, b: mmchain.recurrence(a, x0, b, **flags))
            given = [jax.numpy.asarray(x) for x in (a, x0, b)]
            assert np.allclose(follow(*given), expected, atol=1e-4, rtol=1e-4)
            # The gradient of the sum by x0, against a difference.
            slope = jax.grad(lambda x: mmchain.recurrence(given[0], x, given[2], **flags).sum())(given[1])
            step = mmchain.recurrence(a, x0 + [1, 0, 0], b, **flags).sum() - expected.sum()
            assert abs(float(slope[0]) - step) <= 1e-3 * (1 + abs(step))
