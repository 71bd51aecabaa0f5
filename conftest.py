"""pytest configuration for this repository: reproducible Hypothesis, the folder of real traces, and the order of GPU
tests.

The Hypothesis profile `ci` (default) draws the same examples in every run, so a red build is red again. The profile
`nightly` draws many new ones: HYPOTHESIS_PROFILE=nightly pytest. Neither has a deadline, because tests do not test
time.

Tests on GPUs often end their worker processes, which start slowly, so NCCL has a reserve of workers (`real.crew`). If a
session has only GPU tests, this file spreads those that end workers among the others, so a new reserve starts
meanwhile. The summary shows the time of starts and recoveries.

The museum's exhibits run on the simulation in every session. On gloo, a third of them run with the slow tests, and the
others with the nightly ones. No test is both slow and nightly. This file does not load the plugin of dpsim: pytest
loads it because dpsim is installed, as for every user.
"""

import gc
import os
import random
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import cast

import pytest
from hypothesis import settings

from dpsim.runner import find_backend
from real.backend import GlooBackend, NcclBackend
from tests.night import NO_TIME

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", derandomize=False, deadline=None, print_blob=True, max_examples=2_000)
os.environ.setdefault("DPSIM_RESULTS", "0")  # thousands of tests fail on purpose; the tests of results turn them on
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
gc.disable()  # until all tests are collected: what pytest allocates until then lives on, and it is a third of that time


@pytest.fixture(scope="session")
def dpsim_data() -> Path:
    """Returns the folder of real traces, from the environment variable DPSIM_DATA. Skips the test if there is none."""
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
"""Start-up exhibits that end without a time-out in every schedule."""


LONG_ON_GLOO = (
    *("azure_code_dp2", "azure_code_dp4", "another_flag", "engine_balanced", "skip_one", "startup_mismatch"),
    *("startup_death", "startup_hash", "startup_refused", "skip_expert", "engine_orphan", "engine_two_waves"),
    *("whole_engine", "whole_engine_death", "whole_engine_dp", "whole_engine_shutdown", "whole_engine_small"),
    "whole_engine_split",
)
"""Scenarios that start many processes, or that wait until gloo reports a hang. Most museum exhibits wait too."""


BY_TIME = ("swapped-counts",)
"""Exhibits in which a front end must receive counts at one moment. On a GPU, it receives them at another one."""


def _times_out(item: pytest.Item) -> bool:
    """Returns whether an item is a start-up exhibit that ends by a time-out of 100 seconds to 15 minutes.

    An engine core waits that long for a worker that hangs. In real time this takes too long, so these exhibits run only
    on the simulation. M-ST-12, which few schedules show, also runs only there.
    """
    stem = item.path.stem
    others = "eplb-flag-mismatch", "multinode-shape-config", "port-toctou"
    of_start = stem not in ENDS_AT_ONCE and (stem.startswith(("m-st-", "m-cf-")) or stem in others)
    return item.name in ("gloo", "nccl") and item.path.parent.name == "museum" and of_start


def _has_another_moment(item: pytest.Item) -> bool:
    return item.name == "nccl" and item.path.parent.name == "museum" and item.path.stem in BY_TIME


@cache
def third_of(museum: Path) -> set[Path]:
    """Returns every third exhibit. The choice does not depend on what a session collects."""
    return {*sorted(museum.glob("*.yaml"))[::3]}


def refuse_two_runs(items: Iterable[pytest.Item]) -> None:
    """Raises UsageError for a test with both markers: `make slow` and `make nightly` share no test."""
    for item in items:
        if item.get_closest_marker("slow") and item.get_closest_marker("nightly"):
            raise pytest.UsageError(f"{item.nodeid}: expected the marker slow or the marker nightly; got both")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Imports the test modules from the last to the first in each second worker of xdist.

    Each worker imports all test modules, and in a fresh clone none has bytecode. pytest takes most of that time to
    rewrite their assertions. All other workers start with the first module, so each worker compiles half of them and
    reads the bytecode that the others wrote.
    """
    if getattr(session.config, "workerinput", {}).get("workerid", "")[-1:] not in tuple("13579"):
        return
    folders = [path for path in map(Path, session.config.args) if path.is_dir()]
    for file in sorted((file for folder in folders for file in folder.rglob("test_*.py")), reverse=True):
        with suppress(Exception, pytest.skip.Exception):  # the collection imports it again and reports the error
            import_module(".".join(file.resolve().relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a part of the night (`tests.night`). A variable of the environment would also reach the processes
    of tests.
    """
    parser.addoption("--night-ends", type=float, default=float("inf"), help="begin no test after this time (epoch)")
    parser.addoption("--night-seed", default="", help="run the tests in another order")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves a test out if the time of its part of the night is up (`tests.night`)."""
    if time.time() > item.config.getoption("night_ends"):
        pytest.skip(NO_TIME)


def in_order_of_night(items: Sequence[pytest.Item], seed: str) -> list[pytest.Item]:
    """Returns the tests in the order of a night, which is another one in each night. The tests of a file stay together,
    for they share fixtures. Their order is drawn, too, because the tests of one file may last longer than their part.
    """
    draw = random.Random(seed)
    files = sorted({item.path for item in items})
    turns = dict(zip(files, draw.sample(range(len(files)), len(files)), strict=True))
    return sorted(draw.sample(items, len(items)), key=lambda item: turns[item.path])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    items[:] = [item for item in items if not _times_out(item) and not _has_another_moment(item)]
    for item in items:
        if item.name == "gloo" and item.path.parent.name == "museum":
            item.add_marker("slow" if item.path in third_of(item.path.parent) else "nightly")
        elif item.name == "gloo" and item.path.stem in LONG_ON_GLOO:
            item.add_marker("slow")
    refuse_two_runs(items)
    if seed := config.getoption("night_seed"):
        items[:] = in_order_of_night(items, seed)
    yield  # pytest deselects tests here
    if all(item.get_closest_marker("gpu") for item in items):
        trouble = [item for item in items if item.path.name == "test_trouble.py"]
        others = [item for item in items if item not in trouble]
        places = [((at + 0.5) / len(those), item) for those in (others, trouble) for at, item in enumerate(those)]
        items[:] = [item for _, item in sorted(places, key=itemgetter(0))]


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # ten thousand items live on, so the garbage collector should skip them in each test
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # reference counts free nearly all that the tests allocate
    if any(item.get_closest_marker("gpu") for item in session.items):
        cast(NcclBackend, find_backend("nccl")).pool.crew.keeps_reserve = True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends gloo's processes after the last test that shares them: idle ones poll their sockets, a tenth of a core.

    Only a worker of xdist runs the tests of a group one after another. Elsewhere a later test would start them again.
    """
    if hasattr(item.config, "workerinput") and _is_of_gloo(item) and not (nextitem and _is_of_gloo(nextitem)):
        cast(GlooBackend, find_backend("gloo")).close()


def _is_of_gloo(item: pytest.Item) -> bool:
    return any(marker.args == ("gloo",) for marker in item.iter_markers("xdist_group"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent = cast(NcclBackend, find_backend("nccl")).pool.spent
    if spent.times:
        terminalreporter.write_line(f"workers on GPUs: {spent}")
