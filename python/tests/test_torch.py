"""multi_dot and plans of PyTorch tensors: values, layouts, dtypes, and who multiplies."""

from functools import reduce

import numpy as np
import pytest

from tensors import DTYPES, LAST, SAMPLES, check, counted, device, make, needs_exchange, torch  # noqa: F401

import mmchain
from mmchain import _mmchain, _torch


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dims", SAMPLES, ids=str)
def test_sample_shapes(make, dims, dtype):
    tensors = make(dims, dtype)
    result = mmchain.multi_dot(tensors)
    assert type(result) is torch.Tensor and not result.requires_grad
    check(result, tensors)


def test_numpy_agrees(make):
    tensors = make([5, 7, 3, 6])
    expected = np.linalg.multi_dot([t.cpu().numpy() for t in tensors])
    np.testing.assert_allclose(mmchain.multi_dot(tensors).cpu().numpy(), expected)


def test_plan_says_where(make, device):
    tensors = make([5, 7, 3, 6], torch.float32)
    p = mmchain.plan(tensors)
    assert p.chain == "f32:5x7x3x6"
    assert p.device.startswith("cuda") == (device == "cuda")
    check(p.execute(tensors), tensors)
    with pytest.raises(TypeError, match="planned"):
        p.execute([t.to(torch.complex64) for t in tensors])


def test_results_are_tensors_like_any(make):
    """Also where C makes them by PyTorch's functions of C++: of every dtype, small, large, empty, without dimensions."""
    for dtype in DTYPES:
        for dims in [[9, 4, 5, 3], [300, 2, 3, 800], [0, 4, 5, 3], [1, 4, 5, 1]]:
            a, b, c = make(dims, dtype)
            for chain in ([a, b, c], [a[0], b, c], [a, b, c[:, 0]], [a[0], b, c[:, 0]]) if dims[0] else ([a, b, c],):
                result = mmchain.multi_dot(chain)
                check(result, chain)
                theirs = torch.empty(result.shape, dtype=dtype, device=a.device)
                assert result.stride() == theirs.stride() and result.is_leaf and not result.is_inference()
                assert result.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()
                result.add_(1).requires_grad_()
            with torch.inference_mode():
                assert mmchain.multi_dot([a, b, c]).is_inference()


@needs_exchange
def test_tensors_are_asked_as_pytorch_says():
    """Lazily negated and conjugated, wanting gradients, and under torch.no_grad()."""
    plain = torch.randn(5, 5, dtype=torch.complex128)
    wanting, negated, conjugated = plain.clone().requires_grad_(), plain.conj().imag, plain.conj()
    given = [plain, wanting, negated, conjugated]
    addresses = tuple(tensor._cdata for tensor in given)
    learn = _mmchain.learn_tensors
    known = learn(_torch._exact, *given, addresses)
    for i in range(4):  # one that is not what it is said to be
        other = [*given[:i], given[i - 1], *given[i + 1 :]]
        assert not learn(_torch._exact, *other, tuple(tensor._cdata for tensor in other))
        assert not learn(_torch._exact, *given, (*addresses[:i], 8, *addresses[i + 1 :]))
    assert known == learn(_torch._exact, *given, addresses)
    for chain in ([plain, conjugated, plain], [conjugated, plain, conjugated], [negated, plain.real, negated]):
        torch.testing.assert_close(mmchain.multi_dot(chain), reduce(torch.matmul, chain))
    for wants in (wanting, torch.nn.Parameter(plain)):
        assert mmchain.multi_dot([plain, wants, plain]).requires_grad
        with torch.no_grad():
            assert not mmchain.multi_dot([plain, wants, plain]).requires_grad


def test_plan_of_tensors_without_memory():
    shapes = [torch.empty(shape, device="meta") for shape in [(5, 7), (7, 3), (3, 6)]]
    assert mmchain.plan(shapes).chain == "f32:5x7x3x6"


def test_strides_views_stacks_vectors(make):
    a, b, c = make([8, 6, 10, 4])
    for x in (a.t().contiguous().t(), a[::2, ::2][:, :3], a.flip(0)):
        y = b[: x.shape[1]]
        check(mmchain.multi_dot([x, y, c]), [x, y, c])
    stack = torch.stack([a, 2 * a, 3 * a])
    check(mmchain.multi_dot([stack, b, c]), [stack, b, c])
    check(
        mmchain.multi_dot([stack[:, None], stack.mT[None], a]), [stack[:, None], stack.mT[None], a]
    )
    check(mmchain.multi_dot([a[0], b, c]), [a[0], b, c])
    check(mmchain.multi_dot([a, b, c[:, 0]]), [a, b, c[:, 0]])
    assert mmchain.multi_dot([a[0], b, c[:, 0]]).shape == ()


def test_one_stack_is_the_chain(rng, device):
    for shape in [(50, 4, 4), (3, 20, 5, 5)]:
        a = torch.from_numpy(rng.standard_normal(shape)).to(device) / 2
        expected = a[..., 0, :, :]
        for i in range(1, shape[-3]):
            expected = expected @ a[..., i, :, :]
        found = mmchain.multi_dot(a)
        assert type(found) is torch.Tensor and found.device == a.device
        assert torch.allclose(found, expected, rtol=1e-10)
        assert torch.equal(mmchain.plan(a).execute(a), found)
        x = a.clone().requires_grad_()
        mmchain.multi_dot(x).sum().backward()
        y = a.clone().requires_grad_()
        product = y[..., 0, :, :]
        for i in range(1, shape[-3]):
            product = product @ y[..., i, :, :]
        product.sum().backward()
        assert torch.allclose(x.grad, y.grad, rtol=1e-8)


def test_lazy_conjugates_and_negatives(make):
    a, b, c = make([4, 3, 5, 2], torch.complex128)
    check(mmchain.multi_dot([a.conj(), b, c]), [a.conj().resolve_conj(), b, c])
    check(mmchain.multi_dot([b.mH, a.mH]), [b.mH.resolve_conj(), a.mH.resolve_conj()])
    negative = a.conj().imag
    assert negative.is_neg()
    check(
        mmchain.multi_dot([negative, b.real, c.real]),
        [negative.resolve_neg(), b.real.contiguous(), c.real.contiguous()],
    )


def _lazily(tensor, how):
    """The matrices as a lazy conjugate of others that lie in some way."""
    if how == "adjoint":
        return tensor.mH.clone(memory_format=torch.contiguous_format).mH
    if how == "conjugate":
        return tensor.conj().resolve_conj().conj()
    if how == "padded":
        wide = torch.cat([tensor.mH, tensor.mH], -1)
        return wide[..., : tensor.shape[-2]].mH
    return tensor


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_conjugates_of_any_layout(rng, device, dtype):
    """By plans, into out, of stacks, with factors that repeat; several times, as calls are kept."""
    ways = ["plain", "adjoint", "conjugate", "padded"]
    for _ in range(60):
        count = int(rng.integers(2, 12)) if rng.random() < 0.2 else int(rng.integers(2, 5))
        dims = rng.integers(1, 20, count + 1).tolist()
        if rng.random() < 0.3:
            dims = [dims[0]] * (count + 1)
        stack = [(), (3,), (2, 2)][rng.integers(3)]
        factors, share = [], rng.choice([0.3, 0.8])
        for rows, cols in zip(dims, dims[1:]):
            mine = stack if rng.random() < share else ()
            plain = rng.standard_normal((2, *mine, rows, cols))
            made = torch.tensor(plain[0] + 1j * plain[1], dtype=dtype, device=device)
            factors.append(_lazily(made, ways[rng.integers(4)]))
        if len(set(dims)) == 1:
            factors = [factors[rng.integers(2)] for _ in factors[:-1]] + [factors[0].mH]
        expected = reduce(torch.matmul, [f.resolve_conj() for f in factors])
        out, plan = torch.empty_like(expected), mmchain.plan(factors)
        for _ in range(4):
            for found in (
                mmchain.multi_dot(factors),
                mmchain.multi_dot(factors, out=out),
                plan.execute(factors),
            ):
                assert not found.is_conj() and found.shape == expected.shape
                scale = float(expected.abs().max())
                limit = 1e-4 if dtype == torch.complex64 else 1e-12
                assert float((found - expected).abs().max()) <= limit * scale


def test_promotion_and_integers(make, device):
    a, b, c = make([4, 3, 5, 2], torch.float32)
    check(mmchain.multi_dot([a, b.double(), c]), [a, b.double(), c], torch.float64)
    if device == "cpu":
        i = torch.arange(9).reshape(3, 3)
        assert torch.equal(mmchain.multi_dot([i, i, i]), i @ i @ i)


@pytest.mark.parametrize("side", [7, 560])
def test_integers_checked_and_modulo(rng, device, side):
    """The larger ones are those of tensor cores, where there are any."""
    plain = [rng.integers(-(2**40), 2**40, (side, side)) for _ in range(3)]
    tensors = [torch.tensor(a, device=device) for a in plain]
    for mod in (2**61 - 1, 97):
        result = mmchain.multi_dot(tensors, mod=mod)
        assert result.dtype is torch.int64 and result.device.type == device
        assert np.array_equal(result.cpu().numpy(), mmchain.multi_dot(plain, mod=mod))
    small = [a % 1000 for a in plain]
    tensors = [torch.tensor(a, device=device) for a in small]
    out = torch.zeros_like(tensors[0])
    assert mmchain.multi_dot([tensors[0].t(), tensors[1], tensors[2]], checked=True, out=out) is out
    assert np.array_equal(out.cpu().numpy(), small[0].T @ small[1] @ small[2])
    tensors = [tensor.to(torch.int16) for tensor in tensors[:2]]
    with pytest.raises(OverflowError, match="factors 1 to 2"):
        mmchain.multi_dot(tensors, checked=True)
    mixed = mmchain.multi_dot([tensors[0] % 5, (tensors[1] % 5).to(torch.int32)], checked=True)
    assert mixed.dtype is torch.int32
    assert np.array_equal(mixed.cpu().numpy(), (small[0] % 5) @ (small[1] % 5))
    bools = [torch.tensor(a % 9 == 0, device=device) for a in plain[:2]]
    found = mmchain.multi_dot(bools, checked=True).cpu().numpy()
    assert np.array_equal(found, (plain[0] % 9 == 0) @ (plain[1] % 9 == 0))
    with pytest.raises(TypeError, match="integers with mod, got float32"):
        mmchain.multi_dot([tensors[0].float(), tensors[1]], mod=5)
    with pytest.raises(ValueError, match="out: expected"):
        mmchain.multi_dot(tensors, mod=5, out=torch.zeros(2, 2, dtype=torch.int64, device=device))


def test_views_of_one_matrix_are_one_in_another_dtype(device):
    a = torch.arange(9, dtype=torch.float32, device=device).reshape(3, 3)
    factors = [a[:], a.T, a.T, a[:]]
    expected = torch.linalg.multi_dot(factors)
    assert torch.equal(mmchain.plan(factors, dtype="float64").execute(factors), expected.double())
    wanting = [factor.clone().requires_grad_() for factor in factors]
    mmchain.plan(factors, dtype="float64").execute(wanting).sum().backward()
    assert all(factor.grad is not None for factor in wanting)


def test_plans_with_a_rule_take_what_the_dtype_holds(device):
    """As those without: the dtype is that before the rule."""
    small = torch.arange(-4, 5, device=device).reshape(3, 3).to(torch.int8)
    exact = small.cpu().long() @ small.cpu().long()
    for options, expected in (({"mod": 97}, exact % 97), ({"checked": True}, exact)):
        given = [small, small.long()]
        assert torch.equal(mmchain.plan(given, **options).execute(given).cpu(), expected)
    assert torch.equal(mmchain.plan([small, small], mod=97).execute([small, small]).cpu(), exact % 97)
    singles = small.float()
    greatest = mmchain.plan("f64~max-plus:3x3x3", device=device).execute([singles, singles])
    assert greatest.dtype is torch.float64
    assert torch.equal(greatest.cpu(), (small[:, :, None].cpu() + small.cpu()).amax(1).double())
    wanting = singles.double().requires_grad_()
    with pytest.raises(TypeError, match="expected those that mmchain multiplies with a plan for f64~max-plus"):
        mmchain.plan("f64~max-plus:3x3x3", device=device).execute([wanting, wanting])


def test_out(make, device):
    tensors = make([4, 3, 5, 2])
    for out in (torch.zeros(4, 2), torch.zeros(2, 4).t(), torch.zeros(8, 4)[::2, ::2]):
        out = out.double().to(device)
        assert mmchain.multi_dot(tensors, out=out) is out
        check(out, tensors)
    square = make([4, 4, 4])
    expected = square[0] @ square[1]
    assert mmchain.multi_dot(square, out=square[1]) is square[1]
    torch.testing.assert_close(square[1], expected)
    for bad in (torch.zeros(2, 4).double().to(device), torch.zeros(4, 2).to(device)):
        with pytest.raises(ValueError, match="out: expected shape"):
            mmchain.multi_dot(tensors, out=bad)
    with pytest.raises(TypeError, match="out: expected a tensor"):
        mmchain.multi_dot(tensors, out=np.zeros((4, 2)))


def test_capsules_where_exchange_functions_lack(make, monkeypatch, device):
    monkeypatch.setattr(_torch, "_has_exchange", False)
    tensors = make([4, 3, 5, 2])
    options = ("time", None, "native")
    check(_torch.multiply(None, tensors, None, *options), tensors)
    a = make([8, 6])[0][::2, ::2]
    check(_torch.multiply(None, [a, tensors[1]], None, *options), [a, tensors[1]])
    out = torch.zeros(4, 2).double().to(device)
    assert _torch.multiply(None, tensors, out, *options) is out
    check(out, tensors)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_what_is_lazy_on_every_way(dtype):
    """Tensors that PyTorch has negated lazily, and zeros that it has without memory."""
    ones = torch.ones(2, 3, 3, dtype=dtype)
    for lazy in (torch._neg_view(ones.clone()), torch._efficientzerotensor((2, 3, 3), dtype=dtype)):
        plain = lazy + torch.zeros_like(ones)
        ways = [
            lambda x: mmchain.scan(x),
            lambda x: mmchain.recurrence(x, ones[0]),
            lambda x: mmchain.Ranges(x).product(),
            lambda x: mmchain.multi_dot([x, ones], semiring="max-plus"),
            lambda x: mmchain.plan([x, ones]).execute([x, ones]),
        ]
        if dtype is torch.int64:
            ways += [lambda x: mmchain.multi_dot([x, ones], mod=7), lambda x: mmchain.multi_dot([x, ones], checked=True)]
        else:
            ways += [
                lambda x: mmchain.gradients([x, ones], x)[1][1],
                lambda x: mmchain.multi_dot([x[0], mmchain.lower(ones[0])]),
                lambda x: mmchain.multi_dot([ones[0].to_sparse_csr(), x[1]]),
            ]
        for way in ways:
            assert torch.equal(way(lazy), way(plain))
    out = torch._neg_view(torch.zeros_like(ones))
    assert mmchain.scan(ones, out=out) is out and torch.equal(out, mmchain.scan(ones))


def test_exceptions(make):
    a, b = make([4, 3, 5])
    for tensors in ([a, a], [a], [], [a, b, a.new_zeros(())], [a, a.new_zeros(3), b]):
        with pytest.raises((ValueError, np.linalg.LinAlgError)):
            mmchain.multi_dot(tensors)
    with pytest.raises(TypeError, match="one library"):
        mmchain.multi_dot([a, np.ones((3, 5))])
    meta = mmchain.multi_dot([a.to("meta"), b.to("meta")])
    assert meta.shape == (4, 5) and meta.device.type == "meta"


def test_autocast_has_products_in_its_dtype():
    rng = torch.Generator().manual_seed(7)
    shapes = [(9, 20), (20, 4), (4, 30)]
    for dtype in (torch.float32, torch.float64):
        for gradients in (False, True):
            factors = [torch.randn(s, generator=rng, dtype=dtype) for s in shapes]
            factors = [f.requires_grad_(gradients) for f in factors]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                expected = torch.linalg.multi_dot(factors)
                result = mmchain.multi_dot(factors)
                planned = mmchain.plan(factors).execute(factors)
            assert result.dtype == expected.dtype and planned.dtype == dtype
            error = torch.linalg.norm((result - expected).double())
            assert error <= 0.03 * torch.linalg.norm(expected.double())
            assert mmchain.multi_dot(factors).dtype == dtype


@needs_exchange
@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16])
def test_small_products_under_autocast_are_torchs(counted, lower):
    """Also of vectors, stacks and several dtypes that are cast to one; large ones of halves are ours."""
    a, b, c = (torch.randn(shape) / 5 for shape in ((9, 20), (20, 4), (4, 30)))
    chains = [[a, b, c], [a, b], [a[0], b, c[:, 0]], [a.expand(5, 9, 20), b, c], [a.to(lower), b, c], [b.mT, b] * 9]
    for dtype in (torch.float32, torch.float64):
        for chain in chains if dtype is torch.float32 else [[a.double(), b.double(), c.double()]]:
            counted.clear()
            with torch.autocast("cpu", dtype=lower):
                product, expected = mmchain.multi_dot(chain), reduce(torch.matmul, chain)
            assert counted and product.dtype == expected.dtype == (lower if dtype is torch.float32 else dtype)
            torch.testing.assert_close(product, expected, rtol=0.05, atol=0.05 * float(expected.abs().max()))
    counted.clear()
    large = [torch.randn(90, 90)] * 3
    with torch.autocast("cpu", dtype=torch.float16):
        assert mmchain.multi_dot(large).dtype == torch.float16
    assert counted == []


# ---- large tensors on the CPU ------------------------------------------------------------------------


@needs_exchange
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.bfloat16])
@pytest.mark.parametrize("rows, cols", [(1, 1), (5, 7), (30, 30), (1, 40), (40, 1), (300, 300)])
def test_a_matrix_and_a_vector_are_multiplied_by_whom_it_takes_least(counted, dtype, rows, cols):
    matrix, vector = torch.randn(rows, cols).to(dtype), torch.randn(cols).to(dtype)
    close = {"rtol": 0.02, "atol": 0.3} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-3}
    for a, b in ((matrix, vector), (matrix.t().contiguous().t(), vector), (vector, vector.clone())):
        counted.clear()
        product = mmchain.multi_dot([a, b])
        theirs = a.numel() <= {torch.float32: 1 << 11, torch.float64: 1 << 10, torch.complex64: 1 << 8}.get(dtype, 0)
        if dtype is torch.bfloat16 and _torch._has_bf16():
            theirs = rows == 1 or a.ndim == 1 or a.numel() >= 1 << 16
        assert len(counted) == theirs
        torch.testing.assert_close(product, torch.matmul(a, b), **close)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for a, b in ((matrix, vector), (vector, vector)):
            cast = mmchain.multi_dot([a, b])
            torch.testing.assert_close(cast, torch.matmul(a, b), rtol=0.02, atol=0.3)
    wanted = matrix.clone().requires_grad_()
    mmchain.multi_dot([wanted, vector]).abs().sum().backward()
    mine, wanted.grad = wanted.grad, None
    torch.matmul(wanted, vector).abs().sum().backward()
    torch.testing.assert_close(mine, wanted.grad, **close)


def test_small_bools_are_ours(counted):
    """Of which PyTorch has no product."""
    bools = [torch.rand(4, 4) < 0.4 for _ in range(2)]
    product = mmchain.multi_dot(bools)
    assert not counted and product.dtype is torch.bool
    assert torch.equal(product, torch.matmul(*(x.double() for x in bools)) > 0)


@needs_exchange
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("stack", [(), (16,)])
@pytest.mark.parametrize("cols, theirs", [(2, False), (40, True)])
def test_results_of_few_columns_are_ours(counted, dtype, stack, cols, theirs):
    a = torch.randn(*stack, 200, 120, dtype=torch.complex128).to(dtype)
    b = torch.randn(*stack, 120, cols, dtype=torch.complex128).to(dtype)
    for chain in ([a, b], [a.mT.contiguous()[..., :100, :], a, b]):
        for _ in range(3):  # a plan is kept of what comes again
            counted.clear()
            product = mmchain.multi_dot(chain)
            assert bool(counted) == theirs
        torch.testing.assert_close(product, reduce(torch.matmul, chain), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("round", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.complex128, torch.bfloat16])
def test_large_tensors_on_the_cpu_are_torchs(rng, counted, dtype, round):
    """In the planned order, also of views, stacks and conjugates, by multi_dot and by a plan."""
    n = int(rng.integers(2, 5))
    dims = rng.integers(110, 140, n + 1)
    stack = [(), (3,), (2, 2)][round % 3]
    chain = []
    for i, shape in enumerate(zip(dims, dims[1:])):
        axes = () if round == 5 and i > 0 else stack
        made = torch.tensor(rng.standard_normal((*axes, *shape[::-1]))).mT / shape[0] ** 0.5
        if dtype.is_complex:
            made = made + 1j * made.flip(-1)
        made = made.to(dtype)
        chain.append(made.conj() if round % 4 == 1 else made.contiguous() if round % 4 == 2 else made)
    if round == 6:
        chain[0] = torch.repeat_interleave(chain[0], 2, -1)[..., ::2]  # every second column of another
    wide = [x.to(torch.complex128 if dtype.is_complex else torch.float64) for x in chain]
    want, scale = reduce(torch.matmul, wide), reduce(torch.matmul, [x.abs() for x in wide])

    def expect(result, calls):
        assert result.dtype == dtype and result.shape == want.shape
        assert not torch.any((result.to(want.dtype) - want).abs() > 100 * torch.finfo(dtype).eps * scale)
        assert len(counted) == calls
        counted.clear()

    expect(mmchain.multi_dot(chain), n - 1)
    expect(mmchain.multi_dot(chain, device="cpu", objective="flops"), n - 1)
    expect(mmchain.plan(chain).execute(chain), n - 1)
    for options in ({"device": "blas"}, {"precision": "reproducible"}, {"out": torch.empty_like(want, dtype=dtype)}):
        expect(mmchain.multi_dot(chain, **options), 0)


@needs_exchange
@pytest.mark.skipif(not _torch._has_bf16(), reason="a PyTorch without oneDNN for bfloat16")
@pytest.mark.parametrize("side, theirs", [(100, False), (300, True)])
def test_vectors_in_bfloat16_are_onednns_where_matrices_are_large(counted, side, theirs):
    a, b = ((torch.randn(side, side) / side**0.5).bfloat16() for _ in range(2))
    row, column, long = a[0], b[:, 1], torch.randn(5000).bfloat16() / 70
    for chain in ([row, a], [a, column], [row, a, b], [a, b, column], [row, a, column], [a[:1], b], [long, long]):
        expected = reduce(torch.matmul, [x.double() for x in chain])
        for multiply in (mmchain.multi_dot, lambda x: mmchain.plan(x).execute(x)):
            counted.clear()
            product = multiply(chain)
            assert len(counted) == (len(chain) - 1 if theirs or chain[0] is long else 0)
            assert product.shape == expected.shape and product.dtype == torch.bfloat16
            torch.testing.assert_close(product.double(), expected, rtol=0.02, atol=0.1)


@needs_exchange
def test_bfloat16_is_torchs_where_it_has_onednn_for_it(counted):
    a = torch.randn(200, 200).bfloat16()
    functions = (torch.mm, torch.mv, torch.dot, lambda *given: counted.append(given), torch.linalg.multi_dot)
    for has_bf16 in (False, True):
        counted.clear()
        _mmchain.set_torch(_torch._exact, *functions, torch.is_grad_enabled, *LAST[:-1], has_bf16)
        mmchain.multi_dot([a[None], a[None]])
        assert bool(counted) == has_bf16


def test_what_pytorch_does_not_multiply_on_the_cpu(rng, counted):
    """Small ones, doubles, halves, vectors, and plans that ask for anything else."""
    a, b, v = (torch.tensor(rng.standard_normal(shape)) for shape in ((150, 150), (150, 150), (150,)))
    for chain in (
        [a, b],
        [a.half(), b.half()],
        [a.float(), b.float(), v.float()],
        [a.float(), b],
        [a.float()[:50, :50], b.float()[:50, :50]],
    ):
        mmchain.multi_dot(chain)
    single = [a.float(), b.float()]
    for options in ({"precision": "reproducible"}, {"device": "blas"}):
        mmchain.plan(single, **options).execute(single)
    plan = mmchain.plan(single)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # a plan says itself what dtype its products have
        assert plan.execute(single).dtype == torch.float32
    assert counted == []


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3)])
def test_tensors_without_elements_are_not_one_array(shape):
    a, b, c = (torch.empty(shape, dtype=torch.complex128) for _ in range(3))
    p = mmchain.plan([a, b, c])
    assert "^" not in p.chain
    for chain in ([a, b, c], [a, b.mH, c], [a.conj(), b, c], [a, a, a.mH]):
        assert p.execute(chain).shape == mmchain.multi_dot(chain).shape == shape


def test_without_elements_and_strides():
    """NumPy gives arrays without elements strides of 0, which tensors of them keep."""
    empty = torch.empty_strided((0, 6, 6), (0, 0, 0), dtype=torch.float64)
    b = torch.ones(6, 5, dtype=torch.float64)
    assert mmchain.multi_dot([empty, b]).shape == (0, 6, 5)
    assert mmchain.multi_dot([empty, empty, b], precision="reproducible").shape == (0, 6, 5)
    assert mmchain.plan([empty, empty]).execute([empty, empty]).shape == (0, 6, 6)
    assert mmchain.scan(empty).shape == (0, 6, 6)
    assert mmchain.recurrence(empty, b).shape == (0, 6, 5)
    turned = torch.ones(3, 2, 4, 6, 6, dtype=torch.float64).transpose(0, 1)
    assert mmchain.scan(turned[:, :, :0]).shape == (2, 3, 0, 6, 6)
    assert mmchain.recurrence(turned, turned[:, :, 0, :, :0]).shape == (2, 3, 4, 6, 0)
