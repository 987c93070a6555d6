"""Factors with structure that are PyTorch's tensors, and their gradients, against dense ones of PyTorch."""

import itertools

import pytest

import mmchain

torch = pytest.importorskip("torch")
DTYPES = [torch.float64, torch.complex128]
KINDS = ["general", "lower", "upper", "diagonal", "symmetric", "hermitian", "spd", "banded", "tridiagonal", "orthogonal", "permutation"]


def matrix(rows, columns, dtype):
    a = torch.randn(rows, columns, dtype=dtype) / columns**0.5
    return a + 2 * torch.eye(rows, columns, dtype=dtype)


def stored(kind, n, dtype):
    a = matrix(n, n, dtype)
    return {
        "general": a,
        "lower": a.tril(),
        "upper": a.triu(),
        "diagonal": torch.diag(torch.diagonal(a)),
        "symmetric": a + a.mT,
        "hermitian": a + a.mH,
        "spd": a @ a.mH + torch.eye(n, dtype=dtype),
        "banded": a.tril(2).triu(-1),
        "tridiagonal": a.tril(1).triu(-1),
        "orthogonal": torch.linalg.qr(a)[0],
        "permutation": torch.eye(n, dtype=dtype).flip(0),
    }[kind]


def part(kind, a):
    """The matrix of that kind that a stored one stands for, so that its gradient is of that kind."""
    return {
        "general": a,
        "lower": a.tril(),
        "upper": a.triu(),
        "diagonal": torch.diag(torch.diagonal(a)),
        "symmetric": (a + a.mT) / 2,
        "hermitian": (a + a.mH) / 2,
        "spd": (a + a.mH) / 2,
        "banded": a.tril(2).triu(-1),
        "tridiagonal": a.tril(1).triu(-1),
        # A step of Newton's and Schulz's to the nearest orthogonal matrix, which leaves one as it is.
        "orthogonal": a @ (3 * torch.eye(len(a), dtype=a.dtype) - a.mH @ a) / 2,
        "permutation": 0 * a + a.detach(),
    }[kind]


def claim(kind, a):
    if kind == "banded":
        return mmchain.banded(a, 1, 2)
    return mmchain.Factor(a) if kind == "general" else getattr(mmchain, kind)(a)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_every_kind(kind, dtype):
    torch.manual_seed(3)
    for n, inverse, op in itertools.product((1, 2, 9), (False, True), "NTH"):
        a, b, c = stored(kind, n, dtype), matrix(n, 4, dtype), matrix(3, n, dtype)
        leaves = [x.clone().requires_grad_() for x in (c, a, b)]
        f = claim(kind, leaves[1])
        f = {"N": f, "T": f.T, "H": f.H}[op]
        ours = mmchain.multi_dot([leaves[0], mmchain.inv(f) if inverse else f, leaves[2]])
        others = [x.clone().requires_grad_() for x in (c, a, b)]
        dense = part(kind, others[1])
        dense = {"N": dense, "T": dense.mT, "H": dense.mH}[op]
        theirs = others[0] @ (torch.linalg.inv(dense) if inverse else dense) @ others[2]
        close(ours.detach(), theirs.detach())
        weight = torch.randn_like(ours)
        (ours * weight).sum().abs().backward()
        (theirs * weight).sum().abs().backward()
        for x, y in zip(leaves, others):
            close(x.grad, y.grad)


def test_normal_equations():
    torch.manual_seed(4)
    x, y = matrix(30, 5, torch.float64).requires_grad_(), torch.randn(30, dtype=torch.float64, requires_grad=True)
    b = mmchain.multi_dot([mmchain.inv([x.T, x]), x.T, y])
    assert b.shape == (5,)
    wanted = torch.linalg.inv(x.T @ x) @ x.T @ y
    close(b.detach(), wanted.detach())
    ours, theirs = torch.autograd.grad(b.sum(), (x, y)), torch.autograd.grad(wanted.sum(), (x, y))
    for g, h in zip(ours, theirs):
        close(g, h)


def test_gradients_of_gradients():
    torch.manual_seed(5)
    a = stored("spd", 4, torch.float64).requires_grad_()
    b, c = matrix(4, 3, torch.float64).requires_grad_(), matrix(4, 4, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b, c: mmchain.multi_dot([mmchain.inv([mmchain.symmetric((a + a.T) / 2), c]), b]), (a, b, c)
    )
    assert torch.autograd.gradgradcheck(
        lambda b, c: mmchain.multi_dot([mmchain.inv(mmchain.lower(c.tril())), b]), (b, c)
    )


def test_dtypes_and_errors():
    a, b = torch.eye(3), torch.ones(3, 2, dtype=torch.float64)
    assert mmchain.multi_dot([mmchain.lower(a), b]).dtype == torch.float64
    assert mmchain.multi_dot([mmchain.diagonal(torch.arange(1, 4)), b]).dtype == torch.float64
    with pytest.raises(TypeError, match="one library"):
        mmchain.multi_dot([mmchain.lower(a), b.numpy()])
    with pytest.raises(TypeError, match="float16"):
        mmchain.multi_dot([mmchain.lower(a.half()), b.half()])
    with pytest.raises(TypeError, match="out"):
        mmchain.multi_dot([mmchain.lower(a), a], out=torch.empty(3, 3))
    assert mmchain.plan([mmchain.inv(mmchain.lower(a)), a], objective="flops").steps[0].kernel == "trsm"


def test_no_matrix_is_made_of_an_index_or_a_diagonal():
    n = 1 << 17  # of which a matrix has 2^34 elements
    index, d, x = torch.randperm(n), torch.rand(n), torch.rand(n, 2).requires_grad_()
    factors = [mmchain.permutation(index), mmchain.diagonal(d), x]
    for _ in range(2):
        product = mmchain.multi_dot(factors)
        assert torch.equal(product, (d[:, None] * x)[index])
    (slope,) = torch.autograd.grad(product.sum(), x)
    assert torch.equal(slope, d[:, None].expand(n, 2))
    assert not factors[0]._made and not factors[1]._made


def test_the_matrix_of_an_index_is_a_tensor(recwarn):
    index = torch.randperm(70)
    p, low = mmchain.permutation(index), torch.eye(70, dtype=torch.complex128)
    assert torch.equal(p.array, torch.eye(70)[index])
    assert torch.equal(mmchain.multi_dot([p, p, low]), low[index][index])
    assert not recwarn.list


def test_gradients_of_a_diagonal_beside_an_index():
    index, x = torch.randperm(70), matrix(70, 1, torch.float64).requires_grad_()
    d = torch.rand(70, dtype=torch.float64).add(1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda d, x: mmchain.multi_dot([mmchain.permutation(index), mmchain.inv(mmchain.diagonal(d)), x]), (d, x)
    )


def test_known_chains_are_not_described_again(monkeypatch):
    low, x = torch.eye(4) * 2, torch.ones(4, 2)
    chains = [[mmchain.inv(mmchain.lower(low)), x], [mmchain.diagonal(torch.arange(4.0)), x]]
    wanted = [mmchain.multi_dot(chain) for chain in chains]
    monkeypatch.setattr("mmchain._structure._Chain", None)
    for chain, product in zip(chains, wanted):
        assert torch.equal(mmchain.multi_dot(chain), product)


def test_twins_whose_product_is_like_any_other():
    x = torch.randn(64, 64, dtype=torch.complex128)
    for options in ({}, {"precision": "reproducible"}, {"precision": "fast"}, {"objective": "energy"}, {"device": "ref"}):
        torch.testing.assert_close(mmchain.multi_dot([x, x.T], **options), x @ x.T)
