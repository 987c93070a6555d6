"""Gradients of products of PyTorch tensors, by PyTorch and in one function for many small matrices."""

from functools import reduce

import pytest

from tensors import DTYPES, LAST, SAMPLES, check, counted, device, make, needs_exchange, torch  # noqa: F401
import torch.utils.checkpoint

import mmchain
from mmchain import _mmchain, _torch
from chains import random_dims


@pytest.mark.parametrize("dims", SAMPLES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients_are_theirs(make, dims, dtype):
    ours = make(dims, dtype, requires_grad=True)
    theirs = [t.detach().clone().requires_grad_() for t in ours]
    result, expected = mmchain.multi_dot(ours), torch.linalg.multi_dot(theirs)
    assert result.requires_grad
    weight = torch.randn_like(expected)
    result.backward(weight)
    expected.backward(weight)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad)


def test_gradcheck_twice(make):
    tensors = make([2, 3, 2, 3], requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: mmchain.multi_dot(x), tensors)
    assert torch.autograd.gradgradcheck(lambda *x: mmchain.multi_dot(x), tensors)
    ends = [
        tensors[0][0].detach().requires_grad_(),
        tensors[1],
        tensors[2][:, 0].detach().requires_grad_(),
    ]
    assert torch.autograd.gradcheck(lambda *x: mmchain.multi_dot(x), ends)
    stack = torch.stack([tensors[0]] * 2).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda *x: mmchain.multi_dot(x), [stack, *tensors[1:]])
    assert torch.autograd.gradgradcheck(lambda *x: mmchain.multi_dot(x), [stack, *tensors[1:]])


def test_gradcheck_complex(make):
    tensors = make([2, 3, 2], torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *x: mmchain.multi_dot(x), tensors)
    assert torch.autograd.gradgradcheck(lambda *x: mmchain.multi_dot(x), tensors)


def test_gradients_share_products(make, rng, monkeypatch):
    """n factors: n-1 products forward, two for each backward; fewer where no gradient is asked."""
    n = 8
    tensors = make(random_dims(rng, n), requires_grad=True)
    products = []
    real = _torch._direct

    def counted(plan, operands, out, options):
        products.append(len(operands))
        return real(plan, operands, out, options)

    monkeypatch.setattr(_torch, "_direct", counted)
    # Where the tensors are PyTorch multiplies them, and many on a GPU one call for all.
    monkeypatch.setattr(_torch, "_is_on", lambda first, device: False)
    result = mmchain.multi_dot(tensors, device=tensors[0].device.type)
    assert products == [2] * (n - 1)
    result.sum().backward()
    assert products == [2] * (3 * (n - 1))
    del products[:]
    only = [t.detach() for t in tensors]
    only[3].requires_grad_()
    mmchain.multi_dot(only, device=tensors[0].device.type).sum().backward()
    assert 0 < len(products) < 3 * (n - 1)


def test_no_grad(make):
    tensors = make([4, 3, 5], requires_grad=True)
    with torch.no_grad():
        assert not mmchain.multi_dot(tensors).requires_grad
    with torch.inference_mode():
        check(mmchain.multi_dot(tensors), tensors)
    with pytest.raises(RuntimeError, match="out: expected None"):
        mmchain.multi_dot(tensors, out=torch.zeros(4, 5, dtype=torch.float64, device=tensors[0].device))
    parameters = [torch.nn.Parameter(t.detach()) for t in tensors]
    assert mmchain.multi_dot(parameters).requires_grad


@pytest.mark.parametrize("kind", [torch.nn.Parameter, lambda t: t.requires_grad_()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_many_factors_of_any_kind(kind, dtype):
    """The one function for many small matrices reads parameters, and tensors however they lie."""
    factors = []
    for i in range(21):
        q = torch.linalg.qr(torch.randn(12, 24, dtype=dtype))[0]
        lies = [q, q.mT.contiguous().mT, torch.stack([q, q], dim=2)[:, :, 0], q.repeat(2, 2)[5:17, 5:17]]
        factors.append(kind(lies[i % 4].detach()))
    cotangent = torch.randn(12, 12, dtype=dtype).mT
    ours, theirs = mmchain.multi_dot(factors), torch.linalg.multi_dot(factors)
    tolerance = {"rtol": 0, "atol": 1e4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(ours, theirs, **tolerance)
    pairs = zip(*(torch.autograd.grad(product, factors, cotangent) for product in (ours, theirs)))
    for a, b in pairs:
        torch.testing.assert_close(a, b, **tolerance)


def test_transforms(make):
    a, b, c = make([4, 3, 5, 2])
    stack = torch.stack([a, 2 * a])
    mapped = torch.func.vmap(lambda x: mmchain.multi_dot([x, b, c]))(stack)
    torch.testing.assert_close(mapped, stack @ b @ c)
    gradient = torch.func.grad(lambda x: mmchain.multi_dot([x, b, c]).sum())(a)
    theirs = torch.func.grad(lambda x: (x @ b @ c).sum())(a)
    torch.testing.assert_close(gradient, theirs)


def test_tensors_are_learnt_under_transforms():
    known = _torch._learn_tensors()
    for transform in (torch.func.grad, torch.func.vmap, torch.func.functionalize):
        learnt = []
        transform(lambda x: learnt.append(_torch._learn_tensors()) or x.sum())(torch.ones(2))
        assert learnt == [known]


def test_gradients_by_plain_products_are_torchs():
    rng = torch.Generator().manual_seed(8)
    for dtype in (torch.float32, torch.float64, torch.complex128):
        for n in (2, 3, 4, 5, 6, 7, 19, 20, 21, 40):
            dims = torch.randint(1, 12, (n + 1,), generator=rng).tolist()
            shapes = list(zip(dims, dims[1:]))
            ours = [torch.randn(s, generator=rng, dtype=dtype).requires_grad_() for s in shapes]
            theirs = [f.detach().clone().requires_grad_() for f in ours]
            mmchain.multi_dot(ours).abs().sum().backward()
            torch.linalg.multi_dot(theirs).abs().sum().backward()
            for a, b in zip(ours, theirs):
                error = torch.linalg.norm(a.grad - b.grad)
                assert error <= 1e-4 * torch.linalg.norm(b.grad), (dtype, dims)
        for rest in ([], theirs):
            with pytest.raises(ValueError, match="not aligned"):
                mmchain.multi_dot([ours[0], torch.ones(dims[1] + 1, dims[1], dtype=dtype), *rest[1:]])


def test_gradients_of_some_factors_and_of_vectors():
    rng = torch.Generator().manual_seed(9)
    for trial in range(200):
        n = 2 + trial % 8
        side = int(torch.randint(1, 9, (), generator=rng))
        dims = torch.randint(1, 9, (n + 1,), generator=rng).tolist() if trial % 3 else [side] * (n + 1)
        shapes = list(zip(dims, dims[1:]))
        ends = torch.rand(2, generator=rng) < 0.3
        if ends[0]:
            shapes[0] = shapes[0][1:]
        if ends[1]:
            shapes[-1] = shapes[-1][:1]
        wanted = (torch.rand(n, generator=rng) < 0.5).tolist()
        wanted[trial % n] = True
        ours = [torch.randn(s, generator=rng, dtype=torch.float64) for s in shapes]
        theirs = [f.clone().requires_grad_(w) for f, w in zip(ours, wanted)]
        ours = [f.requires_grad_(w) for f, w in zip(ours, wanted)]
        product, expected = mmchain.multi_dot(ours), torch.linalg.multi_dot(theirs)
        torch.testing.assert_close(product, expected, msg=str(shapes))
        product.sum().backward()
        expected.sum().backward()
        for a, b in zip(ours, theirs):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, msg=str((shapes, wanted)))


@needs_exchange
def test_of_orders_that_cost_the_same_one_is_taken_that_records_least():
    recorded = []

    def counted(a, b):
        product = torch.mm(a, b)
        recorded.append(product.requires_grad)
        return product

    mmchain.multi_dot([torch.ones(2, 2, requires_grad=True)] * 2)  # the room of PyTorch is open
    others = (torch.mv, torch.dot, torch.matmul, torch.linalg.multi_dot)
    rest = (*others, torch.is_grad_enabled, *LAST)
    _mmchain.set_torch(_torch._exact, counted, *rest)
    try:
        for n in (3, 4, 6):
            for wanted in range(n):
                chain = [torch.ones(5, 5, requires_grad=i == wanted) for i in range(n)]
                recorded.clear()
                mmchain.multi_dot(chain)
                assert sum(recorded) == (1 if wanted in (0, n - 1) else 2), (n, wanted)
    finally:
        _mmchain.set_torch(_torch._exact, torch.mm, *rest)


@needs_exchange
@pytest.mark.parametrize("dims", [[4, 3, 5], [4, 3, 5, 2], [5, 3, 2, 6], [4, 3, 5, 2, 6]])
def test_few_matrices_that_want_gradients_go_straight_to_torch(rng, dims):
    calls = []

    def counted(function):
        return lambda *given: calls.append(function) or function(*given)

    mmchain.multi_dot([torch.ones(2, 2, requires_grad=True)] * 2)  # the room of PyTorch is open
    chain = [
        torch.tensor(rng.standard_normal(shape), requires_grad=True) for shape in zip(dims, dims[1:])
    ]
    functions = (torch.mm, torch.mv, torch.dot, torch.matmul, torch.linalg.multi_dot)
    _mmchain.set_torch(_torch._exact, *map(counted, functions), torch.is_grad_enabled, *LAST)
    try:
        product = mmchain.multi_dot(chain)
        assert calls == [torch.mm] * (len(chain) - 1)
        calls.clear()
        for others in (
            {"precision": "reproducible"},
            {"objective": "energy"},
            {"out": torch.empty(dims[0], dims[-1], dtype=torch.float64)},
        ):
            with torch.no_grad():
                torch.testing.assert_close(mmchain.multi_dot(chain, **others), product)
        with pytest.raises(ValueError, match="not aligned"):
            mmchain.multi_dot([*chain, chain[0].new_ones(dims[-1] + 1, 2)])
        assert calls == []
        with torch.no_grad():
            torch.testing.assert_close(mmchain.multi_dot(chain), product)
        assert calls == ([torch.mm] if len(chain) == 2 else [])  # making a result takes longest
    finally:
        _mmchain.set_torch(_torch._exact, *functions, torch.is_grad_enabled, *LAST)
    product.sum().backward()
    expected = [tensor.grad for tensor in chain]
    for tensor in chain:
        tensor.grad = None
    torch.linalg.multi_dot(chain).sum().backward()
    for tensor, grad in zip(chain, expected):
        torch.testing.assert_close(grad, tensor.grad)


@needs_exchange
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape, count", [((8, 8), 2), ((8, 8), 5), ((8, 8), 30), ((3, 8, 8), 3), ((90, 90), 3)])
def test_gradients_of_small_halves_are_torchs(counted, dtype, shape, count):
    """They take it less than functions with gradients of ours, but large products of float16 do not."""
    chain = [(torch.randn(shape) / shape[-1] ** 0.5).to(dtype).requires_grad_() for _ in range(count)]
    counted.clear()
    product = mmchain.multi_dot(chain)
    assert bool(counted) == (shape[-1] == 8 or (dtype is torch.bfloat16 and _torch._has_bf16()))
    product.sum().backward()
    made = [factor.grad.float() for factor in chain]
    wide = [factor.detach().float().requires_grad_() for factor in chain]
    reduce(torch.matmul, wide).sum().backward()
    for one, other in zip(made, wide):
        assert torch.linalg.norm(one - other.grad) <= 0.05 * count * torch.linalg.norm(other.grad)


@needs_exchange
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("order", ["((A1 A2) A3)", "(A1 (A2 A3))"])
def test_what_wants_gradients_by_a_plan_goes_straight_to_torch(counted, dtype, order):
    chain = [torch.randn(shape).to(dtype).requires_grad_() for shape in [(4, 5), (5, 6), (6,)]]
    plan = mmchain.plan("f16:4x5x6x1" if dtype is torch.float16 else "f32:4x5x6x1", order=order)
    counted.clear()
    product = plan.execute(chain)
    assert [right.ndim for _, right in counted] == ([2, 1] if order[1] == "(" else [1, 1])
    torch.testing.assert_close(product, reduce(torch.matmul, chain), rtol=1e-2, atol=1e-2)
    counted.clear()
    stack = torch.stack([chain[0].detach()] * 3).requires_grad_()
    assert plan.execute([stack, chain[1], chain[2][:, None]]).shape == (3, 4, 1)
    assert len(counted) == 2


def test_a_plan_is_for_what_wants_gradients():
    chain = [torch.ones(shape, requires_grad=True) for shape in [(2, 3), (3, 4), (4, 2)]]
    for dims, others in (("2x3x4", chain), ("2x3x4x5", chain), ("2x3x4x2@7", chain), ("3x4x2", chain[:2])):
        with pytest.raises(ValueError, match=f"expected the shapes of f32:{dims}, got 2x3x4"):
            mmchain.plan(f"f32:{dims}").execute(others)
    squares = [torch.randn(4, 4, requires_grad=True) for _ in range(4)]
    for factors in (squares, squares[:1] * 4):
        check(mmchain.plan("f32:4x4^4").execute(factors), factors)


# ---- many small matrices: one function -----------------------------------------------------------


def _expected(factors, cotangent):
    """Gradients in double precision, by torch; those of a factor that occurs twice are added up."""
    wide = torch.complex128 if factors[0].is_complex() else torch.float64
    copies = [factor.detach().to(wide).requires_grad_() for factor in factors]
    made = torch.autograd.grad(torch.linalg.multi_dot(copies), copies, cotangent.to(wide))
    return [
        sum(slope for other, slope in zip(factors, made) if other is factor) for factor in factors
    ]


@pytest.mark.parametrize("dtype", DTYPES[2:])
@pytest.mark.parametrize("count", [20, 32, 33, 65])
def test_many_small_matrices(make, rng, dtype, count):
    """Squares and others, transposed ones, the same twice, and not all of which want gradients."""
    for case in range(3):
        side = int(rng.integers(1, 24))
        dims = [side if case else int(rng.integers(1, 24)) for _ in range(count + 1)]
        factors = [factor / factor.shape[0] ** 0.5 for factor in make(dims, dtype)]
        if case == 2:
            factors = [factor.mT.contiguous().mT for factor in factors]
            factors[3] = factors[7]
        wanted = [factor for i, factor in enumerate(factors) if i % 3 != 1]
        for factor in wanted:
            factor.requires_grad_()
        product = mmchain.multi_dot(factors)
        assert type(product.grad_fn).__name__ == "_ChainBackward"
        cotangent = torch.ones_like(product).mT.contiguous().mT
        expected = _expected(factors, cotangent)
        made = torch.autograd.grad(product, wanted, cotangent, retain_graph=True)
        again = torch.autograd.grad(product, wanted, cotangent)
        bound = 60 * count * torch.finfo(dtype).eps
        for factor, slope, second in zip(wanted, made, again):
            (want,) = [w for f, w in zip(factors, expected) if f is factor][:1]
            assert slope.shape == factor.shape and torch.equal(slope, second)
            assert (slope - want).abs().max() <= bound * want.abs().max()


def test_many_small_matrices_of_a_stack(make):
    stack = torch.stack(make([6] * 31)).requires_grad_()
    (slope,) = torch.autograd.grad(mmchain.multi_dot(stack).sum(), stack)
    (want,) = torch.autograd.grad(torch.linalg.multi_dot(list(stack.unbind())).sum(), stack)
    assert (slope - want).abs().max() <= 1e-12 * want.abs().max()


@pytest.mark.parametrize("count", [2, 3, 6, 20])
def test_gradients_where_the_tensors_are(make, count, monkeypatch):
    """That device may be named, and no product is a function of its own for it."""
    factors = make([7] * (count + 1), requires_grad=True)
    made = mmchain.multi_dot(factors)
    monkeypatch.setattr(_torch._Product, "apply", None)
    for name in (factors[0].device.type, str(factors[0].device)):
        torch.testing.assert_close(mmchain.multi_dot(factors, device=name), made)


@pytest.mark.parametrize("round", range(12))
def test_gradients_of_stacks(rng, device, round):
    """Of stacks that broadcast, in whatever order: values, and gradients of all factors or of some."""
    n, dtype = int(rng.integers(2, 8)), [torch.float64, torch.complex128][round % 2]
    dims, stack = rng.integers(1, 9, n + 1), (3, 4)
    chain = []
    for rows, cols in zip(dims, dims[1:]):
        axes = [(), (4,), (3, 1), (3, 4)][rng.integers(0, 4)]
        numbers = rng.standard_normal((*axes, rows, cols))
        chain.append(torch.tensor(numbers, dtype=dtype, device=device).requires_grad_(rng.random() < 0.7))
    chain[0].requires_grad_()
    has_vector = round % 3 == 0
    if has_vector:  # which what becomes of it is not: a row of a stack
        chain[0] = chain[0].detach().reshape(-1, dims[1])[0].clone().requires_grad_()
    wanted = [tensor for tensor in chain if tensor.requires_grad]
    made = mmchain.multi_dot(chain)
    want = reduce(torch.matmul, [chain[0][None], *chain[1:]] if has_vector else chain)
    want = want[..., 0, :] if has_vector else want
    torch.testing.assert_close(made, want)
    slope = torch.randn_like(want)
    for mine, theirs in zip(torch.autograd.grad(made, wanted, slope), torch.autograd.grad(want, wanted, slope)):
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(ValueError, match="not aligned|broadcast"):
        mmchain.multi_dot([*chain, chain[0].new_ones(5, 5, int(dims[-1]) + 1, 2)])


def test_tensors_of_any_strides(make, device):
    """What cannot be read as it lies is written out, with conjugates and the same tensor twice."""
    for dtype in (torch.float32, torch.complex64, torch.float16, torch.bfloat16):
        a, b, c = make([8, 24, 24, 6], dtype)
        spread = torch.zeros(24, 48, dtype=dtype, device=device)
        spread[:, ::2] = b
        stack = torch.stack([b, b, b]).permute(1, 2, 0).contiguous().permute(2, 0, 1)
        for second in (spread[:, ::2], stack, stack.conj() if dtype.is_complex else stack):
            result = mmchain.multi_dot([a, second, second, c])
            wide = [x.to(torch.complex128 if dtype.is_complex else torch.float64) for x in (a, second, second, c)]
            want = reduce(torch.matmul, wide)
            scale = reduce(torch.matmul, [x.abs() for x in wide])
            assert not torch.any((result.to(want.dtype) - want).abs() > 100 * torch.finfo(dtype).eps * scale)


@pytest.mark.parametrize("dims", [[4, 4, 3, 0, 3, 4], [4, 0, 3, 5, 3, 4], [0, 4, 3, 5, 3, 0], [2, 4, 3, 5, 3, 1], [64] * 6])
def test_stacks_that_broadcast_along_one_axis(rng, device, dims):
    """Whose matrices have no stride, also where they have no elements, or the result is rows by columns."""
    for stacks in ([(7, 2), (7, 1), (1, 2), (2,), ()], [(7, 1), (2,), (7, 2), (1, 2), (7, 1)]):
        chain = [
            torch.tensor(rng.standard_normal((*stack, rows, cols)), device=device)
            for stack, rows, cols in zip(stacks, dims, dims[1:])
        ]
        turned = [torch.tensor(x.mT.cpu().numpy().copy(), device=device).mT for x in chain]
        want = reduce(torch.matmul, chain)
        for factors in (chain, turned):
            made = mmchain.multi_dot(factors)
            assert made.shape == want.shape
            torch.testing.assert_close(made, want)


@pytest.mark.parametrize("objective", ["time", "flops", "energy", "traffic"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64])
def test_gradients_by_a_plan(make, dtype, objective):
    """A plan for one objective multiplies what wants gradients, as it multiplies what does not."""
    factors = make([5, 4, 6, 3], dtype, requires_grad=True)
    try:
        plan = mmchain.plan(factors, objective=objective)
    except ValueError as error:  # joules are known of some devices alone
        assert objective == "energy" and "energy" in str(error)
        return
    result = plan.execute(factors)
    check(result, factors)
    slopes = torch.autograd.grad(result.abs().sum(), factors)
    expected = torch.autograd.grad(torch.linalg.multi_dot(factors).abs().sum(), factors)
    for made, want in zip(slopes, expected):
        torch.testing.assert_close(made, want, rtol=2e-2, atol=2e-2)


def test_nan_is_in_the_gradients_of_other_factors(make):
    """The gradient of a factor does not depend on it, and those of all others do."""
    factors = make([5] * 31)
    factors[11][2, 3] = float("nan")
    for factor in factors:
        factor.requires_grad_()
    slopes = torch.autograd.grad(mmchain.multi_dot(factors).sum(), factors)
    assert [bool(slope.isnan().any()) for slope in slopes] == [i != 11 for i in range(30)]


def test_gradients_of_gradients_of_many(make):
    factors = [factor.requires_grad_() for factor in make([2] * 22)]
    assert torch.autograd.gradgradcheck(lambda *given: mmchain.multi_dot(given), factors[:21])


@pytest.mark.parametrize("count", [2, 5, 24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_zeros_without_memory(make, dtype, count):
    """PyTorch keeps some zeros lazily, as those of gradients of gradients of abs()."""
    factors = [factor / 4 for factor in make([4] * (count + 1), dtype)]
    nothing = torch.zeros_like(factors[0])
    zeros = torch._efficientzerotensor((4, 4), dtype=dtype, device=nothing.device)
    assert torch.equal(mmchain.multi_dot([*factors, zeros]), nothing)
    assert torch.equal(mmchain.plan([zeros, zeros]).execute([zeros, zeros]), nothing)
    for factor in factors:
        factor.requires_grad_()
    assert torch.equal(mmchain.multi_dot([*factors, zeros]), nothing)
    product = mmchain.multi_dot(factors)
    (slope,) = torch.autograd.grad(product.abs().sum(), factors[0], create_graph=True)
    (second,) = torch.autograd.grad((slope * slope).sum(), factors[1], allow_unused=True)
    assert second is None or bool(second.isfinite().all())


@pytest.mark.parametrize("count", [5, 24])
def test_gradients_of_gradients_of_one_at_many_places(make, count):
    """Each place has a gradient, and they are added up once."""
    a, b = (factor.requires_grad_() for factor in make([4] * 3))

    def second(multiply):
        product = multiply([a if i % 3 else b for i in range(count)])
        slopes = torch.autograd.grad(product.sum(), [a, b], create_graph=True)
        return [*slopes, *torch.autograd.grad(sum((s * s).sum() for s in slopes), [a, b])]

    for made, want in zip(second(mmchain.multi_dot), second(torch.linalg.multi_dot)):
        assert (made - want).abs().max() <= 1e-11 * want.abs().max()


@pytest.mark.parametrize("by_vmap", [False, True])
@pytest.mark.parametrize("name", ["many", "device", "scan", "recurrence"])
def test_batched_gradients(name, by_vmap):
    """Gradients of several cotangents at once, which have no memory that we could read."""
    calls = {
        "many": lambda *x: mmchain.multi_dot(x),
        "device": lambda *x: mmchain.multi_dot(x, device="blas"),
        "scan": lambda x, y: mmchain.scan(torch.stack([x, y, x])),
        "recurrence": lambda x, y: mmchain.recurrence(torch.stack([x, y, x]), y[0], reverse=True),
    }
    given = [torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(22 if name == "many" else 2)]
    result = calls[name](*given)
    cotangents = torch.randn(4, *result.shape, dtype=torch.float64)

    def slopes(cotangent, **options):
        return torch.autograd.grad(result, given, cotangent, retain_graph=True, **options)

    made = torch.func.vmap(slopes)(cotangents) if by_vmap else slopes(cotangents, is_grads_batched=True)
    for one, each in zip(made, zip(*map(slopes, cotangents))):
        torch.testing.assert_close(one, torch.stack(each))


def test_many_under_checkpoint(make):
    """What is kept for the gradients is not there between the two ways, and is computed again."""
    factors = [factor.requires_grad_() for factor in make([8] * 41)]
    kept = []

    def count(tensor):
        kept.append(tensor.numel())
        return tensor

    def multiply(*given):
        return mmchain.multi_dot(given).sum()

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        multiply(*factors)
    assert sum(kept) >= 2 * 38 * 64  # factors, and the memory
    kept.clear()
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        outer = torch.utils.checkpoint.checkpoint(multiply, *factors, use_reentrant=False)
        made = torch.autograd.grad(outer, factors)
    want = torch.autograd.grad(torch.linalg.multi_dot(factors).sum(), factors)
    for a, b in zip(made, want):
        assert (a - b).abs().max() <= 1e-12 * b.abs().max()
