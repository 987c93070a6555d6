"""What PyTorch says of its own linalg.multi_dot (its OpInfo), said of ours: the samples that its tests
draw, by every dtype, requires_grad and layout; gradients and gradients of gradients by differences."""

import warnings

import pytest
import torch
from torch.testing import assert_close, make_tensor
from torch.testing._internal.common_methods_invocations import op_db

import mmchain

info = next(op for op in op_db if op.name == "linalg.multi_dot")
floating = [d for d in sorted(info.dtypes, key=str) if d.is_floating_point or d.is_complex]
exact = [d for d in sorted(info.dtypes, key=str) if d not in floating]
smooth = [torch.float64, torch.complex128]
count = len(list(info.sample_inputs("cpu", torch.float64)))


def close(ours, theirs):
    """Intermediate products are rounded, and those of another order, which may cost the same, otherwise: to eight
    units of the largest element."""
    if theirs.dtype in exact:
        return assert_close(ours, theirs)
    most = 8 * torch.finfo(theirs.dtype).eps
    scale = float(theirs.abs().max()) if theirs.numel() > 0 else 0.0
    return assert_close(ours, theirs, rtol=most, atol=most * scale)


def sample(dtype, number, requires_grad=False):
    """The factors of one sample; its other arguments are none."""
    torch.manual_seed(number)
    drawn = list(info.sample_inputs("cpu", dtype, requires_grad=requires_grad))[number]
    assert not drawn.args and not drawn.kwargs
    return list(drawn.input)


@pytest.fixture(params=range(count))
def number(request):
    return request.param


@pytest.mark.parametrize("dtype", floating + exact, ids=str)
def test_products(dtype, number):
    arrays = sample(dtype, number)
    close(mmchain.multi_dot(arrays), torch.linalg.multi_dot(arrays))


@pytest.mark.parametrize("dtype", floating, ids=str)
def test_noncontiguous(dtype, number):
    arrays = [a.mT.contiguous().mT if a.ndim == 2 else a.repeat_interleave(2)[::2] for a in sample(dtype, number)]
    close(mmchain.multi_dot(arrays), torch.linalg.multi_dot(arrays))


@pytest.mark.parametrize("dtype", floating, ids=str)
def test_out(dtype, number):
    arrays = sample(dtype, number)
    expected = torch.linalg.multi_dot(arrays)
    out = make_tensor(expected.shape, dtype=dtype, device="cpu")
    assert mmchain.multi_dot(arrays, out=out) is out
    close(out, expected)


@pytest.mark.parametrize("dtype", smooth, ids=str)
def test_gradients(dtype, number):
    arrays = sample(dtype, number, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: mmchain.multi_dot(list(a)), arrays)


@pytest.mark.parametrize("dtype", smooth, ids=str)
def test_gradients_of_gradients(dtype, number):
    arrays = sample(dtype, number, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda *a: mmchain.multi_dot(list(a)), arrays)


@pytest.mark.parametrize("dtype", [d for d in floating if d.is_floating_point], ids=str)
def test_backward_is_theirs(dtype, number):
    ours, theirs = sample(dtype, number, True), sample(dtype, number, True)
    mmchain.multi_dot(ours).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.linalg.multi_dot(theirs).sum().backward()
    for a, b in zip(ours, theirs):
        close(a.grad, b.grad)
