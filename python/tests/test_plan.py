"""Plans: what they say, execute, pickle, and how they are cached."""

import json
import pickle
from xml.etree import ElementTree

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain, _plan
from chains import assert_close, random_chain, random_dims

CLRS = "f64:30x35x15x5x10x20x25"


def test_facts():
    p = mmchain.plan(CLRS)
    assert p.chain == CLRS
    assert p.order == "((A1 (A2 A3)) ((A4 A5) A6))"
    assert p.multiplications == 15125 and p.flops == 30250
    assert [s.product for s in p.steps] == [
        "T1 = A2 A3",
        "T2 = A1 T1",
        "T3 = A4 A5",
        "T4 = T3 A6",
        "R = T2 T4",
    ]
    assert sum(s.multiplications for s in p.steps) == 15125
    assert p.workspace_bytes == 0  # one call keeps the intermediates to itself
    assert mmchain.plan([(200, 300), (300, 150), (150, 400)]).workspace_bytes > 0
    assert p.device in ("blas", "ref")
    assert "15125" in p.explain()
    assert json.loads(p.explain("json"))["multiplications"] == 15125
    assert p.explain("dot").startswith("digraph")
    with pytest.raises(ValueError, match="format: expected text, json, dot or svg, got 'poem'"):
        p.explain("poem")
    assert CLRS in repr(p)
    assert p.predicted_seconds > 0
    assert f"{p.predicted_seconds:.6g}" in p.explain("json")
    assert mmchain.plan(CLRS, objective="flops").predicted_seconds is None


def test_ways_to_say_a_chain(rng):
    arrays = random_chain(rng, [10, 30, 5, 60], "float32")
    plans = [
        mmchain.plan("f32:10x30x5x60"),
        mmchain.plan([(10, 30), (30, 5), (5, 60)], dtype="float32"),
        mmchain.plan([(10, 30), (30, 5), (5, 60)], dtype=np.float32),
        mmchain.plan([(10, 30), (30, 5), (5, 60)], dtype=np.dtype("f")),
        mmchain.plan([(10, 30), (30, 5), (5, 60)], dtype="f32"),
        mmchain.plan(arrays),
        mmchain.plan(iter(arrays)),
    ]
    assert {p.chain for p in plans} == {"f32:10x30x5x60"}
    assert mmchain.plan([arrays[0], arrays[1].astype("F")]).chain == "c64:10x30x5"
    assert mmchain.plan([(3,), (3, 4), (4,)]).chain == "f64:1x3x4x1"
    assert mmchain.plan("2x3x4").chain == "f64:2x3x4"


def test_powers(rng):
    p = mmchain.plan("f64:8x8^100")
    assert p.chain == "f64:8x8^100"
    assert [s.product for s in p.steps[:2]] == ["T1 = A1 A1", "T2 = T1 T1"]
    assert len(p.steps) == 8 and p.multiplications == 8 * 512
    a = rng.standard_normal((8, 8)) / 4
    np.testing.assert_allclose(p.execute([a] * 100), np.linalg.matrix_power(a, 100), rtol=1e-10)
    kind = type("Kind", (np.ndarray,), {})  # in the planned order, by NumPy
    ones = np.array([[1.0, 1], [0, 1]]).view(kind)
    p = mmchain.plan("f64:2x2^100")
    assert p.execute([ones] * 100).tolist() == [[1, 100], [0, 1]]
    with pytest.raises(ValueError, match="the same matrix"):
        p.execute([np.eye(2) for _ in range(100)])


def test_repeats():
    for text, boxes in (
        ("f64:4x9x4x9x4=1,2,1,2", ["A1", "A2", "T1", "R = T1²"]),
        ("f32:4x4^4@3", ["A", "T1 = A²", "R = A⁴"]),
        ("c64:1x4x4^9x2", None),
        ("f64:3x3", ["A1"]),
    ):
        shown = names(ElementTree.fromstring(mmchain.plan(text)._repr_svg_()))
        assert shown == boxes or (boxes is None and shown[-1] == "R")
    assert len(mmchain.plan("f64:4x9x4x9x4=1,2,1,2").steps) == 2


def test_bad_chains():
    with pytest.raises(ValueError, match="position"):
        mmchain.plan("f64:10x30y5")
    with pytest.raises(ValueError, match="not aligned"):
        mmchain.plan([(2, 3), (4, 5)])
    with pytest.raises(TypeError, match="dtype.*object"):
        mmchain.plan([np.ones((2, 2), object)] * 2)
    with pytest.raises(TypeError, match="dtype"):
        mmchain.plan("2x3x4", dtype="float32")
    with pytest.raises(ValueError, match="no ops"):
        mmchain.plan("2x3x4:NT")
    with pytest.raises(OverflowError):
        mmchain.plan("x".join([str(2**62)] * 6))
    with pytest.raises(ValueError, match="solver"):
        mmchain.plan("2x3x4", solver="oracle")
    with pytest.raises(MemoryError):
        mmchain.plan("1500x1400x1500x1400x1500", memory_limit=8)
    with pytest.raises(ValueError, match="^memory_limit: "):
        mmchain.plan("2x3x4", memory_limit=-1)
    with pytest.raises(TypeError):
        _mmchain.Plan("2x3x4")


def test_solver_and_memory_limit():
    assert mmchain.plan(CLRS, solver="left-to-right").multiplications == 40500
    chain = "f64:360x840x920x380x600"
    best = mmchain.plan(chain)
    lean = mmchain.plan(chain, memory_limit=best.workspace_bytes - 1)
    assert lean.workspace_bytes < best.workspace_bytes
    assert lean.multiplications > best.multiplications


def test_energy():
    p = mmchain.plan(CLRS, objective="energy", max_slowdown=1.25)
    facts = json.loads(p.explain("json"))
    assert facts["max_slowdown"] == 1.25
    assert p.predicted_joules == pytest.approx(facts["predicted_joules"], rel=1e-5)
    assert p.predicted_seconds == pytest.approx(facts["predicted_seconds"], rel=1e-5)
    assert 0 < p.predicted_seconds <= 1.25 * facts["plan_for_time_seconds"] * (1 + 1e-5)
    assert p.predicted_joules <= facts["plan_for_time_joules"] * (1 + 1e-5)
    q = pickle.loads(pickle.dumps(p))
    assert q._arguments == p._arguments and 1.25 in q._arguments
    assert q.predicted_joules == p.predicted_joules
    unbounded = mmchain.plan(CLRS, objective="energy")
    assert json.loads(unbounded.explain("json"))["max_slowdown"] is None
    assert unbounded.predicted_joules > 0
    for objective in ("time", "flops"):
        assert mmchain.plan(CLRS, objective=objective).predicted_joules is None
        with pytest.raises(ValueError, match="max_slowdown: expected objective energy"):
            mmchain.plan(CLRS, objective=objective, max_slowdown=1.5)
    for wrong in (0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="max_slowdown: expected a number from 1"):
            mmchain.plan(CLRS, objective="energy", max_slowdown=wrong)
    with pytest.raises(TypeError):
        mmchain.plan(CLRS, objective="energy", max_slowdown="fast")


def test_execute(rng):
    arrays = random_chain(rng, [10, 30, 5, 60])
    p = mmchain.plan(arrays)
    assert_close(p.execute(arrays), arrays)
    out = np.empty((10, 60))
    assert p.execute(arrays, out) is out
    assert_close(out, arrays)
    # A strided one, a stack, another dtype that is safe.
    assert_close(p.execute([np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2] for a in arrays]), arrays)
    stack = np.stack([arrays[0], 2 * arrays[0]])
    np.testing.assert_allclose(p.execute([stack, *arrays[1:]])[1], 2 * p.execute(arrays))
    assert_close(
        p.execute([arrays[0].astype("f"), *arrays[1:]]), [arrays[0].astype("f"), *arrays[1:]]
    )
    with pytest.raises(TypeError, match="expected f64 as planned, got complex128"):
        p.execute([arrays[0].astype("D"), *arrays[1:]])
    with pytest.raises(ValueError, match="expected the shapes of f64:10x30x5x60, got 9x30x5x60"):
        p.execute([arrays[0][:9], *arrays[1:]])
    with pytest.raises(ValueError, match="expected the shapes of"):
        p.execute(arrays[:2])
    with pytest.raises(ValueError, match="Expecting|at least"):
        p.execute([])


def test_what_their_own_library_multiplies_is_what_was_planned(rng):
    """A subclass is NumPy's to multiply, in the order of the plan, which must be for it all the same."""

    class Own(np.ndarray):
        pass

    arrays = [array.view(Own) for array in random_chain(rng, [4, 3, 5, 2])]
    p = mmchain.plan("f64:4x3x5x2")
    assert type(p.execute(arrays)) is Own
    assert_close(np.asarray(p.execute(arrays)), arrays)
    rows = mmchain.plan("f64:12x3x5x2")
    assert rows.execute([np.stack([arrays[0]] * 3).view(Own), *arrays[1:]]).shape == (3, 4, 2)
    for others in (arrays[:2], [*arrays, arrays[2].T], [arrays[0][:3], *arrays[1:]]):
        with pytest.raises(ValueError, match="expected the shapes of f64:4x3x5x2, got"):
            p.execute(others)
    with pytest.raises(ValueError, match="expected the shapes of f64:4x3x5x2@7, got 4x3x5x2"):
        mmchain.plan("f64:4x3x5x2@7").execute(arrays)
    squares = [array.view(Own) for array in random_chain(rng, [4] * 5)]
    for chain in (squares, squares[:1] * 4):
        assert_close(np.asarray(mmchain.plan("f64:4x4^4").execute(chain)), chain)
    ends = [row := squares[0][0], *squares, row]
    assert_close(np.asarray(mmchain.plan(ends).execute(ends)), ends)
    for chain, match in (
        ("f64~max-plus:4x4x4", "expected those that mmchain multiplies with a plan for f64~max-plus"),
        ("f64:4x4x4:lower.inv,N", "expected factors with structure, as in f64:4x4x4:lower.inv,N"),
    ):
        with pytest.raises(TypeError, match=match):
            mmchain.plan(chain).execute(squares[:2])
    with pytest.raises(TypeError, match="expected those that mmchain multiplies with a plan for i64%7"):
        mmchain.plan("i64%7:4x4x4").execute([np.ones((4, 4), int).view(Own)] * 2)


def test_dims_and_orders(rng):
    for n in (1, 2, 5, 40):
        dims = random_dims(rng, n)
        p = mmchain.plan(dims, objective="flops")
        assert mmchain.plan(np.array(dims)[:], objective="flops").chain == p.chain
        best = mmchain.order(dims)
        assert best.multiplications == p.multiplications
        assert str(best) == p.order == json.loads(p.explain("json"))["order"]
    for wrong in ([10], [], ["a", "b"], [(2, 3), 4], [2.5, 3], 7):
        with pytest.raises((TypeError, ValueError)):
            mmchain.plan(wrong)
    with pytest.raises(TypeError, match="shapes or dims"):
        mmchain.plan([2.5, 3])
    with pytest.raises(ValueError, match="at least 2"):
        mmchain.order([3])


def test_long_plans_are_shown_short(rng):
    p = mmchain.plan(random_dims(rng, 20000), objective="flops")
    assert len(repr(p)) < 500
    assert p.order == json.loads(p.explain("json"))["order"]


@pytest.mark.parametrize(
    "chain, error, match",
    [
        ([10, 2**63], ValueError, r"dims\[1\]: expected 0 to 2\^62, got 9223372036854775808"),
        ([10, -3, 5], ValueError, r"dims\[1\]: expected 0 to 2\^62, got -3"),
        (["a", "b"], TypeError, "chain: expected a str, arrays, shapes or dims, .* got str"),
        ([10, 2.5], TypeError, "got float, int"),
    ],
)
def test_bad_dims(chain, error, match):
    with pytest.raises(error, match=match):
        mmchain.plan(chain)


def test_a_million_factors(rng):
    dims = rng.integers(1, 1000, 10**6 + 1).tolist()
    plans = [mmchain.plan(dims, objective=objective) for objective in ("flops", "time")]
    assert len(repr(plans[0])) < 1000
    assert plans[0].multiplications <= plans[1].multiplications
    assert plans[0].workspace_bytes > 0 and len(plans[0].products()) == 10**6 - 1
    # Where one result waits for many others, each was compared with all of them.
    shapes = list(zip(dims[:1001], dims[1:1002]))
    assert mmchain.plan(shapes).chain == mmchain.plan(dims[:1002]).chain


def test_no_value_is_lost_by_a_conversion():
    ones = [np.ones((2, 3)), np.ones((3, 4))]
    p = mmchain.plan("f32:2x3x4")
    for dtype in ("float64", "complex64", "int64"):
        with pytest.raises(TypeError, match=f"expected f32 as planned, got {dtype}"):
            p.execute([a.astype(dtype) for a in ones])
    for dtype in ("float32", "float16", "int16", "bool"):
        assert p.execute([a.astype(dtype) for a in ones]).dtype == np.float32


def test_chain_of_one(rng):
    a = rng.random((3, 4))
    p = mmchain.plan([a])
    np.testing.assert_array_equal(p.execute([np.asfortranarray(a)]), a)
    assert p.steps == [] and p.order == "A1"
    assert names(ElementTree.fromstring(p._repr_svg_())) == ["A1"]


def test_bf16_plan(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    arrays = random_chain(rng, [3, 4, 5], ml_dtypes.bfloat16)
    p = mmchain.plan(arrays)
    assert p.chain == "bf16:3x4x5"
    assert_close(p.execute(arrays), arrays, eps=2.0**-7)


def names(svg):
    """The first line of every box."""
    space = "{http://www.w3.org/2000/svg}"
    boxes = [g for g in svg.findall(space + "g") if g.find(space + "title") is not None]
    return ["".join(box.find(space + "text").itertext()) for box in boxes]


@pytest.mark.parametrize("chain", ["2x3", "2x3x4", CLRS, "x".join(["7"] * 41)])
def test_svg(chain):
    p = mmchain.plan(chain)
    n = chain.count("x")
    text = p._repr_svg_()
    assert text.startswith("<svg ") and text == p.explain("svg")
    root = ElementTree.fromstring(text)
    assert int(root.get("width")) <= 2000
    factors = [name for name in names(root) if name.startswith("A")]
    if n <= 20:
        assert len(names(root)) == 2 * n - 1
        assert sorted(factors) == [f"A{i + 1}" for i in range(n)]
    else:
        assert "like this" in text


def test_save(tmp_path):
    p = mmchain.plan("f64:10x30x5x60")
    for end, said in (("svg", "svg"), ("json", "json"), ("dot", "dot"), ("txt", "text")):
        p.save(tmp_path / f"plan.{end}")
        assert (tmp_path / f"plan.{end}").read_text(encoding="utf-8") == p.explain(said)
    p.save(str(tmp_path / "plan.svg"))
    with pytest.raises(ValueError, match="path: expected a name that ends in .svg"):
        p.save("plan.png")
    with pytest.raises(FileNotFoundError):
        p.save(tmp_path / "none" / "plan.svg")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(IsADirectoryError):
        p.save(tmp_path / "folder.svg")
    assert sorted(f.name for f in tmp_path.iterdir() if f.name.startswith(".")) == []


def test_pickle(rng):
    arrays = random_chain(rng, [10, 30, 5, 60])
    p = mmchain.plan(
        arrays, objective="flops", precision="faithful", solver="table", memory_limit=10**6
    )
    q = pickle.loads(pickle.dumps(p))
    assert type(q) is mmchain.Plan
    assert q.explain("json") == p.explain("json")
    assert q._arguments == p._arguments
    np.testing.assert_array_equal(p.execute(arrays), q.execute(arrays))


def test_cache_holds_shapes_not_arrays(rng):
    mmchain.clear_cache()
    for _ in range(5):
        mmchain.multi_dot(random_chain(rng, [4, 3, 5]))
    assert mmchain.info()["cache"]["plans"] == 1
    for _ in range(4):  # what is little has a plan from the fourth time on
        mmchain.multi_dot(random_chain(rng, [4, 3, 5], "float32"))
        mmchain.multi_dot(random_chain(rng, [4, 3, 5, 2]))
        mmchain.multi_dot(random_chain(rng, [4, 3, 5]), objective="flops")
        mmchain.multi_dot(random_chain(rng, [4, 3, 5]), device="ref")
        mmchain.multi_dot(random_chain(rng, [4, 3, 5]), device="".join(["r", "ef"]))
    assert mmchain.info()["cache"]["plans"] == 5


def plans():
    return mmchain.info()["cache"]["plans"]


def test_cache_is_bounded_and_keeps_what_is_used(rng):
    mmchain.clear_cache()
    kept = random_chain(rng, [2, 3, 4])
    for n in range(1, 1500):
        arrays = [np.ones((1, n)), np.ones((n, 1))]
        for _ in range(4):
            assert mmchain.multi_dot(arrays) == n
        mmchain.multi_dot(kept)
        assert plans() <= 512
    assert plans() >= 400
    plan = _mmchain.cached_plan()
    mmchain.multi_dot([np.ones((1, 2)), np.ones((2, 1))])
    mmchain.multi_dot(kept)
    assert _mmchain.cached_plan() is plan
    mmchain.clear_cache()
    assert mmchain.info()["cache"] == {"plans": 0, "workspace_bytes": 0}
    for made in (0, 0, 0, 1):
        assert mmchain.multi_dot([np.ones((1, 7)), np.ones((7, 1))]) == 7 and plans() == made


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_little_chain_is_multiplied_at_once_the_first_times(rng, dtype):
    """And has the bits of the plan that the fourth time is for, whatever its factors look like."""
    at_once = 0
    for _ in range(100):
        dims = rng.integers(2, rng.choice([6, 30, 64, 150]) + 1, rng.integers(3, 10)).tolist()
        arrays = random_chain(rng, dims, dtype)
        arrays = [np.asfortranarray(a) if rng.random() < 0.5 else a for a in arrays]
        objective = str(rng.choice(["time", "flops"]))
        mmchain.clear_cache()
        first = mmchain.multi_dot(arrays, objective=objective)
        at_once += plans() == 0
        for _ in range(3):
            np.testing.assert_array_equal(first, mmchain.multi_dot(arrays, objective=objective))
        assert plans() == 1
        np.testing.assert_array_equal(
            mmchain.plan(arrays, objective=objective).execute(arrays), first
        )
    assert at_once >= 60


def test_errors_of_a_chain_that_is_multiplied_at_once_are_reported():
    mmchain.clear_cache()
    large = np.full((3, 3), 1e200)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        mmchain.multi_dot([large, large.copy(), large.copy()])
    assert plans() == 0
    chain = np.full((4, 5, 5), 0.2)  # one stack is the chain
    np.testing.assert_allclose(mmchain.multi_dot(chain), np.full((5, 5), 0.2))
    np.testing.assert_allclose(
        mmchain.multi_dot([np.full((1, 4, 6), 1.0), np.full((6, 7), 1.0)]), np.full((1, 4, 7), 6.0)
    )
    assert plans() == 0


def test_shapes_that_are_never_seen_again_are_not_kept(rng):
    """They leave those alone that are, and are kept when they do come again, however late."""
    mmchain.clear_cache()
    often = [random_chain(rng, [2, n, 4]) for n in range(1, 101)]
    for _ in range(5):
        for arrays in often:
            mmchain.multi_dot(arrays)
    before = plans()
    assert before >= 80  # two shapes may have one hash
    for n in range(1, 1500):
        mmchain.multi_dot([np.ones((1, n)), np.ones((n, 1))])
    assert before <= plans() <= before + 16
    same = 0
    for one, other in zip(often, often[1:]):
        mmchain.multi_dot(one)
        plan = _mmchain.cached_plan()
        mmchain.multi_dot(other)
        mmchain.multi_dot(one)
        same += plan is not None and _mmchain.cached_plan() is plan
    assert same >= 80


def test_plans_that_take_long_are_kept_at_once():
    mmchain.clear_cache()
    for n in range(40):
        mmchain.multi_dot([np.ones((2, 2))] * (17 + n))
    assert plans() == 40


def test_idle_workspace_is_bounded():
    mmchain.clear_cache()
    rows = 2**19  # (A1 A2) A3 is the cheapest, and A1 A2 takes 8 MB
    a, b, c, out = np.ones((rows, 5)), np.ones((5, 2)), np.ones((2, 5)), np.empty((rows, 5))
    most = 0
    for less in range(150):
        for _ in range(4):  # what is multiplied a few times is not kept for long
            mmchain.multi_dot([a[: rows - less], b, c], out=out[: rows - less], objective="flops")
        held = mmchain.info()["cache"]["workspace_bytes"]
        assert held <= 1 << 30
        most = max(most, held)
    assert most > 1 << 29
    mmchain.clear_cache()
    assert mmchain.info()["cache"]["workspace_bytes"] == 0


def test_bench():
    result = mmchain.bench("f32:10x30x5x60", seconds=0.01, device="ref", objective="flops")
    assert result["device"] == "ref" and result["multiplications"] == 4500
    assert all(0 < s < 10 for s in result["seconds"].values())
    with pytest.raises(TypeError, match="bf16"):
        mmchain.bench("bf16:2x3x4")
    with pytest.raises(ValueError, match="two factors"):
        mmchain.bench("2x3")


def test_dtype_names():
    assert _plan.dtype_name("torch.bfloat16") == "bf16"
    with pytest.raises(TypeError, match="float32"):
        _plan.dtype_name("float33")


def test_order_of_the_caller():
    dims = [30, 20, 500, 3, 40]
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal((a, b)) for a, b in zip(dims, dims[1:])]
    text = "(A1 ((A2 A3) A4))"
    path = [(1, 2), (1, 2), (0, 1)]  # of three: A1, A4, A2 A3
    ways = [text, "A1 ((A2 A3) A4)", [1, [[2, 3], 4]], (np.int64(1), ((2, 3), 4)), path]
    ways.append(mmchain.plan(dims, order=text))
    ways.append(mmchain.Order(0, [(1, 2), (4, 3), (0, 5)]))
    for order in ways:
        for objective in ("flops", "time", "energy", "traffic"):
            p = mmchain.plan(arrays, order=order, objective=objective)
            assert p.order == text
            assert p.multiplications == 20 * 500 * 3 + 20 * 3 * 40 + 30 * 20 * 40
        np.testing.assert_allclose(p.execute(arrays), np.linalg.multi_dot(arrays), rtol=1e-10)
        assert pickle.loads(pickle.dumps(p)).order == text
    stacks = [np.stack([a] * 3) for a in arrays]
    stacked = mmchain.plan(stacks, order=text)
    assert stacked.order == text
    np.testing.assert_allclose(stacked.execute(stacks)[1], np.linalg.multi_dot(arrays), rtol=1e-10)


def test_paths_of_other_libraries():
    """Random paths as opt_einsum writes them: the same tree, whatever the order of the pairs."""
    rng = np.random.default_rng()
    for _ in range(200):
        n = int(rng.integers(2, 12))
        there, path, texts = [(i, i + 1) for i in range(n)], [], {}
        for i in range(n):
            texts[i, i + 1] = f"A{i + 1}"
        while len(there) > 1:
            pairs = [
                (i, j)
                for i in range(len(there))
                for j in range(len(there))
                if i < j and (there[i][1] == there[j][0] or there[j][1] == there[i][0])
            ]
            i, j = pairs[rng.integers(len(pairs))]
            path.append((i, j) if rng.random() < 0.5 else (j, i))
            second, first = there.pop(j), there.pop(i)
            first, second = sorted((first, second))
            there.append((first[0], second[1]))
            texts[there[-1]] = f"({texts[first]} {texts[second]})"
        assert mmchain.plan([3] * (n + 1), order=path).order == texts[0, n]


@pytest.mark.parametrize(
    "order, error, match",
    [
        ("(A1 A2)", ValueError, "order: expected A3 at the end"),
        ([[1, 3], 2], ValueError, "order: expected A2 at character"),
        ([1, 2, 3], ValueError, "two operands in a bracket"),
        ([(0, 2), (0, 1)], ValueError, "no neighbours"),
        ([(0, 3), (0, 1)], ValueError, "positions 0 to 2"),
        ([(0, 1, 2), (0, 1)], ValueError, "pairs of positions"),
        ([1.5, 2], TypeError, "numbers of factors"),
        (7, TypeError, "order: expected a str"),
        ([], ValueError, "order: expected A1"),
    ],
)
def test_bad_orders(order, error, match):
    with pytest.raises(error, match=match):
        mmchain.plan([2, 3, 4, 5], order=order)


def test_an_order_and_a_solver():
    with pytest.raises(ValueError, match="solver: expected auto with an order"):
        mmchain.plan([2, 3, 4], order="A1 A2", solver="hu-shing")
    with pytest.raises(MemoryError, match="the order given needs"):
        mmchain.plan([30, 20, 500, 3, 40], order="((A1 A2) (A3 A4))", memory_limit=1000)


@pytest.mark.parametrize("chain", ["f64:30x35x15x5x10x20x25", "f32:9x9^40", "c64:4x5x6@100"])
@pytest.mark.parametrize("objective", ["flops", "time", "energy", "traffic"])
def test_saved_and_loaded(tmp_path, chain, objective):
    plan = mmchain.plan(chain, objective=objective)
    path = tmp_path / "plan.json"
    plan.save(path)
    loaded = mmchain.load_plan(path)
    assert loaded.steps == plan.steps and loaded.chain == plan.chain and loaded.device == plan.device
    assert pickle.loads(pickle.dumps(loaded)).steps == plan.steps


@pytest.mark.parametrize("name, value", [("fuse", "none"), ("fuse", "poster"), ("on_chip_words", 100), ("given_tile", [8, 4])])
def test_loaded_plans_for_traffic_keep_what_they_were_made_for(tmp_path, name, value):
    """As `mmchain plan --for traffic --fuse none --json` writes them."""
    facts = json.loads(mmchain.plan("f64:300x350x150x50x100", objective="traffic").explain("json"))
    (tmp_path / "plan.json").write_text(json.dumps({**facts, name: value}))
    loaded = mmchain.load_plan(tmp_path / "plan.json")
    for plan in (loaded, pickle.loads(pickle.dumps(loaded))):
        assert json.loads(plan.explain("json"))[name] == value


def test_loaded_plans_keep_their_bound_and_solver(tmp_path):
    bounded = mmchain.plan("f64:300x350x150x50", objective="energy", max_slowdown=1.5)
    ignorant = mmchain.plan("f64:20x20x20x20:lower,N,upper", objective="flops", solver="hu-shing")
    for plan in (bounded, ignorant):
        plan.save(tmp_path / "plan.json")
        loaded = mmchain.load_plan(tmp_path / "plan.json")
        assert loaded.explain("json") == plan.explain("json")


def views(a):
    """A matrix, its transposed view twice, and itself again: of two matrices, each several objects."""
    return [a[:], a.T, a.T, a[:]]


@pytest.mark.parametrize("options", [{"dtype": "float64"}, {"dtype": "complex128", "precision": "reproducible"}])
def test_views_of_one_matrix_are_one_in_another_dtype(options):
    a = np.arange(9, dtype="float32").reshape(3, 3)
    factors = views(a)
    np.testing.assert_allclose(mmchain.plan(factors, **options).execute(factors), a @ a.T @ a.T @ a)
    integers = views(a.astype("int8"))
    assert (mmchain.plan(integers, mod=97).execute(integers) == (a @ a.T @ a.T @ a).astype(int) % 97).all()


def test_stacks_keep_the_order_of_loaded_plans(tmp_path):
    mmchain.plan([10, 30, 5, 60], order="A1 (A2 A3)").save(tmp_path / "plan.json")
    plan = mmchain.load_plan(tmp_path / "plan.json")
    stack = [np.ones((4, *shape)) for shape in [(10, 30), (30, 5), (5, 60)]]
    assert plan.order == "(A1 (A2 A3))" and (plan.execute(stack) == 150).all()


@pytest.mark.parametrize("ops", ["NT", "TT", "HN", "TH"])
@pytest.mark.parametrize("dtype", ["f64", "c128"])
def test_plans_with_ops_are_loaded(tmp_path, ops, dtype):
    """As `mmchain plan --json` writes them: arrays are the factors themselves, whatever the ops are."""
    random = np.random.default_rng(5)
    stored = random.random((2, 4, 4)) + (1j * random.random((2, 4, 4)) if dtype == "c128" else 0)
    factors = [a if op == "N" else a.T if op == "T" else a.conj().T for a, op in zip(stored, ops)]
    plan = mmchain._plan.Plan(f"{dtype}:4x4x4:{ops}", "flops", None, "native", "auto", None, None, False, None)
    plan.save(tmp_path / "plan.json")
    loaded, items = mmchain.load_plan(tmp_path / "plan.json"), factors
    if dtype == "c128" and "H" in ops:
        with pytest.raises(ValueError, match=r"^arrays: expected mmchain.Factor\(a\).H where c128:4x4x4:.. has"):
            loaded.execute(factors)
        items = [getattr(mmchain.Factor(a), op) if op != "N" else a for a, op in zip(stored, ops)]
    np.testing.assert_allclose(loaded.execute(items), factors[0] @ factors[1])


def test_plans_that_conjugate_stacks_say_what_is_taken(tmp_path):
    plan = mmchain._plan.Plan("c128:4x4x4@3:hN", "flops", None, "native", "auto", None, None, False, None)
    plan.save(tmp_path / "plan.json")
    with pytest.raises(ValueError, match=r"^arrays: expected a plan without H for stacks, of a.conj\(\), got one of c1"):
        mmchain.load_plan(tmp_path / "plan.json").execute([np.ones((4, 4), "c16"), np.ones((3, 4, 4), "c16")])


def test_what_no_longer_fits(tmp_path):
    path = tmp_path / "plan.json"
    mmchain.plan("f64:30x35x15x5x10", objective="flops", device="ref").save(path)
    text = path.read_text()

    def load(old, new):
        assert old in text
        path.write_text(text.replace(old, new))
        return mmchain.load_plan(path)

    with pytest.raises(RuntimeError, match="step 'T1 = A2 A3' had the kernel 'slide rule', and would have"):
        load('null, "kernel": ', 'null, "kernel": "slide rule", "was": ')
    with pytest.raises(RuntimeError, match="had the split 'm 16'"):
        load('"split": null', '"split": "m 16"')
    with pytest.raises(ValueError, match="device"):
        load('"device": "ref"', '"device": "abacus"')
    with pytest.raises(ValueError, match="as plan --json writes it"):
        load('"order": ', '"oder": ')
    with pytest.raises(ValueError, match="as plan --json writes it"):
        load("{", "")
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="as plan --json writes it"):
        mmchain.load_plan(path)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: mmchain.plan("2x3x4", memory_limit="1K"), "memory_limit: expected a number of bytes, got str"),
        (lambda: mmchain.plan("2x3x4", memory_limit=-1), "memory_limit: expected 0 to 2"),
        (lambda: mmchain.order("10x30x5"), "dims: expected whole numbers, as .* got '10x30x5'"),
        (lambda: mmchain.order([10, 30, 5.5]), "dims: expected whole numbers"),
        (lambda: mmchain.plan("2x3x4").save("/no/such/plan.svg"), "No such file or directory: '/no/such/plan.svg'"),
        (lambda: mmchain.scan([np.ones((2, 3)), np.ones((3, 4))]), "stack: expected a stack of square matrices"),
        (lambda: mmchain.tune(["2x3x4"], budget="long"), "budget: expected seconds above 0, or None, got str"),
        (lambda: mmchain.gradients([np.eye(2, dtype=int)] * 2, np.eye(2)), "^arrays: expected one of float16"),
        (lambda: mmchain.banded(np.eye(2), 1, 0.5), "^above: expected a whole number, got float"),
        (lambda: mmchain.plan("2x3x4", order="(A1 A3)"), "order: expected A2 at character 5, got 'A3'"),
    ],
)
def test_messages_name_the_argument(call, message):
    with pytest.raises((TypeError, ValueError, OverflowError, OSError), match=message):
        call()


def test_memory_limit_of_numpy():
    assert mmchain.plan("2x3x4", memory_limit=np.int64(1000)).multiplications == 24


def test_tolerance(tmp_path):
    arrays = [np.random.default_rng(5).standard_normal((30, 40)) for _ in range(1)]
    arrays.append(arrays[0].T @ arrays[0])
    lengths = np.prod([np.linalg.norm(array) for array in arrays])
    plan = mmchain.plan(arrays, tolerance=1e-10)
    assert 0 < plan.error_bound <= 1e-10
    exact = arrays[0] @ arrays[1]
    for result in (plan.execute(arrays), mmchain.multi_dot(arrays, tolerance=1e-10)):
        assert np.linalg.norm(result - exact) <= 1e-10 * lengths
    assert mmchain.plan(arrays).error_bound is None
    assert mmchain.plan("f32:30x40x50", tolerance=1e-10).error_bound > 1e-10
    assert mmchain.plan("i64:30x40x50", tolerance=1e-10).error_bound == 0
    plan.save(tmp_path / "plan.json")
    assert mmchain.load_plan(tmp_path / "plan.json").error_bound == plan.error_bound
    for tolerance in (0, 1, -1e-3, float("nan")):
        with pytest.raises(ValueError, match="tolerance: expected"):
            mmchain.multi_dot(arrays, tolerance=tolerance)
    with pytest.raises(ValueError, match="tolerance: expected"):
        mmchain.plan(arrays, tolerance=1e-3, precision="fast")
    with pytest.raises(ValueError, match="tolerance"):
        mmchain.multi_dot(arrays, tolerance=1e-3, semiring="max-plus")
    with pytest.raises(RuntimeError, match="tolerance: expected"):
        mmchain.plan("9x9x9:inv,N", tolerance=1e-3)


@pytest.mark.parametrize("chain", [[(10, 3, 4), (10, 4, 5)], [(10, 3, 4), (1, 4, 5)], [(2, 5, 3, 4), (5, 4, 5)]])
def test_stacks_by_their_shapes(chain):
    assert mmchain.plan(chain).chain == "f64:3x4x5@10"


@pytest.mark.parametrize(
    "chain",
    [
        [(3.9, 4), (4, 5)],
        [("3", 4), (4, 5)],
        [3.0, 4, 5],
        b"f64:3x3x3",
        None,
        5,
        [np.ones((3, 3)), (3, 3)],
        [(3, 3), np.ones((3, 3))],
        [memoryview(np.ones((3, 3)))] * 2,
    ],
)
def test_what_is_no_chain(chain):
    with pytest.raises(TypeError, match="^chain: expected "):
        mmchain.plan(chain)
