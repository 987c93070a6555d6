"""Chains with sparse factors, against the same chains of dense ones."""

import numpy as np
import pytest

import mmchain

sp = pytest.importorskip("scipy.sparse")
KINDS = ["csr", "csc", "coo"]


def draw(rng, rows, columns, dtype, density, kind):
    a = sp.random(rows, columns, density, format=kind, random_state=int(rng.integers(2**31)))
    a = (a * (1 + 2j) if np.dtype(dtype).kind == "c" else a).astype(dtype)
    return sp.csr_array(a) if rng.random() < 0.3 else a.asformat(kind)


def plain(factor):
    return factor.toarray() if sp.issparse(factor) else factor


def product(factors):
    result = plain(factors[0])
    for factor in factors[1:]:
        result = result @ plain(factor)
    return result


@pytest.mark.parametrize("seed", range(200))
def test_random_chains(seed):
    rng = np.random.default_rng(seed)
    dims = rng.integers(0, 50, rng.integers(2, 7))
    factors = []
    for rows, columns in zip(dims, dims[1:]):
        dtype, density = rng.choice(list("fdFD")), rng.choice([0.01, 0.1, 0.6])
        factor = draw(rng, rows, columns, dtype, density, rng.choice(KINDS))
        if factors and rng.random() < 0.3:
            factor = np.asarray(factor.toarray(), order=rng.choice(["C", "F"]))
        factors.append(factor)
    if rng.random() < 0.2 and len(factors) > 1:
        factors[-1] = rng.random(dims[-2])
    result, wanted = mmchain.multi_dot(factors, objective=rng.choice(["flops", "time"])), product(factors)
    assert sp.issparse(result) == all(sp.issparse(factor) for factor in factors)
    if sp.issparse(result):
        result.check_format()
        assert result.has_canonical_format
    result = plain(result)
    assert result.dtype == wanted.dtype and result.shape == wanted.shape
    single = any(plain(factor).dtype.char in "fF" for factor in factors)
    np.testing.assert_allclose(result, wanted, rtol=1e-4 if single else 1e-11, atol=1e-3 if single else 1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_diagonal_factors(seed):
    """Which scale rows and columns and leave the nonzeros where they are, also beside several others."""
    rng = np.random.default_rng(seed)
    dims, factors = [int(rng.integers(1, 60))], []
    for i in range(rng.integers(2, 7)):
        if i == seed % 3 or rng.random() < 0.2:
            dims.append(int(rng.integers(1, 60)))
            factors.append(draw(rng, *dims[-2:], "d", 0.1, "csr"))
        else:
            factors.append(sp.diags(rng.random(dims[-1]) - 0.5, format=rng.choice(KINDS)))
    result, wanted = mmchain.multi_dot(factors), product(factors)
    assert result.has_canonical_format
    np.testing.assert_allclose(result.toarray(), wanted, rtol=1e-11, atol=1e-12)


def test_nonzeros_between_diagonal_factors_are_known():
    g = sp.random(3000, 2500, 0.002, format="csr", random_state=1)
    left, right = (sp.diags(np.arange(1.0, n + 1), format="csr") for n in g.shape)
    for chain in ([left, g, right], [left, left, g], [g, right, right, right]):
        last = mmchain.sparse_plan(chain).strip().splitlines()[-1]
        assert last.split()[-2] == str(g.nnz)


def test_kinds_of_results():
    s = sp.random(30, 40, 0.1, format="csr", random_state=1)
    assert type(mmchain.multi_dot([s, s.T])) is sp.csr_matrix
    assert type(mmchain.multi_dot([sp.csr_array(s), s.T])) is sp.csr_array
    x = np.ones(40)
    np.testing.assert_allclose(mmchain.multi_dot([s, x]), s @ x)
    assert np.isscalar(mmchain.multi_dot([np.ones(30), s, x]))
    out = np.empty((30, 2))
    assert mmchain.multi_dot([s, np.ones((40, 2))], out=out) is out
    np.testing.assert_allclose(out, s @ np.ones((40, 2)))
    assert mmchain.multi_dot([s.astype(int), s.T]).dtype == np.float64  # as NumPy promotes them


def test_what_is_wrong():
    s = sp.random(30, 40, 0.1, format="csr", random_state=1)
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([s, s])
    with pytest.raises(ValueError, match="out"):
        mmchain.multi_dot([s, s.T], out=np.empty((30, 30)))
    with pytest.raises(ValueError, match="objective"):
        mmchain.multi_dot([s, s.T], objective="energy")
    with pytest.raises(TypeError, match="sparse_plan"):
        mmchain.plan([s, s.T])
    with pytest.raises(TypeError, match="sparse"):
        mmchain.sparse_plan([np.eye(3), np.eye(3)])
    broken = s.copy()
    broken.indices = broken.indices.copy()
    broken.indices[3] = 77
    with pytest.raises(ValueError, match="indices from 0 to 39, got 77"):
        mmchain.multi_dot([broken, s.T])


def test_plan():
    s = sp.random(1000, 1000, 0.01, format="csr", random_state=1)
    text = mmchain.sparse_plan([s, s.T, s[:, :1]])
    assert "(A1 (A2 A3))" in text


def test_torch():
    torch = pytest.importorskip("torch")
    s = sp.random(30, 40, 0.1, format="csr", random_state=1)
    tensors = {
        "csr": torch.sparse_csr_tensor(s.indptr, s.indices, s.data, size=s.shape, dtype=torch.float64),
        "coo": torch.from_numpy(s.toarray()).to_sparse_coo(),
        "csc": torch.from_numpy(s.toarray()).to_sparse_csc(),
    }
    for t in tensors.values():
        result = mmchain.multi_dot([t, torch.from_numpy(s.T.toarray()).to_sparse_csr()])
        assert result.layout is torch.sparse_csr
        # Layouts are looked at from the first such tensor on; strided ones are read as before.
        dense = t.to_dense()
        assert torch.allclose(mmchain.multi_dot([dense, dense.mT]), dense @ dense.mT)
        np.testing.assert_allclose(result.to_dense().numpy(), (s @ s.T).toarray())
        x = torch.ones(40, dtype=torch.float64)
        np.testing.assert_allclose(mmchain.multi_dot([t, x]).numpy(), s @ np.ones(40))
    with pytest.raises(TypeError, match="gradients"):
        mmchain.multi_dot([tensors["csr"], torch.ones(40, 2, dtype=torch.float64, requires_grad=True)])


@pytest.mark.parametrize("objective", ["time", "flops"])
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_inverses_of_dense_factors(dtype, objective):
    """Inverses of dense factors and of groups stand beside sparse ones, on both sides and alone in a group."""
    rng = np.random.default_rng(11)
    side = 23

    def random(*shape):
        a = rng.uniform(-1, 1, shape)
        return (a + 1j * rng.uniform(-1, 1, shape) if dtype in "FD" else a).astype(dtype)

    s = sp.csr_matrix(np.where(rng.random((side, side)) < 0.2, random(side, side), 0).astype(dtype))
    g = random(side, side) / side + 2 * np.eye(side, dtype=dtype)
    h = g @ g.conj().T
    low = np.tril(g)
    x = random(side, 3)
    inverse = np.linalg.inv
    regular = sp.csr_matrix(s + 3 * sp.identity(side, dtype=dtype))
    chains = [
        ([mmchain.inv(g), s], inverse(g) @ s.toarray()),
        ([s, mmchain.inv(g)], s.toarray() @ inverse(g)),
        ([s, mmchain.inv(mmchain.spd(h)), s, x], s @ (inverse(h) @ (s @ x))),
        ([x.T, s, mmchain.inv(mmchain.lower(low)).T, s], x.T @ s.toarray() @ inverse(low).T @ s.toarray()),
        ([s, mmchain.inv(mmchain.lower(np.asfortranarray(low)).H), x], s @ (inverse(low).conj().T @ x)),
        ([mmchain.inv(g), mmchain.inv(low), s], inverse(g) @ inverse(low) @ s.toarray()),
        ([mmchain.inv([regular, g]), x], inverse(regular.toarray() @ g) @ x),
        ([s, mmchain.inv([h, g]), x[:, 0]], s @ (inverse(h @ g) @ x[:, 0])),
        ([s, mmchain.inv([g]), x], s @ (inverse(g) @ x)),
        ([s, mmchain.inv([mmchain.inv(mmchain.lower(low).T)]), x], s @ (low.T @ x)),
    ]
    for factors, expected in chains:
        try:
            product = mmchain.multi_dot(factors, objective=objective)
        except NotImplementedError:
            pytest.skip("no LAPACK")
        assert product.shape == expected.shape and product.dtype == np.dtype(dtype)
        tolerance = 3000 * np.finfo(dtype).eps * max(1, np.abs(expected).max())
        assert np.abs(product - expected).max() <= tolerance
    assert "inverted: A2" in mmchain.sparse_plan([s, mmchain.inv(g), x])


def test_what_is_not_aligned():
    s = sp.random(30, 40, 0.1, format="csr", random_state=1)
    x = np.random.default_rng(2).random((40, 3))
    moved = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    moved[...] = x
    np.testing.assert_array_equal(mmchain.multi_dot([s, moved]), mmchain.multi_dot([s, x]))


def test_inverses_that_are_not_there():
    s = sp.identity(5, format="csr")
    singular = np.diag([1.0, 2, 0, 4, 5])
    with pytest.raises(np.linalg.LinAlgError, match="factor 2 is singular: pivot 3 is zero"):
        mmchain.multi_dot([s, mmchain.inv(singular)])
    with pytest.raises(np.linalg.LinAlgError, match="factor 1 is not positive definite: pivot 3"):
        mmchain.multi_dot([mmchain.inv(mmchain.spd(singular)), s])
    with pytest.raises(TypeError, match="nothing said of a sparse factor: give a dense one"):
        mmchain.lower(s)
    with pytest.raises(np.linalg.LinAlgError, match="factor 1 is singular"):
        mmchain.multi_dot([mmchain.inv(sp.csr_matrix(singular)), s])


@pytest.mark.parametrize("kind", KINDS)
def test_inverses_of_sparse_matrices(kind):
    rng = np.random.default_rng(13)
    s = (sp.random(30, 30, 0.2, random_state=13) + 3 * sp.identity(30)).asformat(kind)
    x, exact = rng.standard_normal((30, 4)), np.linalg.inv(s.toarray())
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv(s), x]), exact @ x, atol=1e-12)
    np.testing.assert_allclose(mmchain.multi_dot([x.T, mmchain.inv(s), s]), x.T, atol=1e-12)
    both = mmchain.multi_dot([mmchain.inv([s.T, mmchain.inv(s)]), x])
    np.testing.assert_allclose(both, s @ (exact.T @ x), atol=1e-11)


def test_stacks_beside_sparse_factors():
    rng = np.random.default_rng(12)
    s = sp.random(7, 9, 0.4, format="csr", random_state=1)
    x, y = rng.random((4, 1, 9, 3)), rng.random((5, 3, 7))
    product = mmchain.multi_dot([s, x, y, s])
    np.testing.assert_allclose(product, s.toarray() @ x @ y @ s.toarray(), rtol=1e-12)
    assert product.shape == (4, 5, 7, 9)
    np.testing.assert_allclose(mmchain.multi_dot([x[:, 0], y[0], s, np.ones(9)]), x[:, 0] @ y[0] @ (s @ np.ones(9)))
    assert mmchain.multi_dot([s, x[:0]]).shape == (0, 1, 7, 3)
    with pytest.raises(ValueError):
        mmchain.multi_dot([s, rng.random((2, 9, 3)), rng.random((3, 3, 4))])


def test_integers_keep_their_bits():
    large = np.array([[2**53 + 1, 0, 3], [0, 1, 0]])
    dense = np.arange(9).reshape(3, 3)
    for kind in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        s, vector = kind(large), np.arange(3)
        for factors in ([s, dense], [s, dense, vector], [vector, s.T, s], [s.T, s], [s, s.T, s, dense]):
            plain = [f.toarray() if sp.issparse(f) else f for f in factors]
            result = mmchain.multi_dot(factors)
            assert sp.issparse(result) == all(map(sp.issparse, factors))
            assert result.dtype == np.int64
            result = result.toarray() if sp.issparse(result) else result
            np.testing.assert_array_equal(result, np.linalg.multi_dot(plain))
    out = np.empty((2, 3), int)
    assert mmchain.multi_dot([s, dense], out=out) is out
    np.testing.assert_array_equal(out, large @ dense)
    assert mmchain.multi_dot([s.astype(bool), dense.astype(bool)]).dtype == bool
    with pytest.raises(TypeError, match="stacks of integers"):
        mmchain.multi_dot([s, np.ones((4, 3, 3), int)])
    with pytest.raises(ValueError, match="^out: "):
        mmchain.multi_dot([s, dense], out=[1])


@pytest.mark.parametrize("kind", KINDS)
def test_integers_of_every_format(kind):
    """Also where SciPy's own products of the format have another shape, or none, and the result is in order."""
    ones, row = np.ones((2, 1), int), np.array([3, 4])
    for factors in ([row, ones, np.ones(1, int)], [row, np.eye(2, dtype=int), ones], [np.zeros((2, 3), int), np.eye(3, dtype=int)]):
        for sparse in ([1], [len(factors) - 2, 1], range(len(factors))):
            made = [sp.coo_array(f).asformat(kind) if i in sparse and f.ndim > 1 else f for i, f in enumerate(factors)]
            result = mmchain.multi_dot(made)
            result = result.toarray() if sp.issparse(result) else result
            want = np.linalg.multi_dot(factors)
            assert np.shape(result) == want.shape and np.array_equal(result, want)
    s = sp.random(30, 40, 0.2, format="csr", random_state=1).astype(bool).astype(int)
    assert mmchain.multi_dot([s.asformat(kind), s.T]).has_canonical_format


def test_integers_of_tensors_are_refused():
    torch = pytest.importorskip("torch")
    s = torch.eye(3, dtype=torch.int64).to_sparse_csr()
    with pytest.raises(TypeError, match="floating-point"):
        mmchain.multi_dot([s, s])


@pytest.mark.parametrize("dtype", "fdFD")
def test_every_number_of_columns(dtype):
    rng = np.random.default_rng(1)
    for kind in ("csr", "csc"):
        a = draw(rng, 20, 30, dtype, 0.2, kind)
        for columns in range(1, 19):
            x = rng.random((30, columns)).astype(dtype)
            np.testing.assert_allclose(mmchain.multi_dot([a, x]), plain(a) @ x, rtol=1e-4)


def test_what_stands_there_again_is_converted_once(monkeypatch):
    a = draw(np.random.default_rng(2), 20, 20, "d", 0.2, "coo")
    wanted, conversions, to_csr = plain(a) @ plain(a) @ plain(a) @ np.ones(20), [], type(a).tocsr
    monkeypatch.setattr(type(a), "tocsr", lambda self: conversions.append(self) or to_csr(self))
    np.testing.assert_allclose(mmchain.multi_dot([a, a, a, np.ones(20)]), wanted)
    assert len(conversions) == (a.format == "coo")


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_damaged_matrices_are_refused(index):
    for indptr, indices, name in [
        ([0, 2, 1, 3], [0, 1, 2], "indptr"),
        ([1, 1, 2, 3], [0, 1, 2], "indptr"),
        ([0, 1, 2, 3], [0, -1, 2], "indices"),
        ([0, 1, 2, 3], [0, 3, 2], "indices"),
    ]:
        a = sp.csr_matrix(np.eye(3))
        a.indptr, a.indices = np.array(indptr, index), np.array(indices, index)
        with pytest.raises(ValueError, match=f"expected {name}"):
            mmchain.multi_dot([a, np.ones((3, 2))])
