"""What PyTorch must see, or knows beside a tensor's memory: tangents, traces, modes, and torch.autocast."""

import warnings

import pytest

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import mmchain  # noqa: E402

torch.manual_seed(5)
A, B, T = (torch.randn(3, 3, dtype=torch.float64) for _ in range(3))
STACK = torch.randn(4, 3, 3, dtype=torch.float64)
WAYS = {
    "two": lambda x: mmchain.multi_dot([x, B]),
    "three": lambda x: mmchain.multi_dot([x, B, x]),
    "many": lambda x: mmchain.multi_dot([x, B / 2] * 12),
    "vector": lambda x: mmchain.multi_dot([x, B, x[0]]),
    "stack": lambda x: mmchain.multi_dot([x, STACK, B]),
    "chain": lambda x: mmchain.multi_dot(torch.stack([x, B, x])),
    "plan of two": lambda x: mmchain.plan("f64:3x3x3").execute([x, B]),
    "plan": lambda x: mmchain.plan("f64:3x3x3x3").execute([x, B, x]),
    "device": lambda x: mmchain.multi_dot([x, B, x], device="ref"),
    "reproducible": lambda x: mmchain.multi_dot([x, B, x], precision="reproducible"),
    "scan": lambda x: mmchain.scan(torch.stack([x, B, x])),
    "recurrence": lambda x: mmchain.recurrence(torch.stack([x, B, x]), x[0]),
}


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_tangents(name, wants):
    step = 1e-6
    expected = (WAYS[name](A + step * T) - WAYS[name](A - step * T)) / (2 * step)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(A.clone().requires_grad_(wants), T)
        tangent = forward_ad.unpack_dual(WAYS[name](dual)).tangent
    assert tangent is not None
    torch.testing.assert_close(tangent.detach(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"device": "ref"}])
def test_tangents_of_gradients(options):
    factors = [x.clone().requires_grad_() for x in (A, B, T)]
    assert torch.autograd.gradcheck(
        lambda *x: mmchain.multi_dot(x, **options), factors, check_forward_ad=True
    )


def test_linearize():
    derivative = torch.func.linearize(lambda x: mmchain.multi_dot([x, B, A]), A)[1]
    torch.testing.assert_close(derivative(T), T @ B @ A)


def test_a_level_without_tangents_changes_nothing():
    expected = mmchain.multi_dot([A, B, T])
    with forward_ad.dual_level():
        torch.testing.assert_close(mmchain.multi_dot([A, B, T]), expected)
        out = torch.empty_like(A)
        assert mmchain.multi_dot([A, B, T], out=out) is out
        with pytest.raises(RuntimeError, match="^out: "):
            mmchain.multi_dot([forward_ad.make_dual(A, T), B, T], out=out)
        sparse, whole = A.to_sparse_csr(), torch.ones(3, 3, dtype=torch.int64)
        torch.testing.assert_close(mmchain.multi_dot([sparse, B]), A @ B)
        assert mmchain.multi_dot([whole, whole, whole])[0, 0] == 9
        assert mmchain.multi_dot([whole > 0, whole > 0]).all()
        with pytest.raises(TypeError, match="gradients"):
            mmchain.multi_dot([sparse, forward_ad.make_dual(A, T)])
        with pytest.raises(ValueError, match="^semiring: "):
            mmchain.multi_dot([forward_ad.make_dual(A, T), B], semiring="max-plus")


@pytest.mark.parametrize("name", [name for name in WAYS if name != "reproducible"])
def test_graphs_are_of_their_inputs(name):
    graph = make_fx(WAYS[name])(A)
    torch.testing.assert_close(graph(T), WAYS[name](T))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_graphs_of_shapes(mode):
    graph = make_fx(lambda x, y, z: mmchain.multi_dot([x, y, z]), tracing_mode=mode)(A, B, T)
    torch.testing.assert_close(graph(T, A, B), T @ A @ B)


def test_trace():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lambda x, y, z: mmchain.multi_dot([x, y, z]), (A, B, T))
    torch.testing.assert_close(traced(B, T, A), B @ T @ A)


def test_flops_are_counted():
    with FlopCounterMode(display=False) as counter:
        mmchain.multi_dot([A, B, T])
        mmchain.plan("f64:3x3x3").execute([A, B])
    assert counter.get_total_flops() == 3 * 2 * 27


@pytest.mark.parametrize(
    "way",
    [
        lambda x: mmchain.multi_dot([mmchain.inv(x), x]),
        lambda x: mmchain.multi_dot([x.to_sparse(), x]),
        lambda x: mmchain.multi_dot([x, x], semiring="max-plus"),
        lambda x: mmchain.multi_dot([x.to(torch.int64)] * 2, mod=7),
        lambda x: mmchain.multi_dot([x, x], precision="reproducible"),
        lambda x: mmchain.gradients([x, x], x)[0],
        lambda x: mmchain.Ranges([x, x]).product(),
    ],
)
def test_what_pytorch_has_not_is_refused(way):
    with pytest.raises(TypeError, match="expected"):
        make_fx(way)(A)
    way(A)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mmchain.multi_dot([A > 0, B > 0, T > 0]),
        lambda: mmchain.multi_dot([A, B, T], precision="reproducible"),
        lambda: mmchain.multi_dot([mmchain.inv(A), B]),
        lambda: mmchain.multi_dot([A, B], semiring="max-plus"),
        lambda: mmchain.multi_dot([A.to_sparse_csr(), B]),
        lambda: mmchain.gradients([A, B], T)[0],
        lambda: mmchain.scan(torch.stack([A, B]).long()),
    ],
)
def test_what_is_not_pytorchs_is_computed_under_modes_that_count(call):
    expected = call()
    with FlopCounterMode(display=False):
        found = call()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("enabled", [False, True])
def test_running_products_of_tensors_without_memory(enabled):
    stack = torch.empty(4, 3, 3, device="meta")
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        assert mmchain.scan(stack).shape == (4, 3, 3)
        assert mmchain.recurrence(stack, stack[0]).shape == (4, 3, 3)


def test_running_products_keep_their_dtype_under_autocast_and_a_mode():
    stack = torch.randn(6, 8, 8) / 3
    expected = mmchain.scan(stack.double()).float()
    with FlopCounterMode(display=False), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(mmchain.scan(stack), expected, rtol=1e-5, atol=1e-6)


def _under_autocast(factors, **options):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mmchain.multi_dot(factors, **options).float().sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "options",
    [{}, {"device": "blas"}, {"device": "ref"}, {"precision": "reproducible"}, {"objective": "energy"}],
)
def test_backward_under_autocast(options, dtype):
    for shape, count in (((16, 16), 4), ((16, 16), 20), ((2, 16, 16), 4)):
        factors = [torch.randn(shape).to(dtype).requires_grad_() for _ in range(count)]
        _under_autocast(factors, **options)
        assert all(factor.grad.dtype is dtype for factor in factors)


def test_backward_under_autocast_of_what_was_before_it():
    factors = [(torch.randn(16, 16) / 4).requires_grad_() for _ in range(20)]
    product = mmchain.multi_dot(factors)
    stack = torch.randn(5, 4, 4, requires_grad=True)
    states = mmchain.scan(stack)
    expected = torch.autograd.grad([product.sum(), states.sum()], [*factors, stack], retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = torch.autograd.grad([product.sum(), states.sum()], [*factors, stack], create_graph=True)
    for one, other in zip(made, expected):
        torch.testing.assert_close(one, other)
