"""Products of integers have NumPy's bits; with `checked` and `mod`, Python's integers are what counts."""

import os
import random

import numpy as np
import pytest

import mmchain

SEED = int(os.environ.get("MMCHAIN_TEST_SEED", "20261123"), 0)
LONG = bool(os.environ.get("MMCHAIN_TEST_LONG"))
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
PRIMES = [2, 3, 998244353, 2**61 - 1, 2**63 - 25]


def integers(rng, dtype, shape, kind):
    """Whole range, its ends, small, or of some number of bits."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.02, 0.2, 0.9])
    info = np.iinfo(dtype)
    if kind == 0:
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    if kind == 1:
        return rng.choice(np.array([info.min, info.max, 0, 1, info.max - 1], dtype), shape)
    if kind == 2:
        return np.full(shape, info.min if info.min else info.max, dtype)
    bits = int(rng.integers(1, 8 * dtype.itemsize - 1))
    least = -(2**bits) + 1 if info.min else 0
    return rng.integers(least, 2**bits, shape).astype(dtype)


def random_chain(rng, dtype, largest=40):
    n = int(rng.integers(2, 6))
    dims = rng.integers(1, largest, n + 1)
    kind = int(rng.integers(0, 5))
    arrays = [integers(rng, dtype, (int(r), int(c)), kind) for r, c in zip(dims, dims[1:])]
    if rng.random() < 0.3:
        arrays = [np.asfortranarray(a) for a in arrays]
    if rng.random() < 0.2:
        arrays[0] = np.repeat(arrays[0], 2, 1)[:, ::2]
    if rng.random() < 0.2:
        arrays[0] = arrays[0][0]
    if rng.random() < 0.2:
        arrays[-1] = arrays[-1][:, 0]
    return arrays


def exact(arrays, mod=None):
    """The product in Python's integers."""
    product = np.asarray(arrays[0]).astype(object)
    for array in arrays[1:]:
        product = np.dot(product, array.astype(object))
        product = product % mod if mod is not None else product
    return product


@pytest.mark.parametrize("device", ["blas", "ref"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_as_numpy(dtype, device):
    rng = np.random.default_rng(SEED)
    for _ in range(60):
        arrays = random_chain(rng, dtype)
        got, want = mmchain.multi_dot(arrays, device=device), np.linalg.multi_dot(arrays)
        assert got.dtype == want.dtype and np.shape(got) == np.shape(want)
        assert np.array_equal(got, want), [a.shape for a in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_enough_for_digits(dtype):
    rng = np.random.default_rng(SEED)
    for kind in range(5):
        arrays = [integers(rng, dtype, shape, kind) for shape in [(70, 1100), (1100, 65), (65, 80)]]
        assert np.array_equal(mmchain.multi_dot(arrays), arrays[0] @ (arrays[1] @ arrays[2]))
        turned = [np.asfortranarray(a) for a in arrays]
        assert np.array_equal(mmchain.multi_dot(turned), arrays[0] @ (arrays[1] @ arrays[2]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_stacks(dtype):
    rng = np.random.default_rng(SEED)
    for size in (3, 60):
        a, b = (integers(rng, dtype, (7, size, size), 0) for _ in "ab")
        c = integers(rng, dtype, (size, 5), 0)
        assert np.array_equal(mmchain.multi_dot([a, b, c]), a @ b @ c)
    powers = integers(rng, dtype, (6, 6), 0)
    assert np.array_equal(mmchain.multi_dot([powers] * 9), np.linalg.matrix_power(powers, 9))


def test_byte_order_and_out():
    rng = np.random.default_rng(SEED)
    arrays = [integers(rng, "int32", (9, 9), 0) for _ in range(3)]
    want = np.linalg.multi_dot(arrays)
    assert np.array_equal(mmchain.multi_dot([a.astype(">i4") for a in arrays]), want)
    out = np.empty((9, 9), np.int32)
    assert mmchain.multi_dot(arrays, out=out) is out and np.array_equal(out, want)
    # One whose bytes are the other way around is none of another dtype, of which NumPy takes no such out.
    row, out = arrays[0][0], np.empty(9, np.int32)
    assert np.array_equal(mmchain.multi_dot([row, arrays[1].astype(">i4"), arrays[2]], out=out), want[0])
    assert np.array_equal(out, want[0])


def test_mixed_are_promoted_pair_by_pair():
    rng = np.random.default_rng(SEED)
    for dtypes in [("int8", "int8", "int64"), ("bool", "uint8", "int16"), ("int64", "float64", "int8")]:
        arrays = [integers(rng, d, (6, 6), 1) if d != "float64" else rng.random((6, 6)) for d in dtypes]
        got, want = mmchain.multi_dot(arrays), np.linalg.multi_dot(arrays)
        assert got.dtype == want.dtype and np.array_equal(got, want)


def check_mod(rng, turn):
    dtype = DTYPES[int(rng.integers(0, 8))]
    arrays = random_chain(rng, dtype, 12 if turn % 10 else 60)
    mod = int(rng.choice(PRIMES)) if rng.random() < 0.5 else random.Random(turn).randint(1, 2**63 - 1)
    if turn % 7 == 0:
        mod = 1 + random.Random(turn).randint(0, 2 ** (turn % 62))
    got = mmchain.multi_dot(arrays, mod=mod, device=["blas", "ref"][turn % 10 == 5])
    assert got.dtype == (np.uint64 if dtype == "uint64" else np.int64)
    assert np.array_equal(np.asarray(got).astype(object), exact(arrays, mod)), (turn, dtype, mod)


def test_mod_is_that_of_pythons_integers():
    rng = np.random.default_rng(SEED)
    for turn in range(100000 if LONG else 1500):
        check_mod(rng, turn)


def test_powers_mod():
    fibonacci = np.array([[1, 1], [1, 0]])
    a, b = 0, 1
    for _ in range(1000):
        a, b = b, (a + b) % (10**9 + 7)
    assert mmchain.multi_dot([fibonacci] * 1000, mod=10**9 + 7)[0, 1] == a
    p = mmchain.plan("i64%1000000007:2x2^1000")
    assert len(p.steps) < 20 and p.execute([fibonacci] * 1000)[0, 1] == a


class Counted(int):
    """An integer that counts the products it is in."""

    products = 0

    def __mul__(self, other):
        Counted.products += 1
        return Counted(int(self) * int(other))

    def __add__(self, other):
        return Counted(int(self) + int(other))


@pytest.mark.parametrize("n", [2, 3, 7, 40, 64])
def test_powers_of_objects_are_by_squaring(n):
    a = np.array([[Counted(3), Counted(1)], [Counted(1), Counted(2)]], object)
    Counted.products = 0
    product = mmchain.multi_dot([a] * n)
    assert Counted.products <= 8 * 2 * np.log2(n)
    assert product.dtype == object and (product == exact([a] * n)).all()
    stack = np.array([a, a.T])
    assert (mmchain.multi_dot([stack] * n)[1] == product.T).all()
    assert (mmchain.multi_dot([a[0]] + [a] * n) == exact([a[0]] + [a] * n)).all()
    assert mmchain.multi_dot([a[0], a[0]]) == 10


def check_checked(rng, turn):
    dtype = DTYPES[int(rng.integers(0, 8))]
    arrays = random_chain(rng, dtype, 12 if turn % 10 else 60)[:2]
    if arrays[0].shape[-1] != arrays[1].shape[0]:
        return 0
    want = exact(arrays)
    info = np.iinfo(dtype)
    try:
        got = mmchain.multi_dot(arrays, checked=True, device=["blas", "ref"][turn % 10 == 5])
    except OverflowError as error:
        assert np.min(want) < info.min or np.max(want) > info.max, (turn, dtype)
        assert "factors 1 to 2" in str(error)
        return 1
    assert got.dtype == dtype and np.array_equal(np.asarray(got).astype(object), want), (turn, dtype)
    return 0


def test_checked_raises_where_integers_do_not_fit():
    rng = np.random.default_rng(SEED)
    turns = 20000 if LONG else 1000
    raised = sum(check_checked(rng, turn) for turn in range(turns))
    assert turns // 10 < raised < turns


def test_what_becomes_an_array(tmp_path):
    a = np.arange(9).reshape(3, 3)
    np.save(tmp_path / "a.npy", a)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for same in (mapped, np.ma.array(a), memoryview(a), a.tolist()):
        for result in (mmchain.multi_dot([same, a], mod=7), mmchain.multi_dot([same, a], checked=True) % 7):
            assert type(result) is np.ndarray and np.array_equal(result, a @ a % 7)
        greatest = mmchain.multi_dot([same, a], semiring="max-plus")
        assert np.array_equal(greatest, (a[:, :, None] + a[None]).max(1))


def test_arrays_of_the_dtype_of_their_product_are_not_looked_at(monkeypatch):
    monkeypatch.setattr("mmchain._numpy.multiply_integers", None)
    rng = np.random.default_rng(SEED)
    for dtype, options in (("int64", {"mod": 97}), ("uint64", {"mod": 97}), ("int8", {"checked": True})):
        a, b = (rng.integers(0, 5, (4, 4)).astype(dtype) for _ in range(2))
        product = mmchain.multi_dot([a, b.T], **options)
        assert product.dtype == dtype
        np.testing.assert_array_equal(product, a @ b.T % 97)


def test_the_last_that_fits():
    for dtype in ("int32", "int64", "uint64", "int8"):
        info = np.iinfo(dtype)
        for size in (2, 80):
            a, b = np.zeros((size, size), dtype), np.eye(size, dtype=dtype)
            a[0, 0] = a[1, 1] = info.max
            a[0, 1] = info.min
            assert np.array_equal(mmchain.multi_dot([a, b], checked=True), a)
            b[1, 0] = 1
            if info.min:  # max + min fits, though partial sums of digits do not
                assert np.array_equal(mmchain.multi_dot([a, b], checked=True)[0, 0], -1)
            b[0, 0], b[1, 0] = 2, 0
            with pytest.raises(OverflowError, match=f"{np.dtype(dtype).kind}{8 * info.dtype.itemsize}"):
                mmchain.multi_dot([a, b], checked=True)


def test_bad_arguments():
    ones = np.ones((2, 2), int)
    for mod in (0, -3, 2**63):
        with pytest.raises(ValueError, match="mod: expected 1"):
            mmchain.multi_dot([ones, ones], mod=mod)
    with pytest.raises(TypeError):
        mmchain.multi_dot([ones, ones], mod=2.5)
    with pytest.raises(ValueError, match="checked"):
        mmchain.multi_dot([ones, ones], mod=5, checked=True)
    with pytest.raises(TypeError, match="integers with mod, got float64"):
        mmchain.multi_dot([ones, ones * 0.5], mod=5)
    with pytest.raises(TypeError, match="uint64 everywhere"):
        mmchain.multi_dot([ones, ones.astype("uint64")], mod=5)
    with pytest.raises(TypeError, match="uint64 everywhere"):
        mmchain.multi_dot([ones, ones.astype("uint64")], checked=True)
    with pytest.raises(TypeError, match="integers with mod, got bool"):
        mmchain.multi_dot([ones, ones > 0], mod=5)
    with pytest.raises(TypeError, match="arrays: expected no masked array"):
        mmchain.multi_dot([np.ma.array(ones, mask=ones > 0), ones], checked=True)
    with pytest.raises(ValueError, match="^mod: expected 1 to 128"):
        mmchain.plan("i8%129:2x2x2")
    for array in (ones * 0.5, ones > 0):
        with pytest.raises(ValueError, match="^mod: expected a dtype of integers with it, got (f64|bool)"):
            mmchain.plan([array, array], mod=97)
    with pytest.raises(ValueError, match="position"):
        mmchain.plan("i64%0:2x2x2")


def test_plans():
    p = mmchain.plan([np.ones((3, 4), np.int16), np.ones((4, 2), np.int16)])
    assert p.chain == "i16:3x4x2"
    assert p.execute([np.ones((3, 4), np.int8), np.ones((4, 2), bool)]).dtype == np.int16
    with pytest.raises(TypeError, match="expected i16 as planned, got int32"):
        p.execute([np.ones((3, 4), np.int32), np.ones((4, 2), np.int32)])
    assert mmchain.plan([(3, 4), (4, 2)], dtype="uint8", checked=True).chain == "u8!:3x4x2"
    for kind, name in (("int8", "i64"), ("uint16", "i64"), ("uint64", "u64")):
        a = np.full((3, 3), 100, kind)
        p = mmchain.plan([a, a], mod=10**9 + 7)
        assert p.chain == f"{name}%1000000007:3x3^2"
        result = p.execute([a, a])
        assert result.dtype == mmchain.multi_dot([a, a], mod=10**9 + 7).dtype and (result == 30000).all()
    assert mmchain.plan([a, a], dtype="int8", mod=97).chain == "i8%97:3x3^2"
    p = mmchain.plan([(3, 4), (4, 3)], dtype=np.int64, mod=97)
    assert p.chain == "i64%97:3x4x3"
    stack = np.arange(24).reshape(2, 3, 4)
    assert np.array_equal(p.execute([stack, stack.swapaxes(1, 2)]), stack @ stack.swapaxes(1, 2) % 97)


def test_many_chains_of_hostile_magnitudes():
    """Small chains of elements at the ends of their dtype against Python's integers, wrapped around and
    modulo primes and any numbers; 10^5 of them in a long run."""
    rng = random.Random(SEED)
    for _ in range(100000 if LONG else 500):
        n = rng.randint(2, 5)
        dims = [rng.randint(1, 6) for _ in range(n + 1)]
        signed, bits = rng.random() < 0.7, rng.choice([8, 16, 32, 64])
        least = -(1 << bits - 1) if signed else 0
        most = least + (1 << bits) - 1
        ends = [least, least + 1, 0, 1, most - 1, most]

        def draw():
            return rng.choice(ends) if rng.random() < 0.4 else rng.randint(least, most)

        factors = [[[draw() for _ in range(c)] for _ in range(r)] for r, c in zip(dims, dims[1:])]
        exact = factors[0]
        for factor in factors[1:]:
            columns = list(zip(*factor))
            exact = [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in exact]
        arrays = [np.array(factor, f"{'i' if signed else 'u'}{bits // 8}") for factor in factors]
        wrapped = [[(x - least) % (1 << bits) + least for x in row] for row in exact]
        assert mmchain.multi_dot(arrays).tolist() == wrapped, (SEED, arrays)
        modulus = rng.choice(PRIMES + [rng.randint(1, 2**63 - 1)])
        residues = [[x % modulus for x in row] for row in exact]
        assert mmchain.multi_dot(arrays, mod=modulus).tolist() == residues, (SEED, modulus, arrays)
