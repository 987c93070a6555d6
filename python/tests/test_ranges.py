"""Products of ranges of a row that changes, against NumPy's from left to right."""

import os
import subprocess
import sys
import threading
from functools import reduce

import numpy as np
import pytest

import mmchain


def orthogonal(rng, *shape, dtype=np.float64):
    """Of which products of any length have elements of the size of 1."""
    n = shape[-1]
    drawn = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        drawn = drawn + 1j * rng.standard_normal(shape)
    return np.linalg.qr(drawn)[0].astype(dtype) if n else drawn.astype(dtype)


def product(factors, n, dtype=np.float64):
    return reduce(np.matmul, factors, np.eye(n, dtype=dtype))


def near(got, expected, count, eps=np.finfo(float).eps):
    n = expected.shape[-1]
    tolerance = 4 * (count + 1) * n * max(n, 1) ** 0.5 * eps
    return bool(np.all(np.abs(np.asarray(got, dtype=expected.dtype) - expected) <= tolerance))


def test_random_order(rng):
    n, row = 4, []
    ranges = mmchain.Ranges(np.empty((0, n, n)))
    for _ in range(2000):
        kind = rng.integers(7)
        if kind == 0:
            row.append(orthogonal(rng, n, n))
            ranges.append(row[-1])
        elif kind == 1:
            added = orthogonal(rng, int(rng.integers(20)), n, n)
            row += list(added)
            ranges.extend(added)
        elif kind == 2 and row:
            i = int(rng.integers(len(row)))
            row[i] = orthogonal(rng, n, n)
            ranges.update(i, row[i])
        elif kind == 3 and row:
            indices = rng.integers(len(row), size=int(rng.integers(1, 10)))
            changed = orthogonal(rng, len(indices), n, n)
            for i, a in zip(indices, changed):
                row[i] = a
            ranges.update(indices, changed)
        elif kind == 4 and row:
            row.pop(0)
            ranges.pop_front()
        elif kind == 5:
            count = int(rng.integers(len(row) // 2 + 1))
            del row[:count]
            ranges.pop_front(count)
        i, j = sorted(rng.integers(len(row) + 1, size=2))
        assert near(ranges.product(i, j), product(row[i:j], n), j - i)
        assert len(ranges) == len(row)
    assert near(ranges.product(), product(row, n), len(row))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_dtypes(rng, dtype):
    factors = orthogonal(rng, 9, 3, 3, dtype=np.dtype(dtype))
    ranges = mmchain.Ranges(factors)
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    got = ranges.product(2, 8)
    assert got.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    assert near(got, product(factors[2:8].astype(wide), 3, wide), 6, eps)
    assert (ranges.product(4, 4) == np.eye(3)).all()


def test_batches(rng):
    factors = orthogonal(rng, 2, 3, 7, 5, 5)
    ranges = mmchain.Ranges(factors)
    assert len(ranges) == 7 and ranges.shape == (2, 3, 7, 5, 5)
    changed = orthogonal(rng, 2, 3, 5, 5)
    ranges.update(2, changed)
    factors[:, :, 2] = changed
    added = orthogonal(rng, 2, 3, 2, 5, 5)
    ranges.extend(added)
    factors = np.concatenate([factors, added], axis=2)
    got = ranges.product(1, 9)
    expected = product(np.moveaxis(factors, 2, 0)[1:9], 5)
    assert got.shape == (2, 3, 5, 5) and near(got, expected, 8)


def test_what_lies_otherwise(rng):
    factors = orthogonal(rng, 6, 4, 4)
    expected = product(factors, 4)
    wide = np.zeros((6, 8, 12))
    wide[:, ::2, ::3] = factors
    big_endian = factors.astype(">f8")
    by_factors = np.asfortranarray(factors)
    for stack in (factors.transpose(0, 2, 1).copy().transpose(0, 2, 1), wide[:, ::2, ::3], big_endian, by_factors):
        assert near(mmchain.Ranges(stack).product(), expected, 6)
    assert near(mmchain.Ranges(list(factors)).product(), expected, 6)
    narrow = mmchain.Ranges(factors)
    narrow.update(0, factors[0].astype(np.float32))  # no value is lost
    factors.flags.writeable = False
    before = mmchain.Ranges(factors)
    assert near(before.product(), expected, 6)


def test_copies(rng):
    factors = orthogonal(rng, 6, 4, 4)
    ranges = mmchain.Ranges(factors)
    expected = product(factors, 4)
    factors[:] = np.nan
    assert near(ranges.product(), expected, 6)


def test_poison(rng):
    factors = orthogonal(rng, 17, 3, 3)
    factors[6] = np.nan
    ranges = mmchain.Ranges(factors)
    for i in range(18):
        for j in range(i, 18):
            assert np.isnan(ranges.product(i, j)).all() == np.isnan(ranges.product(i, j)).any()
            assert np.isnan(ranges.product(i, j)).any() == (i <= 6 < j)


def test_few_products(rng):
    ranges = mmchain.Ranges(orthogonal(rng, 1000, 2, 2))
    ranges.product()
    for i in (0, 1, 499, 500, 999):
        before = ranges.products
        ranges.update(i, np.eye(2))
        ranges.product()
        assert 0 < ranges.products - before <= 11


def test_memory_limit(rng):
    factors = orthogonal(rng, 1000, 8, 8)
    whole = mmchain.Ranges(factors)
    limit = whole.nbytes * 3 // 4
    tight = mmchain.Ranges(factors, memory_limit=limit)
    assert factors.nbytes < tight.nbytes <= limit
    assert near(tight.product(3, 998), product(factors[3:998], 8), 995)
    with pytest.raises(MemoryError, match="memory_limit: "):
        mmchain.Ranges(factors, memory_limit=factors.nbytes)


def test_errors(rng):
    ranges = mmchain.Ranges(orthogonal(rng, 5, 3, 3))
    for i, j in [(-1, 2), (0, 6), (4, 3), (6, 6), (2**70, 2**70)]:
        with pytest.raises((IndexError, OverflowError), match="i, j|int"):
            ranges.product(i, j)
    for i in (-1, 5, 10**30):
        with pytest.raises(IndexError, match="0 <= i < 5"):
            ranges.update(i, np.eye(3))
    for mask in ([True, False, True, False, False], np.array([True, False, True, False, False])):
        with pytest.raises(TypeError, match="i: expected a whole number, got bool"):
            ranges.update(mask, np.zeros((5, 3, 3)))
    with pytest.raises(IndexError, match="0 <= i < 5, got 7"):
        ranges.update([0, 7], np.zeros((2, 3, 3)))
    for count in (-1, 6):
        with pytest.raises(IndexError, match="count"):
            ranges.pop_front(count)
    with pytest.raises(ValueError, match="a: expected shape"):
        ranges.update(0, np.eye(4))
    with pytest.raises(ValueError, match="a: expected 2 factors, got 3"):
        ranges.update([0, 1], np.zeros((3, 3, 3)))
    with pytest.raises(ValueError, match="stack: expected shape"):
        ranges.extend(np.eye(3))
    with pytest.raises(TypeError, match="a: expected float64, got complex128"):
        ranges.append(np.eye(3, dtype=complex))
    with pytest.raises(TypeError, match="stack: expected one of float16"):
        mmchain.Ranges(np.zeros((2, 3, 3), dtype=str))
    with pytest.raises(TypeError, match="arrays: expected numbers, got elements of .*'b'"):  # which is no bfloat16
        mmchain.Ranges(np.zeros((2, 3, 3), dtype=[("b", np.uint16)]))
    with pytest.raises(ValueError, match=r"stack: expected factors of one shape, got \(2, 2\) and \(3, 3\)"):
        mmchain.Ranges([np.eye(3), np.eye(2)])
    with pytest.raises(ValueError, match="stack: expected factors of shape"):
        mmchain.Ranges(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="stack"):
        mmchain.Ranges([])
    with pytest.raises(ValueError, match="device"):
        mmchain.Ranges(np.zeros((2, 3, 3)), device="abacus")
    for call in (lambda: ranges.product(0.5), lambda: ranges.update("1", np.eye(3))):
        with pytest.raises(TypeError, match="^i: expected a whole number"):
            call()
    with pytest.raises(TypeError, match="^j: expected a whole number, got str"):
        ranges.product(0, "all")
    with pytest.raises(TypeError, match="^count: expected a whole number"):
        ranges.pop_front(1.0)
    assert near(ranges.product(2, 2), np.eye(3), 0)


def test_threads(rng):
    factors = orthogonal(rng, 200, 6, 6)
    ranges = mmchain.Ranges(factors)
    expected = product(factors, 6)
    wrong = []

    def work(seed):
        draw = np.random.default_rng(seed)
        for _ in range(100):
            i = int(draw.integers(200))
            ranges.update(i, factors[i])
            if not near(ranges.product(), expected, 200):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork():
    program = """
import os, numpy as np, mmchain
ranges = mmchain.Ranges(np.ones((9, 2, 2)))
ranges.product()
child = os.fork()
if child == 0:
    try:
        ranges.product()
    except RuntimeError as error:
        mine = mmchain.Ranges(np.full((9, 2, 2), 0.5)).product()
        os._exit(0 if "forked" in str(error) and mine[0, 0] == 0.5 else 2)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert ranges.product(0, 2)[0, 0] == 2
"""
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_a_thread_is_at_work():
    """The child lacks the thread that had the lock, and must not wait for it."""
    program = """
import os, signal, threading, time, numpy as np, mmchain
ranges = mmchain.Ranges(np.zeros((9, 400, 400)))
def work():
    for i in range(25):
        ranges.update(i % 9, np.eye(400))
        ranges.product()
thread = threading.Thread(target=work)
thread.start()
for _ in range(6):
    time.sleep(0.03)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        refused = 0
        for call in (ranges.product, ranges.__len__, lambda: ranges.update(0, np.eye(400)), ranges.pop_front):
            try:
                call()
            except RuntimeError as error:
                refused += "forked" in str(error)
        os._exit(4 - refused)
    assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": path})


def test_torch(rng):
    torch = pytest.importorskip("torch")
    factors = torch.from_numpy(orthogonal(rng, 7, 4, 4))
    ranges = mmchain.Ranges(factors)
    ranges.update(3, factors[3].mT)
    got = ranges.product(1, 6)
    expected = factors[1] @ factors[2] @ factors[3].mT @ factors[4] @ factors[5]
    assert isinstance(got, torch.Tensor) and near(got.numpy(), expected.numpy(), 5)
    halves = mmchain.Ranges(factors.to(torch.bfloat16))
    got = halves.product(1, 6)
    halves.append(factors[0].to(torch.bfloat16))
    expected = torch.linalg.multi_dot([a.to(torch.bfloat16).double() for a in factors[1:6]])
    assert got.dtype is torch.bfloat16 and near(got.double().numpy(), expected.numpy(), 5, 2.0**-8)
    with pytest.raises(TypeError, match="bfloat16, got float64"):
        halves.append(factors[0])


def test_jax(rng):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "cpu":
        pytest.skip("rows of JAX's arrays are in the host's memory")
    factors = orthogonal(rng, 7, 4, 4, dtype=np.float32)
    ranges = mmchain.Ranges(jax.numpy.asarray(factors))
    got = ranges.product(1, 6)
    assert isinstance(got, jax.Array)
    assert near(got, product(factors[1:6].astype(float), 4), 5, 2.0**-23)
    halves = mmchain.Ranges(jax.numpy.asarray(factors).astype("bfloat16"))
    assert halves.product(0, 3).dtype == "bfloat16"


# ---- on a device ---------------------------------------------------------------------------------


@pytest.fixture
def rows_of_c(monkeypatch):
    """Has DeviceRanges leave tensors of the host to C, as it leaves those of a GPU."""
    from mmchain import _mmchain
    from mmchain._ranges_device import DeviceRanges
    from mmchain._types import float_names

    def small(self):
        name = float_names[str(self._dtype).rpartition(".")[2]]
        return _mmchain.Ranges(name, self._side, self._count, "cpu", None)

    monkeypatch.setattr(DeviceRanges, "_open", small)
    monkeypatch.setattr(DeviceRanges, "_stream", lambda self: 0)


@pytest.mark.parametrize("device", ["cpu", "c", "cuda"])
def test_random_order_on_a_device(rng, device, request):
    """By tensors of either kind of device, against NumPy's products: the tree in Python, and C's."""
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    if device == "c":
        request.getfixturevalue("rows_of_c")
        device = "cpu"
    from mmchain._ranges_device import DeviceRanges

    def there(array):
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    n, row = 3, []
    ranges = DeviceRanges(there(np.empty((0, n, n))))
    for _ in range(10000 if "MMCHAIN_TEST_LONG" in os.environ else 800):
        kind = rng.integers(8)
        if kind == 0:
            row.append(orthogonal(rng, n, n))
            ranges.append(there(row[-1]))
        elif kind == 1:
            added = orthogonal(rng, int(rng.integers(20)), n, n)
            row += list(added)
            ranges.extend(there(added))
        elif kind == 2 and row:
            i = int(rng.integers(len(row)))
            row[i] = orthogonal(rng, n, n)
            ranges.update(i, there(row[i]))
        elif kind == 3 and row:
            indices = rng.integers(len(row), size=int(rng.integers(1, 10)))
            changed = orthogonal(rng, len(indices), n, n)
            for i, a in zip(indices, changed):
                row[i] = a
            ranges.update(indices, there(changed))
        elif kind == 4 and row:
            row.pop(0)
            ranges.pop_front()
        elif kind == 5:
            count = int(rng.integers(len(row) // 2 + 1))
            del row[:count]
            ranges.pop_front(count)
        i, j = sorted(rng.integers(len(row) + 1, size=2))
        got = ranges.product(int(i), int(j)).cpu()
        assert near(got, product(row[i:j], n), j - i)
        assert len(ranges) == len(row)
    assert near(ranges.product().cpu(), product(row, n), len(row))


@pytest.mark.parametrize("by_c", [False, True])
def test_a_row_on_a_device(rng, by_c, request):
    torch = pytest.importorskip("torch")
    if by_c:
        request.getfixturevalue("rows_of_c")
    from mmchain._ranges_device import DeviceRanges

    stack = torch.from_numpy(orthogonal(rng, 2, 1000, 4, 4))
    ranges = DeviceRanges(stack)
    ranges.product()
    assert ranges.products == 999
    ranges.update(500, stack[:, 3])
    ranges.product()
    assert ranges.products <= 999 + 11
    assert ranges.shape == (2, 1000, 4, 4) and len(ranges) == 1000
    assert ranges.nbytes >= 2 * stack.nbytes
    assert torch.equal(ranges.product(4, 4)[1], torch.eye(4, dtype=stack.dtype))
    # NaN of a factor is in the ranges that hold it.
    poisoned = stack[:, 700].clone()
    poisoned[0, 1, 1] = float("nan")
    ranges.update([3, 700, 700], torch.stack([poisoned, poisoned, stack[:, 700]], 1))
    assert ranges.product(3, 10)[0].isnan().any() and not ranges.product(3, 10)[1].isnan().any()
    assert not ranges.product(4, 1000).isnan().any()
    for call in (
        lambda: ranges.update(1000, stack[:, 0]),
        lambda: ranges.update([-1], stack[:, :1]),
        lambda: ranges.product(0, 1001),
        lambda: ranges.product(2, 1),
        lambda: ranges.pop_front(1001),
    ):
        with pytest.raises(IndexError, match="expected"):
            call()
    with pytest.raises(ValueError, match="^a: expected shape"):
        ranges.update(1, stack[0, 0])
    with pytest.raises(TypeError, match="^a: expected torch.float64, got torch.complex128"):
        ranges.update(1, stack[:, 0].to(torch.complex128))
    with pytest.raises(TypeError, match="^a: expected an array of torch"):
        ranges.append(stack[:, 0].numpy())
    with pytest.raises(ValueError, match="^a: expected tensors that require no gradients"):
        ranges.append(stack[:, 0].clone().requires_grad_())
    for options in ({"scaled": True}, {"semiring": "max-plus"}, {"memory_limit": 1}, {"device": "ref"}):
        with pytest.raises(ValueError, match=f"^{next(iter(options))}: expected"):
            DeviceRanges(stack, **options)


def test_one_factor_however_it_lies(rng, rows_of_c):
    """A factor of a row without a batch is read as it is, or copied, or refused as one of a batch is."""
    torch = pytest.importorskip("torch")
    from mmchain._ranges_device import DeviceRanges

    row = orthogonal(rng, 9, 4, 4)
    ranges = DeviceRanges(torch.from_numpy(row.copy()))
    wide = torch.from_numpy(orthogonal(rng, 8, 8))
    for i, given in enumerate((wide[:4, :4], wide[:4, 4:].T, wide[::2, ::2], wide[2:6, :4].float())):
        ranges.update(i, given)
        row[i] = given.double().numpy()
        given.zero_()  # the row has a copy
        assert near(ranges.product().numpy(), product(row, 4), 9)
    ranges.update(np.int64(5), torch.nn.Parameter(wide[:4, :4]).detach())
    row[5] = wide[:4, :4].numpy()
    assert near(ranges.product().numpy(), product(row, 4), 9)
    one = torch.eye(4, dtype=torch.float64)
    for i in (-1, 9):
        with pytest.raises(IndexError, match="^i: expected 0 <= i < 9"):
            ranges.update(i, one)
    for shape in ((4, 5), (5, 5), (4,), (1, 4, 4), (1, 1, 4, 4)):
        with pytest.raises(ValueError, match="^a: expected shape"):
            ranges.update(1, torch.ones(shape, dtype=torch.float64))
    with pytest.raises(TypeError, match="^a: expected torch.float64, got torch.complex128"):
        ranges.update(1, one.to(torch.complex128))
    with pytest.raises(ValueError, match="^a: expected tensors that require no gradients"):
        ranges.update(1, one.clone().requires_grad_())
    with torch.no_grad():
        ranges.update(1, (2 * one).requires_grad_())
    row[1] = 2 * np.eye(4)
    assert near(ranges.product().numpy(), product(row, 4), 9)


def test_tensors_of_a_gpu_stay_there(rng):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    factors = [torch.from_numpy(orthogonal(rng, 5, 5)).cuda() for _ in range(9)]
    ranges = mmchain.Ranges(factors)
    got = ranges.product(1, 8)
    assert got.is_cuda
    assert near(got.cpu(), product([factor.cpu().numpy() for factor in factors[1:8]], 5), 7)
