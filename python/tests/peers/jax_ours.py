"""A plugin of pytest: in JAX's own tests jax.numpy.linalg.multi_dot is ours, and it must have been called."""

import jax.numpy as jnp
import pytest

import mmchain

calls = 0


def ours(arrays, *, precision=None):
    """JAX's function makes JAX arrays of what it is given, in the dtypes that are switched on."""
    global calls
    calls += 1
    return mmchain.multi_dot([jnp.asarray(array) for array in arrays])


jnp.linalg.multi_dot = ours


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"ours was called {calls} times")


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.OK and calls == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
