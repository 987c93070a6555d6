"""Factors with structure that lie on a GPU, of PyTorch and of CuPy, against NumPy."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError

import mmchain

SIDE = 37


def _torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device")
    return (lambda a: torch.from_numpy(np.ascontiguousarray(a)).cuda()), (lambda t: t.detach().cpu().numpy())


def _cupy():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("CuPy has no CUDA device")
    return cupy.asarray, cupy.asnumpy


@pytest.fixture(params=[_torch, _cupy], ids=["torch", "cupy"])
def library(request):
    return request.param()


def _matrices(rng, dtype):
    a = rng.standard_normal((SIDE, SIDE))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal((SIDE, SIDE))
    eye = np.eye(SIDE)
    values = {
        "general": a / 6 + 3 * eye,
        "lower": np.tril(a) / 6 + 3 * eye,
        "spd": a @ a.conj().T / SIDE + eye,
        "diagonal": np.diag(np.diag(a) + 3),
        "tall": a[:, :20],
    }
    return {name: value.astype(dtype) for name, value in values.items()}


def _chains(m):
    """Pairs of what is multiplied by mmchain, and what NumPy makes of it."""
    inv, lower, spd, diagonal = mmchain.inv, mmchain.lower, mmchain.spd, mmchain.diagonal

    return [
        (lambda t: [lower(t["lower"]), t["tall"]], m["lower"] @ m["tall"]),
        (lambda t: [inv(lower(t["lower"])), t["tall"]], np.linalg.solve(m["lower"], m["tall"])),
        (lambda t: [inv(spd(t["spd"])), t["tall"]], np.linalg.solve(m["spd"], m["tall"])),
        (lambda t: [inv(t["general"]), t["tall"]], np.linalg.solve(m["general"], m["tall"])),
        (
            lambda t: [diagonal(t["diagonal"]), t["spd"], diagonal(t["diagonal"])],
            m["diagonal"] @ m["spd"] @ m["diagonal"],
        ),
        (lambda t: [mmchain.Factor(t["tall"]), mmchain.Factor(t["tall"]).H], m["tall"] @ m["tall"].conj().T),
        (lambda t: [inv(t["general"])], np.linalg.inv(m["general"])),
        (lambda t: [inv(t["general"]), t["tall"][:, 0]], np.linalg.solve(m["general"], m["tall"][:, 0])),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("objective", ["time", "flops"])
def test_chains(library, dtype, objective):
    there, back = library
    m = _matrices(np.random.default_rng(3), dtype)
    on_device = {name: there(value) for name, value in m.items()}
    for factors, expected in _chains(m):
        product = mmchain.multi_dot(factors(on_device), objective=objective)
        assert type(product) is type(on_device["tall"])
        tolerance = 2000 * np.finfo(dtype).eps
        np.testing.assert_allclose(back(product), expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_known_chains():
    """A chain of the same factors is multiplied again without looking at what it is."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device")
    from mmchain import _structure_device

    m = _matrices(np.random.default_rng(5), "float64")
    _structure_device._known.clear()
    for turn in range(2):
        t = {name: torch.from_numpy(np.ascontiguousarray(value)).cuda() for name, value in m.items()}
        before = len(_structure_device._known)
        for factors, expected in _chains(m):
            product = mmchain.multi_dot(factors(t)).cpu().numpy()
            np.testing.assert_allclose(product, expected, rtol=1e-9, atol=1e-9)
        assert (len(_structure_device._known) == before) == (turn == 1)
    x = t["tall"]
    group = [mmchain.inv([x.T, x]), x.T, x]
    for _ in range(2):
        np.testing.assert_allclose(mmchain.multi_dot(group).cpu().numpy(), np.eye(20), rtol=0, atol=1e-9)
    known = len(_structure_device._known)
    wanted = x.clone().requires_grad_()
    chain = [mmchain.inv(mmchain.lower(t["lower"])), wanted]
    assert mmchain.multi_dot(chain).requires_grad
    with torch.no_grad():
        assert not mmchain.multi_dot(chain).requires_grad
    assert len(_structure_device._known) >= known > 0


def test_a_singular_factor_is_named(library):
    there, _ = library
    low = np.tril(np.ones((5, 5)))
    low[2, 2] = 0
    with pytest.raises(LinAlgError, match="factor 1 is singular: pivot 3 is zero"):
        mmchain.multi_dot([mmchain.inv(mmchain.lower(there(low))), there(np.ones((5, 2)))])


def test_arrays_of_one_place(library):
    there, _ = library
    with pytest.raises(TypeError, match="arrays: expected"):
        mmchain.multi_dot([mmchain.lower(there(np.eye(3))), np.ones((3, 2))])


def test_host_arrays_are_brought():
    try:
        plan = mmchain.plan([mmchain.inv(mmchain.lower(np.eye(4))), np.ones((4, 2))], device="cuda")
    except (ImportError, NotImplementedError, RuntimeError, ValueError):
        pytest.skip("no CUDA device")
    product = plan.execute([mmchain.inv(mmchain.lower(np.eye(4))), np.ones((4, 2))])
    np.testing.assert_array_equal(product, np.ones((4, 2)))


def test_gradients_on_cuda():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA device")
    m = _matrices(np.random.default_rng(4), "float64")
    low = torch.from_numpy(m["lower"]).cuda().requires_grad_()
    b = torch.from_numpy(np.ascontiguousarray(m["tall"])).cuda().requires_grad_()
    found = torch.autograd.grad(mmchain.multi_dot([mmchain.inv(mmchain.lower(low)), b]).square().sum(), (low, b))
    expected = torch.autograd.grad(torch.linalg.solve_triangular(low, b, upper=False).square().sum(), (low, b))
    torch.testing.assert_close(found[0], torch.tril(expected[0]))
    torch.testing.assert_close(found[1], expected[1])
