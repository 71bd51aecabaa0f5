"""For the tests of this repository: reproducible Hypothesis, the folder of real traces, and what GPUs need.

Hypothesis profiles: `ci` (default) draws the same examples in every run, so a red build is red again. `nightly` draws
new ones, and many: HYPOTHESIS_PROFILE=nightly pytest. Neither has a deadline, since the tests do not test times.

Tests on GPUs end their workers often, and a start there takes seconds: those of NCCL have a reserve (`real.crew`).
If all tests are of this kind, those that end their workers are spread among the others, during which a new reserve
starts. The summary shows the time of starts and recoveries. The museum's exhibits run on the simulation in every run of
the tests, and on gloo with those that are slow. No test is both slow and nightly.

This file does not name the plugin of dpsim: pytest loads it because dpsim is installed, as for every user.
"""

import gc
import os
from collections.abc import Generator, Iterable
from operator import itemgetter
from pathlib import Path
from typing import cast

import pytest
from hypothesis import settings

from dpsim.runner import find_backend
from real.backend import NcclBackend

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", derandomize=False, deadline=None, print_blob=True, max_examples=2_000)
os.environ.setdefault("DPSIM_RESULTS", "0")  # thousands of tests fail on purpose; those of results turn it on
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def dpsim_data() -> Path:
    """The folder of real traces, from the environment variable DPSIM_DATA; skips the test if there is none."""
    data = os.environ.get("DPSIM_DATA")
    if not data:
        pytest.skip("needs the real traces: the environment variable DPSIM_DATA is not set to their folder")
    if not Path(data).is_dir():
        pytest.skip(f"needs the real traces: DPSIM_DATA is {data}, which is no folder")
    return Path(data)


ENDS_AT_ONCE = (
    *("m-cf-1", "m-cf-6", "m-cf-7", "m-st-1", "m-st-4", "m-st-7", "m-st-10", "m-st-11", "m-st-13"),
    *("numa-bind-hash", "start-refused"),
)
"""Exhibits of the start-up that end without a time-out, and in whatever schedule."""


LONG_ON_GLOO = (
    *("azure_code_dp2", "azure_code_dp4", "another_flag", "engine_balanced", "skip_one", "startup_mismatch"),
    *("startup_death", "whole_engine", "whole_engine_small", "whole_engine_split"),
)
"""They start many processes, or wait until a hang is known as one. Most exhibits of the museum wait so, too."""


BY_TIME = ("swapped-counts",)
"""Exhibits in which a front end has to hear counts at one moment. On a GPU the moment is another one."""


def _times_out(item: pytest.Item) -> bool:
    """Whether it is an exhibit of the start-up that ends by a time-out of 100 seconds to 15 minutes. Most do: an engine
    core waits that long for a worker that hangs. In real time these take too long, so they run on the simulation alone.
    So does M-ST-12, which few schedules show.
    """
    stem = item.path.stem
    others = "eplb-flag-mismatch", "multinode-shape-config", "port-toctou"
    of_start = stem not in ENDS_AT_ONCE and (stem.startswith(("m-st-", "m-cf-")) or stem in others)
    return item.name in ("gloo", "nccl") and item.path.parent.name == "museum" and of_start


def _has_another_moment(item: pytest.Item) -> bool:
    return item.name == "nccl" and item.path.parent.name == "museum" and item.path.stem in BY_TIME


def refuse_two_runs(items: Iterable[pytest.Item]) -> None:
    """Raise UsageError for a test with both markers: `make slow` and `make nightly` share no test."""
    for item in items:
        if item.get_closest_marker("slow") and item.get_closest_marker("nightly"):
            raise pytest.UsageError(f"{item.nodeid}: expected the marker slow or the marker nightly; got both")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    items[:] = [item for item in items if not _times_out(item) and not _has_another_moment(item)]
    for item in items:
        if item.name == "gloo" and (item.path.parent.name == "museum" or item.path.stem in LONG_ON_GLOO):
            item.add_marker("slow")
    refuse_two_runs(items)
    yield  # tests are deselected
    if all(item.get_closest_marker("gpu") for item in items):
        trouble = [item for item in items if item.path.name == "test_trouble.py"]
        others = [item for item in items if item not in trouble]
        places = [((at + 0.5) / len(those), item) for those in (others, trouble) for at, item in enumerate(those)]
        items[:] = [item for _, item in sorted(places, key=itemgetter(0))]


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # ten thousand items stay: the collector need not go through them in each test
    if any(item.get_closest_marker("gpu") for item in session.items):
        cast(NcclBackend, find_backend("nccl")).pool.crew.keeps_reserve = True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent = cast(NcclBackend, find_backend("nccl")).pool.spent
    if spent.times:
        terminalreporter.write_line(f"workers on GPUs: {spent}")
