"""PyTorch tensors on a GPU: streams, graphs, calls that come again and calls that come for the first time."""

from functools import reduce

import numpy as np
import pytest

from tensors import counted, needs_cuda, torch  # noqa: F401

import mmchain
from mmchain import _mmchain, _torch


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


@needs_cuda
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


@needs_cuda
def test_many_in_a_captured_graph():
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


@needs_cuda
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


@needs_cuda
def test_plans_know_how_factors_lie(rng):
    """A stack of transposed matrices, and one matrix for all products: also by a plan for others."""
    a, b, c = (torch.tensor(rng.standard_normal(shape), device="cuda") for shape in [(50, 12, 9), (50, 7, 9), (7, 5)])
    factors, expected = [a, b.mT, c], a @ b.mT @ c
    mmchain.clear_cache()
    for _ in range(5):
        assert torch.allclose(mmchain.multi_dot(factors), expected)
    assert _mmchain.cached_plan().chain == "f64:12x9x7x5@50:NTn"
    assert torch.allclose(mmchain.multi_dot(factors, precision="reproducible"), expected)
    assert _mmchain.cached_plan().chain == "f64:12x9x7x5@50:NNn"
    for chain in ("f64:12x9x7x5@50", "f64:12x9x7x5", factors, [a, b.mT.contiguous(), c]):
        plan = mmchain.plan(chain, device="cuda:0")
        for others in (factors, [a, b.mT.contiguous(), c], [a, b.mT, c.expand(50, 7, 5).contiguous()]):
            for _ in range(2):
                assert torch.allclose(plan.execute(others), expected)


@needs_cuda
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
