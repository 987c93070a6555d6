"""Products over semirings and products with exponents, against NumPy's from left to right."""

import itertools

import numpy as np
import pytest

import mmchain

rng = np.random.default_rng(41)
dtypes = {"max-plus": "fdl", "min-plus": "fdl", "log": "fd", "or-and": "?"}


def product(semiring, a, b):
    if semiring == "or-and":
        return a @ b
    sums = a[..., :, :, None] + b[..., None, :, :]
    if semiring == "log":
        return np.logaddexp.reduce(sums, axis=-2)
    return sums.max(axis=-2) if semiring == "max-plus" else sums.min(axis=-2)


def random(char, shape):
    if char == "?":
        return rng.random(shape) < 0.2
    return rng.integers(-100, 100, shape) if char == "l" else rng.normal(size=shape).astype(char)


def expect(got, expected, char):
    assert got.dtype == np.dtype(char)
    np.testing.assert_allclose(got, expected, rtol=1e-5 if char == "f" else 1e-13, atol=1e-4 if char == "f" else 1e-12)


@pytest.mark.parametrize("semiring", dtypes)
@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_multi_dot(semiring, device):
    for char, stack in itertools.product(dtypes[semiring], [(), (3,)]):
        a, b, c = (random(char, stack + s) for s in [(4, 7), (7, 5), (5, 6)])
        got = mmchain.multi_dot([a, b, c.swapaxes(-1, -2).copy().swapaxes(-1, -2)], semiring=semiring, device=device)
        expect(got, product(semiring, product(semiring, a, b), c), char)
    if semiring != "or-and":
        a = random("d", (5, 5))
        expect(mmchain.multi_dot([a] * 3, semiring=semiring), product(semiring, product(semiring, a, a), a), "d")
        vector = mmchain.multi_dot([a[0], a], semiring=semiring)
        expect(vector, product(semiring, a[:1], a)[0], "d")


@pytest.mark.parametrize("semiring", dtypes)
def test_scan(semiring):
    for char, stack in itertools.product(dtypes[semiring], [(), (2,)]):
        a = random(char, stack + (9, 3, 3))
        got = mmchain.scan(a, semiring=semiring)
        expected = a[..., 0, :, :]
        for t in range(9):
            if t:
                expected = product(semiring, expected, a[..., t, :, :])
            expect(got[..., t, :, :], expected, char)


@pytest.mark.parametrize("semiring", dtypes)
@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_ranges(semiring, device):
    for char, stack in itertools.product(dtypes[semiring], [(), (2,)]):
        a = random(char, stack + (9, 3, 3))
        row = mmchain.Ranges(a, semiring=semiring, device=device)
        row.update(4, a[..., 0, :, :])
        row.append(a[..., 1, :, :])
        row.pop_front(2)
        a = np.concatenate([a[..., 2:4, :, :], a[..., :1, :, :], a[..., 5:, :, :], a[..., 1:2, :, :]], axis=-3)
        for i, j in [(0, 8), (1, 7), (3, 5), (2, 3)]:
            expected = a[..., i, :, :]
            for t in range(i + 1, j):
                expected = product(semiring, expected, a[..., t, :, :])
            expect(row.product(i, j), expected, char)
        one = row.product(4, 4)
        expect(mmchain.multi_dot([one, a[..., 0, :, :]], semiring=semiring), a[..., 0, :, :], char)


def test_recurrence():
    a, x = rng.normal(size=(20, 6, 6)), rng.normal(size=6)
    states = mmchain.recurrence(a, x, semiring="max-plus")
    for t in range(20):
        x = (a[t] + x).max(axis=1)
        np.testing.assert_allclose(states[t], x, rtol=1e-13)


def test_shortest_paths():
    n = 12
    steps = np.where(rng.random((n, n)) < 0.3, rng.random((n, n)), np.inf)
    np.fill_diagonal(steps, 0)
    got = mmchain.multi_dot([steps] * n, semiring="min-plus")
    expected = steps.copy()
    for k in range(n):
        expected = np.minimum(expected, expected[:, k : k + 1] + expected[k : k + 1])
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_exponents():
    a = rng.normal(size=(500, 4, 4))
    plain, none = mmchain.scan(a[:40], scaled=True)
    np.testing.assert_allclose(np.ldexp(plain, none[:, None, None]), mmchain.scan(a[:40]), rtol=1e-12, atol=1e-12)
    for power in (200, -200):
        digits, exponents = mmchain.scan(np.ldexp(a, power), scaled=True)
        assert np.isfinite(digits).all() and digits.any(axis=(1, 2)).all()
        one, exponent = mmchain.multi_dot(np.ldexp(a, power), scaled=True)
        last = exponents[-1] - exponent
        np.testing.assert_allclose(np.ldexp(digits[-1], int(last)), one, rtol=1e-9, atol=1e-9 * abs(one).max())
        row = mmchain.Ranges(np.ldexp(a, power), scaled=True)
        range_digits, range_exponent = row.product()
        np.testing.assert_allclose(
            np.ldexp(range_digits, int(range_exponent - exponent)), one, rtol=1e-9, atol=1e-9 * abs(one).max()
        )
    states, exponents = mmchain.recurrence(np.ldexp(abs(a), 300), np.ones(4), scaled=True)
    assert states.shape == (500, 4) and exponents.shape == (500,) and exponents[-1] > 140000


def test_exponents_of_stacks():
    a, b = np.full((3, 2, 2), 1e300), np.full((3, 2, 2), 1e300)
    digits, exponents = mmchain.multi_dot([a, b, a], scaled=True)
    assert digits.shape == (3, 2, 2) and exponents.shape == (3,)
    np.testing.assert_allclose(np.log2(digits[:, 0, 0]) + exponents, 3 * np.log2(1e300) + 2)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_exponents_of_fortran_stacks(dtype):
    """Stacks whose matrices are strided in both dimensions are written out as without exponents,
    so the digits are the same."""
    stack = np.asfortranarray(rng.normal(size=(3, 5, 6, 6)).astype(dtype))
    digits, exponents = mmchain.multi_dot(stack, scaled=True)
    assert not exponents.any()
    np.testing.assert_array_equal(digits, mmchain.multi_dot(stack, objective="flops"))


def test_errors():
    a = np.ones((3, 4, 4))
    with pytest.raises(ValueError, match="semiring"):
        mmchain.multi_dot([a, a], semiring="max")
    with pytest.raises(ValueError, match="semiring"):
        mmchain.multi_dot([a.astype(complex)] * 2, semiring="max-plus")
    with pytest.raises(ValueError, match="scaled"):
        mmchain.multi_dot([a, a], semiring="log", scaled=True)
    with pytest.raises(ValueError, match="scaled"):
        mmchain.scan(a.astype(int), scaled=True)
    with pytest.raises(ValueError, match="scaled"):
        mmchain.recurrence(a, np.ones(4), np.ones((3, 4)), scaled=True)
    with pytest.raises(ValueError, match="semiring"):
        mmchain.Ranges(a, semiring="max")
    with pytest.raises(ValueError, match="semiring"):
        mmchain.Ranges(a.astype(complex), semiring="log")
    with pytest.raises(ValueError, match="scaled"):
        mmchain.Ranges(a, semiring="log", scaled=True)
    with pytest.raises(ValueError, match="checked"):
        mmchain.multi_dot([a, a], semiring="max-plus", checked=True)


def test_tensors():
    torch = pytest.importorskip("torch")
    for semiring, char in itertools.chain.from_iterable([(s, c) for c in dtypes[s]] for s in dtypes):
        a, b = (random(char, shape) for shape in [(2, 4, 7), (2, 7, 5)])
        got = mmchain.multi_dot([torch.tensor(a), torch.tensor(b)], semiring=semiring)
        expect(got.numpy(), product(semiring, a, b), char)
        turned = torch.tensor(b).mT.contiguous().mT
        out = torch.empty_like(got)
        assert mmchain.multi_dot([torch.tensor(a), turned], semiring=semiring, out=out) is out
        assert torch.equal(out, got)
        stack = random(char, (5, 3, 3))
        running = mmchain.scan(torch.tensor(stack), semiring=semiring)
        expect(running.numpy(), mmchain.scan(stack, semiring=semiring), char)
    lazy = torch.randn(3, 3, dtype=torch.complex64).conj().imag
    assert lazy.is_neg()
    expect(
        mmchain.multi_dot([lazy, lazy], semiring="max-plus").numpy(),
        product("max-plus", *2 * [lazy.resolve_neg().numpy()[None]])[0],
        "f",
    )
    x = torch.ones(3, 3)
    with pytest.raises(ValueError, match="gradients"):
        mmchain.multi_dot([x, x.clone().requires_grad_()], semiring="max-plus")
    with pytest.raises(TypeError, match="float16"):
        mmchain.multi_dot([x.half(), x.half()], semiring="max-plus")
    with pytest.raises(TypeError, match="scaled"):
        mmchain.multi_dot([x, x], scaled=True)


def on_gpu(arrays):
    """The arrays as those of each library that has a GPU here."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    yield [torch.tensor(array, device="cuda") for array in arrays], lambda x: x.cpu().numpy()
    try:
        import cupy
    except ImportError:
        return
    yield [cupy.asarray(array) for array in arrays], cupy.asnumpy


@pytest.mark.parametrize("semiring", ["max-plus", "min-plus", "log"])
def test_gpu(semiring):
    for char, n in itertools.product("fd", [3, 16, 33, 150]):
        arrays = [random(char, (2, n, n)) for _ in range(3)]
        factors = random(char, (200, n % 17, n % 17))
        factors[3, 0, 0] = -np.inf
        left = product(semiring, product(semiring, arrays[0], arrays[1]), arrays[2])
        for given, back in on_gpu(arrays + [factors]):
            expect(back(mmchain.multi_dot(given[:3], semiring=semiring)), left, char)
            reverse = mmchain.scan(given[3], semiring=semiring, reverse=True, exclusive=True)
            expected = mmchain.scan(factors, semiring=semiring, reverse=True, exclusive=True)
            expect(back(reverse), expected, char)
            states = mmchain.recurrence(given[3], given[3][0, 0], semiring=semiring)
            expected = mmchain.recurrence(factors, factors[0, 0], semiring=semiring)
            expect(back(states), expected, char)
