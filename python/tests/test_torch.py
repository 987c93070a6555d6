"""PyTorch tensors, where PyTorch is installed; on CUDA where a GPU and the module are."""

from functools import reduce

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.utils.checkpoint  # noqa: E402

import mmchain  # noqa: E402
from mmchain import _mmchain, _torch  # noqa: E402
from chains import random_dims  # noqa: E402

cuda = torch.cuda.is_available() and any(
    d["name"].startswith("cuda") and d["available"] for d in mmchain.info()["devices"]
)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not cuda, reason="no GPU, or mmchain without CUDA")
    ),
]
DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
SAMPLES = [
    [1, 2, 1],
    [2, 0, 2],
    [0, 2, 2],
    [2, 2, 2, 2],
    [2, 3, 4, 5],
    [5, 4, 0, 2],
    [2, 4, 3, 5, 3, 2],
]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def make(rng, device):
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))

    def tensors(dims, dtype=torch.float64, **options):
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return [
            torch.randn(shape, dtype=wide, generator=generator)
            .to(dtype)
            .to(device)
            .requires_grad_(**options)
            if options
            else torch.randn(shape, dtype=wide, generator=generator).to(dtype).to(device)
            for shape in zip(dims, dims[1:])
        ]

    return tensors


def check(result, tensors, dtype=None):
    """Against PyTorch in double precision."""
    dtype = tensors[0].dtype if dtype is None else dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected, norms = tensors[0].detach().to(wide), 1.0
    for t in tensors[1:]:
        expected = torch.matmul(expected, t.detach().to(wide))
    for t in tensors:
        norms *= float(torch.linalg.vector_norm(t.detach().to(wide)))
    assert result.dtype == dtype and result.device == tensors[0].device
    assert result.shape == expected.shape
    inner = 1 + sum(t.shape[-1] for t in tensors)
    error = float(torch.linalg.vector_norm(result.detach().to(wide) - expected))
    assert error <= 4 * torch.finfo(dtype).eps * inner * norms + 1e-300


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dims", SAMPLES, ids=str)
def test_sample_shapes(make, dims, dtype):
    tensors = make(dims, dtype)
    result = mmchain.multi_dot(tensors)
    assert type(result) is torch.Tensor and not result.requires_grad
    check(result, tensors)


def test_numpy_agrees(make, device):
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


# ---- gradients -------------------------------------------------------------------------------


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


def test_exceptions(make):
    a, b = make([4, 3, 5])
    for tensors in ([a, a], [a], [], [a, b, a.new_zeros(())], [a, a.new_zeros(3), b]):
        with pytest.raises((ValueError, np.linalg.LinAlgError)):
            mmchain.multi_dot(tensors)
    with pytest.raises(TypeError, match="one library"):
        mmchain.multi_dot([a, np.ones((3, 5))])
    meta = mmchain.multi_dot([a.to("meta"), b.to("meta")])
    assert meta.shape == (4, 5) and meta.device.type == "meta"


class Renamed(torch.Tensor):
    """A class to assign: what its products are it says itself."""


def _put(value):
    def change(tensor):
        tensor.data = value(tensor.data)

    return change


def _negated(tensor):
    """The lazily negated view of the same memory."""
    return torch._neg_view(tensor)


def _filled(tensor, storage):
    tensor.set_(storage.copy_(torch.randn_like(storage)))


def _grown(tensor):
    """Its storage is moved."""
    tensor.untyped_storage().resize_(1 << 20)
    return torch.full_like(tensor, 7)  # where it lay


def _joined(tensor):
    """It becomes a result of what wants a gradient."""
    tensor.mul_(torch.full((), 2.0, dtype=tensor.dtype, device=tensor.device, requires_grad=True))


def _swapped(tensor):
    other = torch.ones_like(tensor)
    torch._C._swap_tensor_impl(tensor, other)
    return other


# What may become of a square tensor between two calls. What a change returns is kept meanwhile.
CHANGES = {
    "nothing": lambda t: None,
    "elements": lambda t: t.mul_(0.5),
    "data": _put(torch.rand_like),
    "data in place": _put(lambda t: t[:]),
    "data transposed": _put(lambda t: t.mT),
    "data by columns": _put(lambda t: t.mT.contiguous().mT),
    "data strided": _put(lambda t: torch.rand(6, 12, device=t.device).to(t.dtype)[:, ::2]),
    "set_": lambda t: _filled(t, torch.empty_like(t)),
    "set_ offset": lambda t: t.set_(torch.rand(50, device=t.device).to(t.dtype).untyped_storage(), 3, (6, 6), (6, 1)),
    "resize_ and back": lambda t: (t.resize_(1000), t.resize_(6, 6), None)[2],
    "storage": _grown,
    "t_": lambda t: t.t_(),
    "transpose_ twice": lambda t: t.t_().t_(),
    "as_strided_": lambda t: t.as_strided_((6, 6), (1, 6)),
    "as_strided_ repeated": lambda t: t.as_strided_((6, 6), (6, 0)),
    "requires_grad_": lambda t: t.requires_grad_(),
    "requires_grad_ and not": lambda t: t.requires_grad_().requires_grad_(False),
    "in place with a gradient": _joined,
    "negated": _put(_negated),
    "conjugated": _put(lambda t: t.conj()),
    "swapped": _swapped,
}


def test_the_bytes_that_are_glanced_at_tell_every_change():
    """As glance.c looks at tensors, of which it gives calls that come again on a GPU no sign."""
    glance = pytest.importorskip("mmchain._glance")
    words = glance._find_words()
    if words is None:
        pytest.skip("a PyTorch whose tensors do not tell")

    def look(tensor):
        told = _mmchain.tensor_bytes(tensor, tensor._cdata)[min(words) : max(words) + 8]
        return tensor._cdata, told, tensor.data_ptr(), tensor.requires_grad

    def state(tensor):
        facts = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        return facts + (tensor.requires_grad, tensor.is_neg(), tensor.is_conj())

    for dtype in (torch.float32, torch.complex64):
        for name, change in CHANGES.items():
            tensor = torch.rand(6, 6).to(dtype)
            seen, was = look(tensor), state(tensor)
            held = change(tensor)
            assert look(tensor) != seen or state(tensor) == was, name
            del held
    if _torch._has_exchange:
        assert glance.learn(torch.Tensor)
    assert not glance.learn(Renamed)
    assert _mmchain.tensor_bytes(torch.ones(2), 1) is None
    with pytest.raises(ValueError, match="words"):
        _mmchain.set_glance(torch.Tensor, 8, 9, False, torch.ones(1), torch.ones(1))


@pytest.mark.skipif(not cuda, reason="no GPU, or mmchain without CUDA")
class TestCuda:
    def test_current_stream(self):
        """Behind what makes a factor, before what reads the result, with memory given back."""
        a = torch.randn(700, 700, device="cuda", dtype=torch.float64)
        expected = a @ a @ (2 * a)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(5):
                b = a * 1
                for _ in range(20):
                    b = b * 1
                c = b + b
                total = mmchain.multi_dot([b, b, c]) * 1
                del b, c
        stream.synchronize()
        torch.testing.assert_close(total, expected)

    @pytest.mark.parametrize("precision", ["faithful", "reproducible+faithful"])
    @pytest.mark.parametrize(
        "dtype, dims", [(torch.float32, (2900, 1100, 2900)), (torch.complex64, (1500, 700, 2900))]
    )
    def test_large_products_in_a_batch(self, precision, dtype, dims):
        """They have the bits of products alone, and no larger errors than native ones."""
        if torch.cuda.get_device_capability() != (9, 0):
            pytest.skip("needs compute capability 9.0")
        made = torch.Generator(device="cuda").manual_seed(12)
        a, b = (torch.randn((3, *s), generator=made, device="cuda", dtype=dtype) for s in zip(dims, dims[1:]))
        plan = mmchain.plan([a, b], precision=precision)
        assert "emulated" in plan.explain()
        result = plan.execute([a, b])
        exact = a.to(torch.complex128 if dtype.is_complex else torch.float64) @ b.to(
            torch.complex128 if dtype.is_complex else torch.float64
        )
        assert torch.linalg.norm(result - exact) <= torch.linalg.norm(mmchain.multi_dot([a, b]) - exact)
        for i in range(3):
            assert torch.equal(result[i], mmchain.multi_dot([a[i], b[i]], precision=precision))
        shared = mmchain.multi_dot([a, b[0]], precision=precision)
        assert torch.equal(shared[0], result[0])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
    def test_calls_that_come_again(self, dtype):
        """Whatever changes about the tensors of a call that is known is seen."""
        made = torch.Generator(device="cuda").manual_seed(11)

        def tensors():
            return [
                torch.randn(s, generator=made, device="cuda", dtype=dtype)
                for s in [(17, 30), (30, 5), (5, 44)]
            ]

        def check(given, times=3):
            for _ in range(times):
                expected = given[0] @ given[1] @ given[2]
                close = dict(rtol=1e-4, atol=1e-3)
                torch.testing.assert_close(mmchain.multi_dot(given), expected, **close)
                assert mmchain.multi_dot(given, out=out) is out
                torch.testing.assert_close(out, expected, **close)
                torch.testing.assert_close(plan.execute(given), expected, **close)
                torch.testing.assert_close(plan.execute(given, out), expected, **close)

        factors = tensors()
        out = torch.empty(17, 44, device="cuda", dtype=dtype)
        plan = mmchain.plan(factors)
        check(factors)
        factors[1].mul_(0.5)
        check(factors)
        factors[1].data = tensors()[1]
        check(factors)
        if dtype.is_complex:
            factors[1].data = factors[1].data.conj()
            check(factors)
        factors[2].requires_grad_()
        assert mmchain.multi_dot(factors).requires_grad
        factors[2].requires_grad_(False)
        check(factors)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            expected = torch.linalg.multi_dot(factors).dtype if not dtype.is_complex else dtype
            assert mmchain.multi_dot(factors).dtype == expected
        factors[0] = factors[0].clone()
        check(factors)
        for _ in range(5):  # they die, and the next lie where they lay
            check(tensors(), 1)
            check([t.mH.contiguous().mH for t in tensors()], 1)
            check([t[:].conj() for t in tensors()], 1)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            check(factors)
        torch.cuda.synchronize()
        mmchain.clear_cache()
        check(factors)
        with pytest.raises(ValueError):
            mmchain.multi_dot(factors, out=out[:, :-1])
        del plan
        held = mmchain.multi_dot(factors)
        kept = held.clone()
        factors[0].zero_()
        mmchain.multi_dot(factors)
        assert torch.equal(held, kept)  # a result is its caller's

    @pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
    @pytest.mark.parametrize("count", [3, 40])
    @pytest.mark.parametrize("by_plan", [False, True])
    def test_a_tensor_that_changes_between_calls(self, dtype, count, by_plan):
        """The same objects come again, and one of them is another matrix, or none."""
        made = torch.Generator().manual_seed(11)
        side = 6

        def matrix():
            made_so = (torch.randn(side, side, generator=made, dtype=dtype) / side**0.5).to("cuda")
            # One that has wanted a gradient keeps room for it.
            return made_so.requires_grad_().requires_grad_(False) if by_plan else made_so

        def product(given):
            total = given[0]
            for factor in given[1:]:
                total = total @ factor
            return total

        def settle(given):
            return [execute(given) for _ in range(6)][-1]

        for name, change in CHANGES.items():
            for where in {0, 1, count - 1}:
                given = [matrix() for _ in range(count)]
                plan = mmchain.plan(given)
                execute = plan.execute if by_plan else mmchain.multi_dot
                close = dict(rtol=1e-3, atol=1e-4)
                torch.testing.assert_close(settle(given), product(given), msg=name, **close)
                before = given[where]
                held = change(before)
                assert given[where] is before
                expected = product(given)
                for _ in range(3):
                    result = execute(given)
                    assert result.requires_grad == expected.requires_grad, name
                    torch.testing.assert_close(result.detach(), expected.detach(), msg=name, **close)
                given[where] = matrix()
                torch.testing.assert_close(execute(given), product(given), msg=name, **close)
                del held

    def test_tensors_that_come_and_go(self):
        """New objects where old ones lay, of another kind each time, in a list that stays the same."""
        kinds = [
            lambda t: t,
            lambda t: t.t(),
            lambda t: t.clone().requires_grad_(),
            lambda t: torch.view_as_complex(torch.stack([t, t], -1)).conj().imag,
            lambda t: torch.nn.Parameter(t),
        ]
        given = [torch.eye(5, device="cuda") for _ in range(20)]
        for _ in range(12):
            for kind in kinds:
                given[7] = None  # its memory is free for the next
                given[7] = kind(torch.randn(5, 5, device="cuda"))
                for _ in range(4):
                    result = mmchain.multi_dot(given)
                    assert result.requires_grad == given[7].requires_grad
                    torch.testing.assert_close(result.detach(), given[7].detach().resolve_neg(), rtol=1e-5, atol=1e-6)

    def test_devices_are_checked(self):
        a = torch.ones(3, 3, device="cuda")
        with pytest.raises(ValueError, match="where the arrays are, got 'cpu'"):
            mmchain.multi_dot([a, a], device="cpu")
        with pytest.raises(ValueError, match="one device"):
            mmchain.multi_dot([a, a.cpu()])
        torch.testing.assert_close(mmchain.multi_dot([a, a], device="cuda"), a @ a)

    def test_host_arrays_on_the_device(self):
        arrays = [np.random.default_rng(1).random(s) for s in [(30, 40), (40, 50), (50, 20)]]
        result = mmchain.multi_dot(arrays, device="cuda")
        assert type(result) is np.ndarray
        np.testing.assert_allclose(result, np.linalg.multi_dot(arrays))

    def test_graph_capture(self):
        tensors = [torch.randn(s, device="cuda") for s in [(64, 64)] * 4]
        out = torch.empty(64, 64, device="cuda")
        mmchain.multi_dot(tensors, out=out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            mmchain.multi_dot(tensors, out=out)
        out.zero_()
        graph.replay()
        torch.testing.assert_close(out, torch.linalg.multi_dot(tensors), rtol=1e-3, atol=1e-2)

    def test_fork_says_so(self):
        import os

        a = torch.ones(3, 3, device="cuda")
        mmchain.multi_dot([a, a])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with pytest.raises(RuntimeError, match="CUDA does not survive a fork"):
                    mmchain.plan("2x3x4", device="cuda")
                np.testing.assert_array_equal(mmchain.multi_dot([np.eye(2)] * 3), np.eye(2))
                status = 0
            finally:
                os._exit(status)
        assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0


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


_LAST = (_torch._matrices_by_us, torch.get_float32_matmul_precision)  # of what set_torch() takes


@pytest.mark.skipif(not _torch._has_exchange, reason="a PyTorch without exchange functions")
def test_of_orders_that_cost_the_same_one_is_taken_that_records_least():
    recorded = []

    def counted(a, b):
        product = torch.mm(a, b)
        recorded.append(product.requires_grad)
        return product

    mmchain.multi_dot([torch.ones(2, 2, requires_grad=True)] * 2)  # the room of PyTorch is open
    others = (torch.mv, torch.dot, torch.matmul, torch.linalg.multi_dot)
    rest = (*others, torch.is_grad_enabled, *_LAST)
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


@pytest.mark.skipif(not _torch._has_exchange, reason="a PyTorch without exchange functions")
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
    _mmchain.set_torch(_torch._exact, *map(counted, functions), torch.is_grad_enabled, *_LAST)
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
        _mmchain.set_torch(_torch._exact, *functions, torch.is_grad_enabled, *_LAST)
    product.sum().backward()
    expected = [tensor.grad for tensor in chain]
    for tensor in chain:
        tensor.grad = None
    torch.linalg.multi_dot(chain).sum().backward()
    for tensor, grad in zip(chain, expected):
        torch.testing.assert_close(grad, tensor.grad)


# ---- large tensors on the CPU ------------------------------------------------------------------------


@pytest.fixture
def counted():
    """The calls of PyTorch's products that mmchain makes."""
    calls = []

    def count(function):
        return lambda *given: calls.append(given) or function(*given)

    functions = (torch.mm, torch.mv, torch.dot, torch.matmul, torch.linalg.multi_dot)
    rest = (torch.is_grad_enabled, *_LAST)
    _mmchain.set_torch(_torch._exact, *map(count, functions), *rest)
    yield calls
    _mmchain.set_torch(_torch._exact, *functions, *rest)


@pytest.mark.skipif(not _torch._has_exchange, reason="a PyTorch without exchange functions")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.bfloat16])
@pytest.mark.parametrize("rows, cols", [(1, 1), (5, 7), (30, 30), (1, 40), (40, 1), (300, 300)])
def test_a_matrix_and_a_vector_are_multiplied_by_whom_it_takes_least(counted, dtype, rows, cols):
    matrix, vector = torch.randn(rows, cols).to(dtype), torch.randn(cols).to(dtype)
    close = {"rtol": 0.02, "atol": 0.3} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-3}
    for a, b in ((matrix, vector), (matrix.t().contiguous().t(), vector), (vector, vector.clone())):
        counted.clear()
        product = mmchain.multi_dot([a, b])
        assert len(counted) == (0 if a.numel() == 90000 else 1)
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


@pytest.mark.skipif(not _torch._has_exchange, reason="a PyTorch without exchange functions")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("stack", [(), (16,)])
@pytest.mark.parametrize("cols, theirs", [(2, False), (40, True)])
def test_results_of_few_columns_are_ours(counted, dtype, stack, cols, theirs):
    a = torch.randn(*stack, 147, 62, dtype=torch.complex128).to(dtype)
    b = torch.randn(*stack, 62, cols, dtype=torch.complex128).to(dtype)
    for chain in ([a, b], [a.mT.contiguous()[..., :40, :], a, b]):
        for _ in range(3):  # a plan is kept of what comes again
            counted.clear()
            product = mmchain.multi_dot(chain)
            assert bool(counted) == theirs
        torch.testing.assert_close(product, reduce(torch.matmul, chain), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("round", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.complex128, torch.bfloat16])
def test_large_tensors_on_the_cpu_are_torchs(rng, counted, dtype, round):
    """In the planned order, also of views, stacks and conjugates, by multi_dot and by a plan."""
    least = 100 if dtype in (torch.float32, torch.bfloat16) else 30
    n = int(rng.integers(2, 5))
    dims = rng.integers(least + 10, least + 40, n + 1)
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


def test_many_small_matrices_of_a_stack(make, device):
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
def test_gradients_of_stacks(make, rng, device, round):
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


def test_tensors_of_any_strides(make, rng, device):
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
def test_gradients_by_a_plan(make, device, dtype, objective):
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
    product = mmchain.multi_dot(factors)
    (slope,) = torch.autograd.grad(product.abs().sum(), factors[0], create_graph=True)
    (second,) = torch.autograd.grad((slope * slope).sum(), factors[1], allow_unused=True)
    assert second is None or bool(second.isfinite().all())


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


@pytest.mark.skipif(not cuda, reason="no GPU, or mmchain without CUDA")
def test_many_in_a_captured_graph(rng):
    factors = [torch.randn(16, 16, device="cuda").div(4).requires_grad_() for _ in range(12)]
    slope = torch.ones(16, 16, device="cuda")
    want = torch.autograd.grad(torch.linalg.multi_dot(factors), factors, slope)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = torch.autograd.grad(mmchain.multi_dot(factors), factors, slope)
    graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(made, want):
        assert (a - b).abs().max() <= 1e-3 * b.abs().max()


# ---- what comes for the first time on a GPU ----------------------------------------------------------


def _first(rng, shapes, dtype):
    made = [torch.tensor(rng.standard_normal(shape), device="cuda").to(dtype) for shape in shapes]
    return made, reduce(torch.matmul, [tensor.to(torch.complex128) for tensor in made])


@pytest.mark.skipif(not cuda, reason="no GPU, or mmchain without CUDA")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize(
    "shapes",
    [
        [(30, 41), (41, 22)],
        [(30, 41), (41, 22), (22, 5), (5, 60)],
        [(41,), (41, 22), (22, 5)],
        [(4, 1, 7, 9), (3, 9, 8), (8, 6)],
    ],
)
def test_what_is_new_on_a_gpu_is_torchs(counted, rng, shapes, dtype):
    """The first three times it has no plan, whatever its factors look like."""
    mmchain.clear_cache()
    for turn in range(5):
        chain, expected = _first(rng, shapes, dtype)
        chain[-1] = chain[-1].mT.contiguous().mT if turn % 2 else torch.stack([chain[-1]] * 2, -1)[..., 0]
        counted.clear()
        product = mmchain.multi_dot(chain)
        assert len(counted) == (len(shapes) - 1 if turn < 3 else 0)
        assert product.shape == expected.shape and product.dtype == dtype
        error = (product.to(torch.complex128) - expected).abs().max() / expected.abs().max()
        assert error <= {torch.bfloat16: 0.05, torch.float64: 1e-12}.get(dtype, 1e-4)


@pytest.mark.skipif(not cuda, reason="no GPU, or mmchain without CUDA")
def test_what_asks_for_more_is_ours_from_the_first_time_on(counted, rng):
    shapes = [(31, 42), (42, 23), (23, 6)]
    before = torch.get_float32_matmul_precision()
    mmchain.clear_cache()
    try:
        torch.set_float32_matmul_precision("high")  # in TF32
        chain, expected = _first(rng, shapes, torch.float32)
        product = mmchain.multi_dot(chain)
        assert counted == []
        assert (product - expected.real).abs().max() <= 1e-5 * expected.abs().max()
    finally:
        torch.set_float32_matmul_precision(before)
    for others in ({"precision": "reproducible"}, {"out": torch.empty_like(product)}, {"objective": "energy"}):
        mmchain.clear_cache()
        mmchain.multi_dot(chain, **others)
        assert counted == []
