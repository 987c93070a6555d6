"""PyTorch tensors for tests, on the CPU and, where a GPU and the module are, on CUDA. What imports this is skipped
where PyTorch is not installed."""

import pytest

torch = pytest.importorskip("torch")

import mmchain  # noqa: E402
from mmchain import _mmchain, _torch  # noqa: E402


cuda = torch.cuda.is_available() and any(
    d["name"].startswith("cuda") and d["available"] for d in mmchain.info()["devices"]
)
needs_cuda = pytest.mark.skipif(not cuda, reason="no GPU, or mmchain without CUDA")
needs_exchange = pytest.mark.skipif(not _torch._has_exchange, reason="a PyTorch without exchange functions")
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


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=needs_cuda)])
def device(request):
    return request.param


@pytest.fixture
def make(rng, device):
    """A function that returns random tensors of a chain's dims; options are those of requires_grad_()."""
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
    """Compares a product with PyTorch's in double precision."""
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


# The last arguments of set_torch().
LAST = (_torch._matrices_by_us, torch.get_float32_matmul_precision, _torch._has_bf16())


@pytest.fixture
def counted():
    """The calls of PyTorch's products that mmchain makes."""
    calls = []

    def count(function):
        return lambda *given: calls.append(given) or function(*given)

    functions = (torch.mm, torch.mv, torch.dot, torch.matmul, torch.linalg.multi_dot)
    rest = (torch.is_grad_enabled, *LAST)
    _mmchain.set_torch(_torch._exact, *map(count, functions), *rest)
    yield calls
    _mmchain.set_torch(_torch._exact, *functions, *rest)
