"""Many threads at once, and forks."""

import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import mmchain
from mmchain import _mmchain
from chains import assert_close, random_chain, random_dims


def run_threads(count, work):
    failures = []

    def guarded(t):
        try:
            work(t)
        except BaseException as failure:  # noqa: B036
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(t,)) for t in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_threads_share_plans_and_cache():
    rng = np.random.default_rng(5)
    chains = [random_chain(rng, random_dims(rng, 4, 60)) for _ in range(8)]
    expected = [mmchain.multi_dot(arrays) for arrays in chains]
    plans = [mmchain.plan(arrays) for arrays in chains]
    mmchain.clear_cache()

    def work(t):
        for i in range(150):
            c = (i * 7 + t) % len(chains)
            np.testing.assert_array_equal(mmchain.multi_dot(chains[c]), expected[c])
            np.testing.assert_array_equal(plans[c].execute(chains[c]), expected[c])
            if t == 0 and i % 50 == 0:
                mmchain.clear_cache()

    run_threads(8, work)


def test_the_interpreter_is_free_meanwhile():
    a = np.ones((900, 900))
    mmchain.multi_dot([a, a, a])
    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0.0005)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        time.sleep(0.01)
        during = 0
        for _ in range(8):
            before = turns[0]
            mmchain.multi_dot([a, a, a])
            during += turns[0] - before
    finally:
        stop.set()
        counter.join()
    assert during >= 8


def in_child(work, arrays):
    """Runs work(arrays) in a fork; its exit status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work(arrays)
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    pytest.fail("the child hangs")


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@fork
def test_fork_plans_anew(rng):
    arrays = random_chain(rng, [40, 50, 60, 70])
    plan = mmchain.plan(arrays)
    expected = plan.execute(arrays)
    mmchain.multi_dot(arrays)

    def work(arrays):
        assert mmchain.info()["cache"] == {"plans": 0, "workspace_bytes": 0}
        for _ in range(3):
            np.testing.assert_array_equal(mmchain.multi_dot(arrays), expected)
            np.testing.assert_array_equal(plan.execute(arrays), expected)
        assert plan.order == mmchain.plan(arrays).order
        assert in_child(lambda a: plan.execute(a), arrays) == 0

    assert in_child(work, arrays) == 0
    np.testing.assert_array_equal(plan.execute(arrays), expected)


@fork
def test_fork_while_threads_work(rng):
    arrays = random_chain(rng, [200, 210, 220, 230])
    expected = mmchain.multi_dot(arrays)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            mmchain.multi_dot(arrays)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda a: assert_close(mmchain.multi_dot(a), a), arrays) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    np.testing.assert_allclose(mmchain.multi_dot(arrays), expected)


def _product(arrays):
    return mmchain.multi_dot(arrays)


@fork
def test_process_pool(rng):
    arrays = random_chain(rng, [20, 30, 40, 10])
    mmchain.multi_dot(arrays)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for result in pool.map(_product, [arrays] * 6):
            assert_close(result, arrays)


@fork
def test_memory_of_the_parent_stays_the_parents():
    array = _mmchain.Array("cpu", "f64", (3,))

    def work(array):
        with pytest.raises(BufferError, match="forked"):
            array.__dlpack__()

    assert in_child(work, array) == 0
    assert array.__dlpack_device__() == (1, 0)


def control_c(work):
    """Sends SIGINT to work, which must end by it soon; the whole takes many seconds."""
    sent = []

    def send():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    waited = time.monotonic() - sent[0]
    thread.join()
    print(f"stopped after {waited:.2f} s")
    assert waited < 5  # 0.2 s on two idle cores


on_main_thread = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to another thread"
)


@on_main_thread
@pytest.mark.parametrize(
    ("dims", "dtype"),
    [([4500, 4500, 4500], "f8"), ([2000] * 40, "f8"), ([4500, 4500, 4500], "f2")],
)
def test_control_c(dims, dtype):
    a = np.ones((dims[0], dims[0]), dtype)
    arrays = [a, a] if len(dims) == 3 else [a + i for i in range(2)] * (len(dims) // 2)
    before = mmchain.multi_dot([np.ones((300, 300))] * 3)
    control_c(lambda: mmchain.multi_dot(arrays))
    np.testing.assert_array_equal(mmchain.multi_dot([np.ones((300, 300))] * 3), before)


@on_main_thread
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((10000, 64, 64), {"semiring": "log"}),  # by threads, in blocks
        ((20, 2500, 2500), {}),  # by the device's products, in pieces
    ],
)
def test_control_c_in_a_scan(shape, options):
    factors = np.broadcast_to(np.full(shape[-2:], 1 / shape[-1]), shape)
    small = np.broadcast_to(np.full((8, 8), 1 / 8), (1000, 8, 8))
    before = mmchain.scan(small)
    control_c(lambda: mmchain.scan(factors, **options))
    np.testing.assert_array_equal(mmchain.scan(small), before)


@on_main_thread
def test_control_c_in_ranges():
    factors = np.broadcast_to(np.full((1500, 1500), 1 / 1500), (120, 1500, 1500))
    row = mmchain.Ranges(factors)
    control_c(lambda: row.product(1, 120))
    np.testing.assert_allclose(row.product(3, 6), factors[0], rtol=1e-12)


@on_main_thread
def test_control_c_in_plain_loops():
    a = np.ones((2000, 2000))
    control_c(lambda: mmchain.multi_dot([a, a], device="ref"))


@on_main_thread
def test_control_c_in_a_sparse_chain():
    sparse = pytest.importorskip("scipy.sparse")
    n, each = 40000, 400
    columns = (np.arange(n)[:, None] % 100 + np.arange(each) * (n // each)).ravel()
    a = sparse.csr_array((np.ones(n * each), columns, np.arange(n + 1) * each), shape=(n, n))
    control_c(lambda: mmchain.multi_dot([a, a]))


@on_main_thread
def test_control_c_in_a_measurement():
    try:
        mmchain.tune(set=[(8, 8, 8)], budget=0.01)
    except RuntimeError as failure:
        pytest.skip(str(failure))
    control_c(lambda: mmchain.tune(set=[(2000, 2000, 2000)], budget=30))
