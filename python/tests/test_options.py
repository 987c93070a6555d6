"""Options and arrays that one way takes are refused, or used, by all ways that a call may go."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import mmchain

A = np.tril(np.ones((3, 3))) + np.eye(3)
WHOLE = A.astype(int)


def ways():
    yield "plain", lambda **o: mmchain.multi_dot([A, A + 1, A], **o)
    yield "matrix", lambda **o: mmchain.multi_dot([np.matrix(A)] * 3, **o)
    yield "longdouble", lambda **o: mmchain.multi_dot([A.astype("g")] * 3, **o)
    yield "mixed", lambda **o: mmchain.multi_dot([A, WHOLE, A], **o)
    yield "mod", lambda **o: mmchain.multi_dot([WHOLE, WHOLE], mod=7, **o)
    yield "checked", lambda **o: mmchain.multi_dot([WHOLE, WHOLE], checked=True, **o)
    yield "semiring", lambda **o: mmchain.multi_dot([A, A], semiring="max-plus", **o)
    yield "inverse", lambda **o: mmchain.multi_dot([mmchain.inv(A), A], **o)
    yield "transposed", lambda **o: mmchain.multi_dot([A, A.T, A], **o)


@pytest.mark.parametrize("name", ["objective", "device", "precision"])
@pytest.mark.parametrize("way", [way for _, way in ways()], ids=[name for name, _ in ways()])
def test_no_way_takes_what_is_no_option(way, name):
    for wrong in ("bogus", 3, ["cpu"], "cpu\0"):
        with pytest.raises((TypeError, ValueError), match=name):
            way(**{name: wrong})


def test_ways_of_pytorch():
    torch = pytest.importorskip("torch")
    a = torch.eye(3, requires_grad=True)
    for name in ("objective", "device", "precision"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            mmchain.multi_dot([a, a, a], **{name: "bogus"})
        with pytest.raises(ValueError, match=f"^{name}: "):
            torch.func.vmap(lambda x: mmchain.multi_dot([x, x], **{name: "bogus"}))(torch.ones(2, 3, 3))


def test_ways_of_jax():
    jax = pytest.importorskip("jax")
    for name in ("objective", "device", "precision"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            jax.jit(lambda x: mmchain.multi_dot([x, x], **{name: "bogus"}))(jax.numpy.ones((3, 3)))
        with pytest.raises(ValueError, match=f"^{name}: "):
            mmchain.multi_dot([jax.numpy.ones((3, 3), int)] * 3, **{name: "bogus"})


def test_a_device_that_is_not_here():
    if any(d["name"].startswith("cuda") and d["available"] for d in mmchain.info()["devices"]):
        pytest.skip("there is a GPU")
    for name, way in ways():
        with pytest.raises((RuntimeError, ValueError), match="^device: "):
            way(device="cuda")


def test_tolerances():
    for factors, options in (([WHOLE, WHOLE], {"checked": True}), ([WHOLE, WHOLE], {"mod": 7}), ([mmchain.inv(A), A], {})):
        with pytest.raises((RuntimeError, ValueError), match="^tolerance: "):
            mmchain.multi_dot(factors, tolerance=1e-3, **options)
    np.testing.assert_allclose(mmchain.multi_dot([mmchain.lower(A), A], tolerance=1e-3), A @ A)
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="^tolerance: expected None with sparse factors, got 0.001"):
        mmchain.multi_dot([sparse.csr_array(A), A], tolerance=1e-3)


def special():
    yield mmchain.lower(A)
    yield mmchain.inv([A, A])
    sparse = pytest.importorskip("scipy.sparse")
    yield sparse.csr_array(A)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mmchain.multi_dot([x, A], checked=True),
        lambda x: mmchain.multi_dot([x, A], mod=7),
        lambda x: mmchain.multi_dot([x, A], semiring="max-plus"),
        lambda x: mmchain.multi_dot([x, A], scaled=True),
        lambda x: mmchain.gradients([x, A], A),
        lambda x: mmchain.Ranges([x, x]),
        lambda x: mmchain.scan([x, x]),
        lambda x: mmchain.recurrence([x, x], A),
    ],
)
def test_factors_that_are_special(call):
    for factor in special():
        with pytest.raises(TypeError, match="^arrays: expected plain dense arrays"):
            call(factor)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: mmchain.scan(np.ma.stack([m, m])),
        lambda m: mmchain.recurrence(np.stack([A, A]), m),
        lambda m: mmchain.gradients([m, m], A),
        lambda m: mmchain.gradients([A, A], m),
        lambda m: mmchain.Ranges([m, m]),
        lambda m: mmchain.multi_dot([mmchain.inv(m), A]),
        lambda m: mmchain.multi_dot([mmchain.inv(A), m]),
    ],
)
def test_masks_are_not_lost(call):
    with pytest.raises(TypeError, match="masked"):
        call(np.ma.masked_array(A, A > 1))
    call(np.ma.masked_invalid(A))  # which has none


def test_overflow_in_a_thread_without_python_frames():
    import _thread
    import time

    big, out = np.full((2, 2), 1e308), np.zeros((2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _thread.start_new_thread(mmchain.multi_dot, ([big, big],), {"out": out})
        deadline = time.monotonic() + 20
        while not np.isinf(out).all() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert np.isinf(out).all()


def test_libraries_are_not_mixed():
    torch = pytest.importorskip("torch")
    for call in (lambda x: mmchain.gradients(x, A), mmchain.Ranges):
        with pytest.raises(TypeError, match="one library"):
            call([A, torch.ones(3, 3)])


@pytest.mark.parametrize("chain", ["f64:3x3^4", "f64:3x4x5@4", "f32:3x3x3@4:nN", [A, A], [np.stack([A, A]), A, A]])
def test_bench_takes_what_plan_takes(chain):
    result = mmchain.bench(chain, seconds=0.001)
    assert result["chain"] == mmchain.plan(chain).chain


def test_bench_of_structure():
    with pytest.raises(TypeError, match="^chain: "):
        mmchain.bench("f64:3x3x3:lower,N", seconds=0.001)


HUGE = np.full((3, 3), 1e300)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mmchain.multi_dot([HUGE, HUGE]),
        lambda: mmchain.multi_dot([HUGE] * 3, precision="faithful"),
        lambda: mmchain.multi_dot([HUGE, A.astype("f4"), HUGE]),
        lambda: mmchain.plan("f64:3x3x3").execute([HUGE, HUGE]),
        lambda: mmchain.multi_dot([mmchain.lower(HUGE), HUGE]),
    ],
)
def test_warnings_point_at_the_caller(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    told = [warning for warning in seen if "multi_dot" in str(warning.message)]
    assert told and {warning.filename for warning in told} == {__file__}


STACK = np.stack([A] * 4)


@pytest.mark.parametrize(
    "kind, name, call",
    [
        (TypeError, "mod", lambda: mmchain.multi_dot([WHOLE, WHOLE], mod=7.0)),
        (TypeError, "mod", lambda: mmchain.plan([WHOLE, WHOLE], mod=7.0)),
        (TypeError, "tolerance", lambda: mmchain.multi_dot([A, A], tolerance="x")),
        (TypeError, "max_slowdown", lambda: mmchain.plan([A, A], objective="energy", max_slowdown="a")),
        (TypeError, "format", lambda: mmchain.plan([A, A]).explain(None)),
        (TypeError, "memory_limit", lambda: mmchain.Ranges(STACK, memory_limit="a")),
        (ValueError, "memory_limit", lambda: mmchain.Ranges(STACK, memory_limit=-1)),
        (ValueError, "memory_limit", lambda: mmchain.plan([A, A], memory_limit=-1)),
        (ValueError, "memory_limit", lambda: mmchain.gradients([A, A], A, memory_limit=-1)),
        (ValueError, "chain", lambda: mmchain.plan("f64:3x3\0x3")),
        (TypeError, "out", lambda: mmchain.scan(STACK, out="x")),
        (TypeError, "out", lambda: mmchain.recurrence(STACK, A[0], out="x")),
        (ValueError, "out", lambda: mmchain.multi_dot([mmchain.lower(A), A], out=np.empty((3, 3), "f4"))),
        (ValueError, "out", lambda: mmchain.multi_dot([mmchain.lower(A), A], out=np.empty((3, 3), order="F"))),
        (TypeError, "inv", lambda: mmchain.inv([mmchain.inv([A, A])])),
        (TypeError, "Ranges", lambda: copy.deepcopy(mmchain.Ranges(STACK))),
        (TypeError, "Ranges", lambda: pickle.dumps(mmchain.Ranges(STACK))),
    ],
)
def test_errors_name_the_argument(kind, name, call):
    with pytest.raises(kind, match=f"^{name}: expected "):
        call()


def test_results_between_each_others_lines():
    for shape, initial in (((4, 3), A[0]), ((4, 3, 3), A)):
        out = np.empty(shape, order="F")
        assert np.shares_memory(mmchain.recurrence(STACK, initial, out=out), out)
        np.testing.assert_array_equal(out, mmchain.recurrence(STACK, initial))


def test_plans_over_semirings_need_no_objective():
    plan = mmchain.plan("f64~max-plus:3x3x3")
    np.testing.assert_array_equal(plan.execute([A, A + 1]), mmchain.multi_dot([A, A + 1], semiring="max-plus"))


def test_a_handler_may_ask_the_row_that_is_at_work():
    row = mmchain.Ranges(STACK)
    with row._lock:  # as a signal's handler finds it
        np.testing.assert_allclose(row.product(0, 1), A)
