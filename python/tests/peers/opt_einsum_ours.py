"""A plugin of pytest: in opt_einsum's own tests "auto" is mmchain's path, and it must have been asked."""

import opt_einsum.paths
import pytest

from mmchain import _einsum

asked = 0


def ours(*arguments, **options):
    global asked
    asked += 1
    return _einsum.optimize(*arguments, **options)


opt_einsum.paths._PATH_OPTIONS["auto"] = ours


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"ours was asked for {asked} paths")


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.OK and asked == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
