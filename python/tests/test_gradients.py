"""Gradients of chains, against their definition and against PyTorch's."""

import threading
from functools import reduce

import numpy as np
import pytest

import mmchain


def random(rng, *shape, dtype=np.float64):
    drawn = rng.uniform(-1, 1, shape)
    if np.issubdtype(dtype, np.complexfloating):
        drawn = drawn + 1j * rng.uniform(-1, 1, shape)
    return drawn.astype(dtype)


def matrices(rng, dims, dtype=np.dtype(np.float64)):
    return [random(rng, m, n, dtype=dtype) / dtype.type(max(n, 1) ** 0.5) for m, n in zip(dims, dims[1:])]


def by_definition(factors, cotangent):
    def product(some, size):
        return reduce(np.matmul, some, np.eye(size))

    return [
        product(factors[:i], len(factors[0])).conj().T
        @ cotangent
        @ product(factors[i + 1 :], a.shape[1]).conj().T
        for i, a in enumerate(factors)
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 33, 100])
def test_definition(rng, dtype, n):
    dims = rng.integers(1, 20, n + 1) if n % 2 else np.full(n + 1, 9)
    factors = matrices(rng, dims, np.dtype(dtype))
    cotangent = random(rng, dims[0], dims[-1], dtype=np.dtype(dtype))
    product, gradients = mmchain.gradients(factors, cotangent)
    wide = [a.astype(complex) for a in factors]
    eps = np.finfo(dtype).eps
    assert np.allclose(product, reduce(np.matmul, wide), rtol=0, atol=200 * n * eps)
    for got, expected, factor in zip(gradients, by_definition(wide, cotangent), factors):
        assert got.dtype == dtype and got.shape == factor.shape
        assert np.abs(got - expected).max() <= 400 * n * eps * max(1, np.abs(expected).max())


def test_layouts(rng):
    factors = matrices(rng, [5, 6, 7, 8])
    cotangent = random(rng, 5, 8)
    expected = by_definition(factors, cotangent)
    wide = np.zeros((12, 21))
    wide[::2, ::3] = factors[1]
    for second in (np.asfortranarray(factors[1]), wide[::2, ::3], wide[::2, ::3].astype(">f8")):
        _, got = mmchain.gradients([factors[0], second, factors[2]], np.asfortranarray(cotangent))
        assert all(np.allclose(a, b, rtol=1e-13) for a, b in zip(got, expected))


def test_a_cotangent_that_is_not_aligned(rng):
    factors = matrices(rng, [5, 6, 7])
    cotangent = random(rng, 5, 7)
    bytes_before = np.zeros(cotangent.nbytes + 1, np.uint8)
    moved = bytes_before[1:].view(cotangent.dtype).reshape(cotangent.shape)
    moved[...] = cotangent
    _, got = mmchain.gradients(factors, moved)
    assert all(np.allclose(a, b, rtol=1e-13) for a, b in zip(got, by_definition(factors, cotangent)))
    _, got = mmchain.gradients([factors[0][:0], factors[1]], moved[:0])
    assert got[0].shape == (0, 6) and not got[1].any()


def test_bfloat16_that_was_broadcast():
    torch = pytest.importorskip("torch")
    a, b = torch.randn(9, 3, 4, generator=torch.manual_seed(1)), torch.randn(4, 5)
    given = [a.bfloat16(), b.bfloat16()]
    cotangent = torch.ones(9, 3, 5, dtype=torch.bfloat16)
    _, (_, got) = mmchain.gradients(given, cotangent)
    each = (given[0].float().mH @ cotangent.float()).bfloat16().float()
    assert got.dtype == torch.bfloat16 and got.shape == b.shape
    assert torch.equal(got, each.sum(0).bfloat16())
    _, (_, got) = mmchain.gradients([given[0] * torch.nan, given[1]], cotangent)
    assert got.isnan().all()


def test_vectors_and_stacks(rng):
    a, b, c = random(rng, 4), random(rng, 4, 5), random(rng, 5)
    product, (da, db, dc) = mmchain.gradients([a, b, c], np.array(2.0))
    assert product.shape == () and np.allclose(product, a @ b @ c)
    assert np.allclose(da, 2 * b @ c) and np.allclose(db, 2 * np.outer(a, c)) and np.allclose(dc, 2 * a @ b)
    a, b = random(rng, 3, 1, 4, 5), random(rng, 2, 5, 6)
    g = random(rng, 3, 2, 4, 6)
    product, (da, db) = mmchain.gradients([a, b], g)
    assert np.allclose(product, a @ b)
    assert np.allclose(da, (g @ np.swapaxes(b, 1, 2)).sum(1, keepdims=True))
    assert np.allclose(db, (np.swapaxes(a, 2, 3) @ g).sum(0))


def test_function(rng):
    factors, goal = matrices(rng, [3, 4, 5]), random(rng, 3, 5)
    product, got = mmchain.gradients(factors, lambda p: 2 * (p - goal))
    expected = by_definition(factors, 2 * (product - goal))
    assert all(np.allclose(a, b) for a, b in zip(got, expected))


def test_nan(rng):
    factors = matrices(rng, [6] * 9)
    factors[3][:] = np.nan
    _, got = mmchain.gradients(factors, random(rng, 6, 6))
    assert [bool(np.isnan(g).all()) for g in got] == [i != 3 for i in range(8)]
    assert not np.isnan(got[3]).any()


def test_errors(rng):
    factors = matrices(rng, [3, 4, 5])
    with pytest.raises(ValueError, match="cotangent: expected shape"):
        mmchain.gradients(factors, np.zeros((5, 3)))
    with pytest.raises(TypeError, match="cotangent"):
        mmchain.gradients(factors, np.zeros((3, 5), complex))
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.gradients(factors[::-1], np.zeros((3, 5)))
    with pytest.raises(TypeError, match="arrays: expected one of"):
        mmchain.gradients([np.ones((2, 2), int)] * 2, np.ones((2, 2)))
    records = np.zeros((2, 2), [("b", np.uint16)])
    with pytest.raises(TypeError, match="arrays: expected numbers"):
        mmchain.gradients([records] * 2, records)
    with pytest.raises(ValueError, match="at least one"):
        mmchain.gradients([], np.ones((2, 2)))


def test_threads(rng):
    factors = matrices(rng, [16] * 40)
    cotangent = random(rng, 16, 16)
    expected = by_definition(factors, cotangent)
    wrong = []

    def work():
        for _ in range(20):
            _, got = mmchain.gradients(factors, cotangent)
            if not all(np.allclose(a, b, atol=1e-10) for a, b in zip(got, expected)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- PyTorch ---------------------------------------------------------------------------------------


def tensors(torch, rng, dims, dtype, wanted=None):
    made = [torch.from_numpy(a) for a in matrices(rng, dims, np.dtype(dtype))]
    return [t.requires_grad_(wanted is None or bool(wanted[i])) for i, t in enumerate(made)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [20, 31, 100])
def test_torch(rng, dtype, n):
    torch = pytest.importorskip("torch")
    dims = rng.integers(1, 20, n + 1) if n % 2 else np.full(n + 1, 9)
    wanted = rng.random(n) < 0.7
    wanted[0] = True
    factors = tensors(torch, rng, dims, dtype, wanted)
    factors[2] = factors[2].detach().mT.contiguous().mT.requires_grad_(bool(wanted[2]))
    product = mmchain.multi_dot(factors)
    assert "_Chain" in type(product.grad_fn).__name__
    cotangent = torch.from_numpy(random(rng, dims[0], dims[-1], dtype=np.dtype(dtype)))
    inputs = [t for t in factors if t.requires_grad]
    got = torch.autograd.grad(product, inputs, cotangent)
    expected = torch.autograd.grad(torch.linalg.multi_dot(factors), inputs, cotangent)
    tolerance = 400 * n * np.finfo(dtype).eps
    for a, b in zip(got, expected):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert float((a - b).abs().max()) <= tolerance * max(1, float(b.abs().max()))


def test_torch_again(rng):
    """The same gradients twice, a factor that occurs twice, gradients that are added up."""
    torch = pytest.importorskip("torch")
    factors = tensors(torch, rng, [7] * 19, "float64")
    factors[5] = factors[1]
    inputs = [*factors[:5], *factors[6:]]
    product = mmchain.multi_dot(factors)
    cotangent = torch.from_numpy(random(rng, 7, 7))
    first = torch.autograd.grad(product, inputs, cotangent, retain_graph=True)
    kept = [g.clone() for g in first]
    second = torch.autograd.grad(product, inputs, cotangent)
    expected = torch.autograd.grad(torch.linalg.multi_dot(factors), inputs, cotangent)
    for a, b, c, d in zip(first, kept, second, expected):
        assert torch.equal(a, b) and torch.equal(a, c) and torch.allclose(a, d)
    for factor in inputs:
        factor.grad = None
    for _ in range(2):
        mmchain.multi_dot(factors).backward(cotangent)
    for factor, gradient in zip(inputs, expected):
        assert torch.allclose(factor.grad, 2 * gradient)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product = mmchain.multi_dot(factors)
        with torch.no_grad():
            factors[3].mul_(2)
        product.sum().backward()


def test_torch_second_gradients(rng):
    torch = pytest.importorskip("torch")
    factors = tensors(torch, rng, [1, 2] * 10 + [2], "float64")
    assert "_Chain" in type(mmchain.multi_dot(factors).grad_fn).__name__
    assert torch.autograd.gradcheck(lambda *f: mmchain.multi_dot(list(f)), factors)
    assert torch.autograd.gradgradcheck(lambda *f: mmchain.multi_dot(list(f)), factors)


def test_torch_of_numpy_api(rng):
    torch = pytest.importorskip("torch")
    factors = tensors(torch, rng, [4, 5, 6], "float64")
    product, got = mmchain.gradients([f.detach() for f in factors], lambda p: torch.ones_like(p))
    (factors[0] @ factors[1]).sum().backward()
    assert isinstance(product, torch.Tensor) and isinstance(got[0], torch.Tensor)
    assert all(torch.allclose(g, f.grad) for g, f in zip(got, factors))


def test_memory_limit(rng):
    # The product of the first two is larger than both, and read on the way back.
    factors = matrices(rng, [40, 2, 40, 2, 40, 2, 40])
    cotangent = random(rng, 40, 40)
    _, expected = mmchain.gradients(factors, cotangent)
    size = sum(a.nbytes for a in factors)
    product, got = mmchain.gradients(factors, cotangent, memory_limit=3 * size)
    assert np.allclose(product, reduce(np.matmul, factors), rtol=1e-12)
    assert all(np.allclose(a, b, rtol=1e-11, atol=1e-13) for a, b in zip(got, expected))
    with pytest.raises(MemoryError, match="memory_limit: "):
        mmchain.gradients(factors, cotangent, memory_limit=size - 1)
    with pytest.raises(ValueError, match="memory_limit"):
        mmchain.gradients(factors, cotangent, memory_limit=-1)
