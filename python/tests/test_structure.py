"""Factors with structure, against NumPy."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.linalg import LinAlgError, inv

import mmchain

rng = np.random.default_rng(22)


def matrix(rows, columns, dtype="float64"):
    a = rng.standard_normal((rows, columns)) / np.sqrt(columns)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal((rows, columns)) / np.sqrt(columns)
    return (a + 2 * np.eye(rows, columns)).astype(dtype)


def claimed(kind, n, dtype):
    a = matrix(n, n, dtype)
    if kind == "lower":
        return mmchain.lower(np.tril(a))
    if kind == "upper":
        return mmchain.upper(np.triu(a))
    if kind == "diagonal":
        return mmchain.diagonal(np.diag(a).copy())
    if kind == "symmetric":
        return mmchain.symmetric(a + a.T)
    if kind == "hermitian":
        return mmchain.hermitian(a + a.conj().T)
    if kind == "spd":
        return mmchain.spd(a @ a.conj().T)
    if kind == "tridiagonal":
        return mmchain.tridiagonal(np.triu(np.tril(a, 1), -1))
    if kind == "banded":
        return mmchain.banded(np.triu(np.tril(a, 2), -3), 3, 2)
    if kind == "banded lower":
        return mmchain.lower(mmchain.banded(np.triu(np.tril(a), -2), 2, 7))
    if kind == "banded spd":
        return mmchain.banded(mmchain.spd(np.triu(np.tril(a + a.conj().T, 2), -2)), 2, 2)
    if kind == "orthogonal":
        return mmchain.orthogonal(np.linalg.qr(a)[0])
    if kind == "permutation":
        return mmchain.permutation(np.eye(n, dtype=dtype)[rng.permutation(n)])
    return mmchain.Factor(a)


BANDED = ["tridiagonal", "banded", "banded lower", "banded spd"]
KINDS = ["general", "lower", "upper", "diagonal", "symmetric", "hermitian", "spd", "orthogonal", "permutation", *BANDED]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def value(factor):
    a = {"N": factor.array, "T": factor.array.T, "H": factor.array.conj().T}[factor.op]
    return inv(a) if factor.inverse else a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_on_both_sides(kind, dtype):
    for n, inverse, op in itertools.product((1, 2, 33), (False, True), "NTH"):
        f = claimed(kind, n, dtype)
        f = {"N": f, "T": f.T, "H": f.H}[op]
        f = mmchain.inv(f) if inverse else f
        a, b = matrix(n, 7, dtype), matrix(5, n, dtype)
        tolerance = 1e-3 if np.dtype(dtype).itemsize // (2 if dtype[0] == "c" else 1) == 4 else 1e-11
        for given, wanted in (([f, a], value(f) @ a), ([b, f], b @ value(f)), ([b, f, a], b @ value(f) @ a)):
            result = mmchain.multi_dot(given)
            assert result.dtype == np.dtype(dtype)
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance * 50)


def test_normal_equations():
    x, y = matrix(200, 20), rng.standard_normal(200)
    b = mmchain.multi_dot([mmchain.inv([x.T, x]), x.T, y])
    assert b.shape == (20,)
    np.testing.assert_allclose(b, np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-9, atol=1e-9)
    plan = mmchain.plan([mmchain.inv([x.T, x]), x.T, y], objective="flops")
    assert [step.kernel for step in plan.steps] == ["syrk", "gemm", "posv"]


def test_an_array_beside_itself_transposed():
    a, b = matrix(300, 400), matrix(300, 20)
    np.testing.assert_allclose(mmchain.multi_dot([a, a.T]), a @ a.T, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(mmchain.multi_dot([a, a.T, b]), a @ a.T @ b, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(mmchain.multi_dot([b.T, a, a.T, b]), b.T @ a @ a.T @ b, rtol=1e-10, atol=1e-9)
    out = np.empty((300, 300))
    assert mmchain.multi_dot([a, a.T], out=out) is out
    np.testing.assert_allclose(out, a @ a.T, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_out_may_be_a_factor(place):
    """As of arrays of which nothing is said; those are here, one beside itself transposed, and large enough."""
    for make in (lambda a, b: [a, a.T, b], lambda a, b: [mmchain.lower(np.tril(a)), a, b]):
        a, b = matrix(250, 250), matrix(250, 250)
        factors = make(a, b)
        wanted = np.linalg.multi_dot([value(f) if isinstance(f, mmchain.Factor) else f for f in factors])
        out = [a, b, matrix(250, 250)][place]
        assert mmchain.multi_dot(factors, out=out) is out
        np.testing.assert_allclose(out, wanted, rtol=1e-10, atol=1e-10)


def test_parts_of_complex_arrays_are_no_factors_that_repeat():
    """The real part begins where its array does, with the same strides."""
    a = matrix(6, 6, "complex128")
    a += a.conj().T
    b = np.diag([-1, 2, -3])
    for factors in (
        [mmchain.hermitian(a), a.real],
        [mmchain.symmetric(a.real), a, a.imag],
        [a.real.T, mmchain.inv(mmchain.hermitian(a)), a],
        [mmchain.diagonal(b), b.view(np.uint64)],
    ):
        wanted = np.linalg.multi_dot([value(f) if isinstance(f, mmchain.Factor) else f for f in factors])
        for _ in range(2):
            np.testing.assert_allclose(mmchain.multi_dot(factors), wanted, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mmchain.plan(factors).execute(factors), wanted, rtol=1e-9, atol=1e-9)


def test_an_inverse_alone():
    for kind in KINDS:
        f = claimed(kind, 20, "float64")
        np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv(f)]), inv(f.array), rtol=1e-10, atol=1e-10)
    a, b = matrix(9, 9), matrix(9, 9)
    np.testing.assert_allclose(
        mmchain.multi_dot([mmchain.inv([a, mmchain.inv(b)])]), b @ inv(a), rtol=1e-10, atol=1e-10
    )


def kernels_of(*factors):
    return [step.kernel for step in mmchain.plan(list(factors), objective="flops").steps]


def test_kernels_of_bands_and_permutations():
    a = matrix(90, 8)
    assert kernels_of(claimed("tridiagonal", 90, "float64"), a) == ["band"]
    assert kernels_of(mmchain.banded(matrix(90, 90), 40, 30), a) == ["blocks"]
    assert kernels_of(mmchain.lower(matrix(90, 90)), mmchain.lower(matrix(90, 90))) == ["trtrmm"]
    assert kernels_of(claimed("permutation", 90, "float64"), a) == ["permute"]
    assert kernels_of(mmchain.inv(claimed("permutation", 90, "float64")), a) == ["permute"]
    assert kernels_of(mmchain.inv(claimed("orthogonal", 90, "float64")), a) == ["gemm"]
    assert kernels_of(mmchain.inv(claimed("tridiagonal", 90, "float64")), a) == ["gtsv"]
    assert kernels_of(mmchain.inv(claimed("banded", 90, "float64")), a) == ["gbsv"]
    assert kernels_of(mmchain.inv(claimed("banded spd", 90, "float64")), a) == ["pbsv"]
    assert kernels_of(mmchain.inv(claimed("banded lower", 90, "float64")), a) == ["tbsv"]


def test_a_permutation_by_its_index():
    index, a = rng.permutation(50), matrix(50, 4).astype("float32")
    p = mmchain.permutation(index)
    result = mmchain.multi_dot([p, a])
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, a[index])
    np.testing.assert_array_equal(mmchain.multi_dot([mmchain.inv(p), a])[index], a)
    np.testing.assert_array_equal(mmchain.multi_dot([p.T, p, a.astype("float64")]), a)
    for wrong in ([0, 0, 1], [1, 2, 3], [0.5, 1]):
        with pytest.raises(ValueError, match="permutation: expected the numbers 0 to"):
            mmchain.permutation(wrong)


def lines_of(factors, objective="time"):
    plan = mmchain.plan(factors, objective=objective)
    return [plan._takes_line(i) for i in range(len(factors))]


def chains_of_lines(dtype):
    """Chains of diagonals and indices, and the same of matrices."""
    n = 70
    d, e = mmchain.diagonal(rng.uniform(1, 2, n).astype(dtype)), mmchain.diagonal(matrix(1, n, dtype)[0] + 3)
    p, q = (mmchain.permutation(rng.permutation(n)) for _ in range(2))
    a, b = matrix(n, 7, dtype), mmchain.lower(np.tril(matrix(n, n, dtype)))
    inverse = mmchain.inv
    for factors in (
        [p, a], [a.T, p], [p.T, a[:, 0]], [a[:, 0], q], [inverse(p), q.H, a], [d, a], [a.T, d.H], [inverse(e), a],
        [a.T, inverse(e.H), e, p, a], [d, p, d.T, p.T, a], [p, d], [d, b, p, a], [p, p, p], [inverse([p, d]), a],
        [d, inverse([e, b, p]), a], [mmchain.low_rank(a, a.T), p, a], [d], [inverse(d)], [p.T],
    ):
        yield factors, whole(factors)


def whole(items):
    if isinstance(items, list):
        return [whole(item) for item in items]
    if isinstance(items, mmchain.Factor):
        return mmchain.Factor(items.array, items.words, items.op, items.inverse)
    return mmchain.inv(whole(items.factors)) if type(items).__name__ == "Group" else items


@pytest.mark.parametrize("dtype", DTYPES)
def test_diagonals_and_indices_are_the_matrices_of_which_they_are(dtype):
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-12
    for factors, matrices in chains_of_lines(dtype):
        wanted = mmchain.multi_dot(matrices)
        plan = mmchain.plan(factors)
        out = np.empty_like(wanted)
        results = [mmchain.multi_dot(factors) for _ in range(2)]
        results += [mmchain.multi_dot(factors, out=out), plan.execute(factors), plan.execute(matrices)]
        for result in results:
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance * abs(wanted).max())


def test_no_matrix_is_made_of_an_index_or_a_diagonal():
    n = 1 << 17  # of which a matrix has 2^34 elements
    index, a, d = rng.permutation(n), rng.random((n, 2)), rng.random(n)
    p, scale = mmchain.permutation(index), mmchain.diagonal(d)
    assert p.shape == (n, n) and lines_of([p, scale, a]) == [True, True, False]
    np.testing.assert_array_equal(mmchain.multi_dot([p, scale, a]), (d[:, None] * a)[index])
    np.testing.assert_array_equal(mmchain.multi_dot([p.T, p, a]), a)
    assert not p._made and not scale._made


def test_a_diagonal_is_as_it_was_when_it_was_said():
    for n in (3, 70):
        d = np.arange(n) - 1.0
        factor = mmchain.diagonal(d)
        d[:] = 7
        np.testing.assert_array_equal(mmchain.multi_dot([factor, np.ones(n)]), np.arange(n) - 1)
        np.testing.assert_array_equal(factor.array, np.diag(np.arange(n) - 1.0))
        with pytest.raises(LinAlgError, match="factor 1 is singular: pivot 2 is zero"):
            mmchain.multi_dot([mmchain.inv(factor), np.ones(n)])


def test_a_row_alone_is_no_diagonal():
    d, x = mmchain.diagonal(np.arange(70.0)), np.ones((70, 2))
    plan = mmchain.plan([d, x])
    with pytest.raises(ValueError):
        plan.execute([np.ones((1, 70)), x])
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([d, np.ones((4, 2))])


def test_low_rank():
    u, v, a = matrix(300, 3), matrix(3, 200), matrix(200, 50)
    low = mmchain.low_rank(u, v)
    assert low.shape == (300, 200) and low.T.shape == (200, 300)
    np.testing.assert_allclose(mmchain.multi_dot([low, a]), u @ v @ a, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(mmchain.multi_dot([a.T, low.T, low.H.T]), a.T @ (u @ v).T @ u @ v, rtol=1e-9, atol=1e-9)
    assert [(step.m, step.k, step.n) for step in mmchain.plan([low, a]).steps] == [(3, 200, 50), (300, 3, 50)]
    square = mmchain.low_rank(matrix(6, 8), matrix(8, 6))
    both = square.left.array @ square.right.array
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv(square), u[:6]]), inv(both) @ u[:6], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv([low.T, low, np.eye(200)]), a[:, :0]]).shape, (200, 0))
    with pytest.raises(ValueError, match="factors that meet"):
        mmchain.low_rank(u, a)


def test_what_is_singular_is_named():
    for f in (mmchain.tridiagonal(np.zeros((4, 4))), mmchain.banded(np.zeros((6, 6)), 2, 1)):
        with pytest.raises(LinAlgError, match="factor 1 is singular: pivot 1 is zero"):
            mmchain.multi_dot([mmchain.inv(f), matrix(f.shape[0], 2)])
    with pytest.raises(LinAlgError, match="factor 2 is not positive definite: pivot 1"):
        mmchain.multi_dot([matrix(2, 6), mmchain.inv(mmchain.tridiagonal(mmchain.spd(-np.eye(6))))])
    with pytest.raises(LinAlgError, match="factor 2 is singular: pivot 3 is zero"):
        bad = mmchain.banded(np.diag([1.0, 1, 0, 1, 1]) + np.eye(5, k=-1), 1, 0)
        mmchain.multi_dot([matrix(2, 5), mmchain.inv(bad)])
    a = matrix(6, 6)
    a[2] = 0
    with pytest.raises(LinAlgError, match="factor 1 is singular: pivot"):
        mmchain.multi_dot([mmchain.inv(a), matrix(6, 2)])
    with pytest.raises(LinAlgError, match="factor 2 is not positive definite: pivot 1"):
        mmchain.multi_dot([matrix(2, 6), mmchain.inv(mmchain.spd(-np.eye(6)))])
    d = np.eye(4)
    d[3, 3] = 0
    with pytest.raises(LinAlgError, match="factor 1 is singular: pivot 4 is zero"):
        mmchain.multi_dot([mmchain.inv(mmchain.diagonal(d)), matrix(4, 2)])


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="lower: expected a square matrix"):
        mmchain.lower(matrix(3, 4))
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.multi_dot([mmchain.spd(matrix(3, 3)), matrix(4, 3)])
    with pytest.raises(LinAlgError):
        mmchain.inv(np.arange(3.0))
    with pytest.raises(LinAlgError, match="1-dimensional"):
        mmchain.multi_dot([mmchain.inv([np.arange(3.0)]), np.eye(3)])
    with pytest.raises(TypeError, match="float16"):
        mmchain.multi_dot([mmchain.lower(np.eye(3, dtype="float16")), np.eye(3, dtype="float16")])
    with pytest.raises(ValueError, match="empty"):
        mmchain.inv([])
    with pytest.raises(ValueError, match="banded: expected widths from 0, got -1 and 2"):
        mmchain.banded(np.eye(3), -1, 2)
    with pytest.raises(TypeError, match="below: expected a whole number"):
        mmchain.banded(np.eye(3), 0.5, 2)
    with pytest.raises(ValueError, match="orthogonal: expected a square matrix"):
        mmchain.orthogonal(matrix(3, 4))


def test_layouts_are_read_where_they_lie():
    a, b = np.asfortranarray(matrix(40, 40)), matrix(80, 6)[::2]
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv(a), b]), inv(a) @ b, rtol=1e-10, atol=1e-10)
    c = matrix(80, 80)[::2, ::2]
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv(c), b]), inv(c) @ b, rtol=1e-8, atol=1e-8)
    integers = np.arange(9).reshape(3, 3) + 5 * np.eye(3, dtype=int)
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.inv(integers), np.eye(3)]), inv(integers))


def spd_of(n):
    a = rng.standard_normal((n, n))
    return a @ a.T / n + np.eye(n)


def applications():
    """Ten applications of linear algebra that are chains, among those of Barthels, Copik and Bientinesi (CGO 2018)
    and of Psarras, Barthels and Bientinesi's "The Linear Algebra Mapping Problem" (2019): each as factors for
    mmchain, and as NumPy forms it."""
    n, m, k = 60, 25, 8
    x, y = rng.standard_normal((n, m)), rng.standard_normal(n)
    s, big, w = spd_of(m), spd_of(n), rng.uniform(1, 2, n)
    p, h = spd_of(n), rng.standard_normal((m, n))
    l1, l2 = np.tril(rng.standard_normal((n, n))) + 9 * np.eye(n), np.tril(rng.standard_normal((n, n))) + 9 * np.eye(n)
    l21, l10, a = rng.standard_normal((n, n)), rng.standard_normal((n, k)), rng.standard_normal((n, n)) + 9 * np.eye(n)
    b, t = rng.standard_normal((m, n)), rng.standard_normal((n, k))
    inverse, spd, lower, diagonal = mmchain.inv, mmchain.spd, mmchain.lower, mmchain.diagonal
    yield "least squares", [inverse([x.T, x]), x.T, y], inv(x.T @ x) @ x.T @ y
    yield "generalized least squares", [inverse([x.T, inverse(spd(big)), x]), x.T, inverse(spd(big)), y], (
        inv(x.T @ inv(big) @ x) @ x.T @ inv(big) @ y
    )
    yield "weighted least squares", [inverse([x.T, diagonal(w), x]), x.T, diagonal(w), y], (
        inv(x.T @ np.diag(w) @ x) @ x.T @ np.diag(w) @ y
    )
    yield "Kalman gain", [spd(p), h.T, inverse(spd(s))], p @ h.T @ inv(s)
    yield "blocks of a triangular inverse", [inverse(lower(l2)), l21, inverse(lower(l1)), l10], inv(l2) @ l21 @ inv(l1) @ l10
    yield "step of an interior point", [diagonal(w), b.T, inverse([b, diagonal(w), b.T]), b, y], (
        np.diag(w) @ b.T @ inv(b @ np.diag(w) @ b.T) @ b @ y
    )
    yield "projection", [x, inverse([x.T, x]), x.T, y], x @ inv(x.T @ x) @ x.T @ y
    yield "signal", [inverse(mmchain.Factor(a).T), b.T, b, inverse(a), y], inv(a.T) @ b.T @ b @ inv(a) @ y
    yield "sketch of an inverse", [t, inverse([t.T, a, t]), t.T], t @ inv(t.T @ a @ t) @ t.T
    yield "randomized inversion", [diagonal(w), a.T, t, inverse([t.T, a, diagonal(w), a.T, t]), t.T], (
        np.diag(w) @ a.T @ t @ inv(t.T @ a @ np.diag(w) @ a.T @ t) @ t.T
    )


def test_applications():
    for name, factors, wanted in applications():
        for objective in ("flops", "time"):
            result = mmchain.multi_dot(factors, objective=objective)
            np.testing.assert_allclose(result, wanted, rtol=1e-7, atol=1e-8 * abs(wanted).max(), err_msg=name)


@pytest.mark.parametrize("n", [3, 250])
def test_vectors_beside_twins(n):
    """Twins are sought for a plan of their own where they are large, but not beside a vector."""
    rng = np.random.default_rng(31)
    h, x = rng.standard_normal((n, n + 1)), rng.standard_normal(n + 1)
    y = rng.standard_normal(n)
    for chain in ([h.T, h, x], [x, h.T, h], [y, h, h.T, y], [h, h.T, h, x], [h.T, h, x[:, None]]):
        wanted = np.linalg.multi_dot(chain)
        found = mmchain.multi_dot(chain)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("convert", [lambda a: a.astype(">f8"), np.ndarray.tolist], ids=["swapped", "list"])
def test_stacks_beside_twins(convert):
    """What C does not read goes to Python, which looks for twins too."""
    x, stack = rng.standard_normal((5, 7)), rng.standard_normal((3, 5, 4))
    np.testing.assert_allclose(mmchain.multi_dot([x, x.T, convert(stack)]), x @ x.T @ stack)


def test_plans_take_factors():
    rng = np.random.default_rng(32)
    lower = np.tril(rng.standard_normal((9, 9))) + 9 * np.eye(9)
    x, b = rng.standard_normal((12, 9)), rng.standard_normal((9, 2))
    for chain in ([mmchain.inv(mmchain.lower(lower)), b], [mmchain.inv([x.T, x]), b], [mmchain.lower(lower).T, b]):
        plan, out = mmchain.plan(chain), np.empty((9, 2))
        np.testing.assert_array_equal(plan.execute(chain), mmchain.multi_dot(chain))
        assert plan.execute(chain, out) is out
        np.testing.assert_array_equal(out, mmchain.multi_dot(chain))
    plan = mmchain.plan([mmchain.inv(mmchain.lower(lower)), b])
    with pytest.raises(ValueError, match="expected factors as in .*lower.inv,N, got .*upper.inv,N"):
        plan.execute([mmchain.inv(mmchain.upper(lower.T)), b])
    with pytest.raises(LinAlgError, match="singular"):
        plan.execute([mmchain.inv(mmchain.lower(0 * lower)), b])


def test_twins_whose_product_is_like_any_other(tmp_path):
    """Where options or arrays are none for a plan of their own."""
    a, c = matrix(100, 100), matrix(64, 64, "complex128")
    for x in (a, c):
        for options in ({"precision": "reproducible"}, {"objective": "energy"}):
            np.testing.assert_allclose(mmchain.multi_dot([x, x.T], **options), x @ x.T)
        product, exponent = mmchain.multi_dot([x, x.T], scaled=True)
        np.testing.assert_allclose(product * 2.0**exponent, x @ x.T)
        mapped = np.memmap(tmp_path / "x", x.dtype, "w+", shape=x.shape)
        mapped[:] = x
        np.testing.assert_allclose(mmchain.multi_dot([mapped, mapped.T]), x @ x.T)
    greatest = (a[:, None] + a[None]).max(2)
    np.testing.assert_allclose(mmchain.multi_dot([a, a.T], semiring="max-plus"), greatest)


def test_known_chains_are_told_apart():
    """What was multiplied before is known by shapes, strides, dtypes, claims and which arrays are one."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        n = int(rng.integers(1, 9))
        a, b = rng.random((n, n)) + n * np.eye(n), rng.random((n, n)) + n * np.eye(n)
        low, x = np.tril(b), rng.random(n)
        for dtype in "fd":
            s, t, u, y = (m.astype(dtype) for m in (a, b, low, x))
            for factors, expected in [
                ([s, s.T], s @ s.T),
                ([s, t.T], s @ t.T),
                ([s, t], s @ t),
                ([mmchain.lower(u), s], u @ s),
                ([mmchain.lower(u).T, s], u.T @ s),
                ([mmchain.upper(u.T), s], u.T @ s),
                ([mmchain.lower(np.asfortranarray(u)), s[::-1]], u @ s[::-1]),
                ([mmchain.inv(mmchain.lower(u)), y], np.linalg.solve(u, y)),
                ([y, mmchain.inv(mmchain.lower(u))], np.linalg.solve(u.T, y)),
                ([y, mmchain.inv(mmchain.lower(u).T)], np.linalg.solve(u, y)),
                ([mmchain.inv(t), y], np.linalg.solve(t, y)),
                ([y, mmchain.inv(mmchain.spd(t @ t.T))], np.linalg.solve(t @ t.T, y)),
                ([mmchain.inv(t), s.astype("d")], np.linalg.solve(t, s)),
                ([mmchain.inv([s, t]), y], np.linalg.solve(s @ t, y)),
                ([mmchain.inv([s]), t, y], np.linalg.solve(s, t @ y)),
                ([mmchain.inv([s, s.T]), y], np.linalg.solve(s @ s.T, y)),
                ([mmchain.low_rank(s, t), y], s @ t @ y),
                ([mmchain.low_rank(s, t).T, y], t.T @ (s.T @ y)),
                ([mmchain.inv(mmchain.low_rank(t, s)), y], np.linalg.solve(t @ s, y)),
                ([mmchain.symmetric(np.eye(n, dtype=int)), s], s),
            ]:
                for _ in range(2):
                    result = mmchain.multi_dot(factors)
                    assert result.dtype == expected.dtype or result.dtype == np.float64
                    assert np.abs(result - expected).max() <= 1e-3 * max(1, np.abs(expected).max())
    with pytest.raises(np.linalg.LinAlgError):
        mmchain.multi_dot([mmchain.inv(mmchain.lower(np.zeros((3, 3)))), np.ones(3)])
    u = np.tril(np.ones((3, 3)))
    factors = [mmchain.inv(mmchain.lower(u)), np.ones((3, 2))]
    out = np.empty((3, 2))
    assert mmchain.multi_dot(factors, out=out) is out
    assert mmchain.multi_dot(factors, out=out) is out
    with pytest.raises(ValueError):
        mmchain.multi_dot(factors, out=np.empty((2, 3)))


def test_known_chains_are_not_described_again(monkeypatch):
    x, y, c = matrix(8, 3), matrix(8, 1), matrix(64, 64, "complex128")
    chains = [
        [mmchain.inv([x.T, x]), x.T, y],
        [mmchain.low_rank(x, x.T.copy()), y],
        [mmchain.permutation(np.arange(8)[::-1]), x],
        [mmchain.symmetric(np.ones((3, 3), int)), x.T],
        [c, c.T],
    ]
    wanted = [mmchain.multi_dot(chain) for chain in chains]
    monkeypatch.setattr("mmchain._structure._Chain", None)
    for chain, product in zip(chains, wanted):
        np.testing.assert_array_equal(mmchain.multi_dot(chain), product)


def test_nothing_is_said_of_sparse_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    for make in (mmchain.symmetric, mmchain.lower, mmchain.spd):
        with pytest.raises(TypeError, match="sparse"):
            make(sparse.eye(3, format="csr"))


def test_a_factor_alone_and_vectors_that_stand_there_twice():
    a = np.arange(6.0).reshape(2, 3) + 1j * np.ones((2, 3))
    for factor, expected in [(mmchain.Factor(a).T, a.T), (mmchain.Factor(a).H, a.conj().T)]:
        for _ in range(2):
            np.testing.assert_array_equal(mmchain.multi_dot([factor]), expected)
        np.testing.assert_array_equal(mmchain.plan([factor]).execute([factor]), expected)
    low = np.tril(np.arange(1.0, 10).reshape(3, 3))
    for x in [np.arange(3.0).reshape(3, 1), np.arange(6.0)[::2].reshape(3, 1), np.ones((1, 1))]:
        side = mmchain.lower(low[: len(x), : len(x)])
        known = mmchain.Factor(x)
        for _ in range(2):
            product = mmchain.multi_dot([side, known, known.T, side.T])
            np.testing.assert_allclose(product, side.array @ x @ x.T @ side.array.T)


@pytest.mark.parametrize("precision", ["reproducible", "reproducible+faithful"])
def test_reproducible_bits_are_those_of_dense_factors(rng, precision):
    low, index, diagonal = np.tril(rng.standard_normal((70, 70))), rng.permutation(70), rng.standard_normal(70)
    b, options = rng.standard_normal((70, 9)), {"precision": precision, "objective": "flops"}
    dense = mmchain.multi_dot([low, np.eye(70)[index], np.diag(diagonal), b, b.T], **options)
    claimed = [mmchain.lower(low), mmchain.permutation(index), mmchain.diagonal(diagonal), mmchain.low_rank(b, b.T)]
    assert mmchain.multi_dot(claimed, **options).tobytes() == dense.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_plans_of_nothing_but_transposed_factors_come_back(tmp_path, dtype):
    a, b = matrix(5, 7, dtype), matrix(5, 3, dtype)
    for items, expected in (
        ([mmchain.Factor(a).T, b], a.T @ b),
        ([mmchain.Factor(b).H, a, mmchain.Factor(a).H, b], b.conj().T @ a @ a.conj().T @ b),
        ([mmchain.Factor(a).T], a.T),
        ([mmchain.Factor(a).H], a.conj().T),
    ):
        plan = mmchain.plan(items)
        plan.save(tmp_path / "p.json")
        for again in (plan, mmchain.load_plan(tmp_path / "p.json"), pickle.loads(pickle.dumps(plan))):
            np.testing.assert_allclose(again.execute(items), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ops", ["N,N.inv,n", "n,N.inv,n", "n,n.inv,N", "T,t.inv,n"])
def test_loaded_plans_of_stacks_keep_structure_where_factors_are_shared(tmp_path, rng, ops):
    """As `mmchain plan A.npy B.npy:inv C.npy --json` writes them where some of the files are stacks."""
    plan = mmchain._plan.Plan(f"f64:3x4x4x5@6:{ops}", "flops", None, "native", "auto", None, None, False, None)
    plan.save(tmp_path / "p.json")
    plan = mmchain.load_plan(tmp_path / "p.json")
    shapes = zip([(3, 4), (4, 4), (4, 5)], ops.split(","))
    arrays = [rng.random(shape if words[0].islower() else (6, *shape)) for shape, words in shapes]
    arrays[1] += 4 * np.eye(4)
    np.testing.assert_allclose(plan.execute(arrays), arrays[0] @ np.linalg.inv(arrays[1]) @ arrays[2])
    whole = [np.broadcast_to(a, (6, *a.shape[-2:])).copy() for a in arrays]
    with pytest.raises(ValueError, match="^arrays: expected"):
        plan.execute(whole)


def test_plans_of_low_rank(rng):
    u, v, x = rng.random((5, 2)), rng.random((2, 5)), rng.random(5)
    factors = [mmchain.low_rank(u, v), x]
    np.testing.assert_allclose(mmchain.plan(factors).execute(factors), u @ v @ x)
    a, b = rng.random((2, 4, 5))
    plan = mmchain.plan([a, mmchain.low_rank(u, v), a.T])
    for x in (a, b):
        np.testing.assert_allclose(plan.execute([x, mmchain.low_rank(u, v), x.T]), x @ u @ v @ x.T)


@pytest.mark.parametrize("places", ["00", "000", "0100", "001100", "0010", "010011"])
def test_plans_of_general_factors_that_repeat(rng, places):
    """Of which the chain's text tells runs by ^, and others by =."""
    pool = rng.random((2, 3, 3))
    factors = [mmchain.Factor(pool[int(i)]) for i in places]
    plan = mmchain.plan(factors)
    again = [mmchain.Factor(pool[1 - int(i)]) for i in places]
    for some in (factors, again):
        want = np.linalg.multi_dot([factor.array for factor in some])
        np.testing.assert_allclose(plan.execute(some), want)
    with pytest.raises(ValueError, match="^arrays: expected factors as in "):
        plan.execute([*factors[:-1], mmchain.Factor(rng.random((3, 3)))])


def test_plans_take_arrays_that_happen_to_be_the_same(rng):
    a, b = np.tril(rng.random((3, 3))) + np.eye(3), rng.random((3, 3))
    plan = mmchain.plan([mmchain.lower(a), b, a])
    assert plan.chain.endswith("=1,2,1")
    np.testing.assert_allclose(plan.execute([mmchain.lower(a), a, a]), a @ a @ a)
    np.testing.assert_allclose(plan.execute([mmchain.lower(a), a.T, a]), a @ a.T @ a)
    with pytest.raises(ValueError, match="^arrays: expected factors as in "):
        plan.execute([mmchain.lower(a), b, b])


def test_plans_of_a_dtype():
    a = np.eye(3)
    assert mmchain.plan([mmchain.lower(a), a], dtype="f4").chain == "f32:3x3x3:lower,N=1,1"
