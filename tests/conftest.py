"""pytest hooks for all tests of this repository: 5 % of the simulated runs run twice (`tests.determinism.repeat`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from dpsim.pytest_plugin import require_gpus
from tests.determinism.repeat import Repeats

repeats = Repeats(percent=float(os.environ.get("DPSIM_REPEAT", "5")))
_patched = pytest.MonkeyPatch()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "runs_once: what this test runs on the simulation cannot be run twice")


def pytest_sessionstart() -> None:
    from dpsim.sim.backend import SimBackend

    if repeats.percent > 0:
        _patched.setattr(SimBackend, "run_program", repeats.around(SimBackend.run_program))


def pytest_sessionfinish() -> None:
    _patched.undo()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test with the marker `gpu(n)` if there are fewer GPUs. The plugin does this only for tests of dpsim."""
    marker = item.get_closest_marker("gpu")
    if marker is not None and isinstance(item, pytest.Function):
        require_gpus(*marker.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    repeats.begin(item.nodeid, active=item.get_closest_marker("runs_once") is None)
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if repeats.runs:
        alone = f", {len(repeats.left_alone)} could not be" if repeats.left_alone else ""
        line = f"determinism: {repeats.repeated} of {repeats.runs} simulated runs were repeated{alone}"
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def session_repeats() -> Repeats:
    """Returns the repeats of this session."""
    return repeats
