"""Tests that gloo and exploring agree on whether a rank can end a collective before another rank has joined it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.judge import judge
from dpsim.contract.world import Backend
from dpsim.diagnose.timeouts import passed_timeouts
from tests.programs import world_of
from tests.properties import every, slow_but
from tests.soundness import programs

pytest.importorskip("torch")

pytestmark = pytest.mark.xdist_group("gloo")


@pytest.fixture
def gloo(dpsim_backend: Callable[..., Backend]) -> Backend:
    """Returns the gloo backend that other tests have started."""
    return dpsim_backend("gloo", size=4)


def on_gloo(backend: Backend, ranks: int, args: dict[str, Any]) -> set[str]:
    """Runs the program on gloo, and returns the classes of the findings."""
    world = world_of(ranks, hosts=["h"], stall_ns=10_000_000_000)
    return {finding.klass for finding in judge(world, backend.run(world, "sound_late", args))}


def explored(ranks: int, args: dict[str, Any]) -> set[str]:
    """Explores the program, and returns the classes of the first failure's findings; empty if dpsim proves the
    world.
    """
    found = explore_subject(Subject(world_of(ranks, hosts=["h"]), programs.Late(), args), "dpor")
    assert found.verdict in ("proven", "violated")
    return {finding.klass for finding in found.findings}


EARLY = [
    ("broadcast", 1),
    ("all_reduce of nothing", 0),
    ("all_gather, rank 0 brings nothing", 0),
    ("gather", 3),
    *(pytest.param("broadcast", late, marks=pytest.mark.slow) for late in (2, 3)),
    pytest.param("all_reduce of nothing", 3, marks=pytest.mark.slow),
    pytest.param("scatter", 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("what", "late"), EARLY)
def test_exploring_finds_what_gloo_shows(gloo: Backend, what: str, late: int) -> None:
    """Runs collectives that some rank on gloo ends before the late rank joins. Exploring must find this. Only members
    that pass data on to another wait for it, and no rank waits for a member without elements.
    """
    args = {"what": what, "late": late}
    shown = on_gloo(gloo, 4, args)
    if shown != {"CRASH:ASSERTIONERROR"}:
        pytest.fail(f"on gloo: {shown or 'nothing'}")  # pytest.fail, because the test may expect an AssertionError
    assert explored(4, args) == shown


MEETINGS = [
    *((what, late) for what in ("all_reduce", "reduce_scatter", "all_gather") for late in (0, 3)),
    ("broadcast", 0),
    ("scatter", 0),
    ("all_gather, rank 0 brings nothing", 3),
]


@pytest.mark.parametrize(("what", "late"), slow_but(MEETINGS, every(3, MEETINGS).__contains__))
def test_exploring_proves_what_gloo_holds(gloo: Backend, what: str, late: int) -> None:
    """Runs collectives that no rank can end without data of the late rank. gloo and exploring report no finding."""
    args = {"what": what, "late": late}
    assert on_gloo(gloo, 4, args) == explored(4, args) == set()


@pytest.mark.parametrize(
    ("ranks", "what", "late"),
    [
        (2, "broadcast", 1),
        (2, "all_to_all, rank 0 gets nothing", 1),
        (4, "all_to_all, rank 0 gets nothing", 3),
        (4, "all_to_all of nothing", 3),
    ],
)
def test_gloo_waits_where_the_contract_does_not_promise_it(gloo: Backend, ranks: int, what: str, late: int) -> None:
    """Runs collectives in which gloo waits longer than the contract promises, so exploring may find more. A send of
    gloo ends only when its peer receives, even without elements.
    """
    assert on_gloo(gloo, ranks, {"what": what, "late": late}) == set()


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("sleep_ns", "timeout_ns", "passes"), [(400, 20, True), (1, 20_000, False)])
def test_a_time_out_passes_on_gloo_where_exploring_finds_it(
    gloo: Backend, ranks: int, sleep_ns: int, timeout_ns: int, passes: bool
) -> None:
    """Runs a chain in which the last of up to four ranks sleeps, and then each rank sends to the rank before it. Rank 0
    waits with a time-out, which passes on gloo exactly if exploring finds that.
    """
    args = {"ranks": ranks, "sleep_ns": sleep_ns * 1_000_000, "timeout_ns": timeout_ns * 1_000_000}
    world = world_of(ranks, hosts=["h"], stall_ns=10_000_000_000)
    run = gloo.run(world, "sound_chain", args)
    found = explore_subject(Subject(world, programs.Chain(), args), "dpor")
    assert found.verdict == ("violated" if passes else "proven")
    assert "CRASH:ASSERTIONERROR" in {one.klass for one in judge(world, run)} if passes else not judge(world, run)
    assert bool(passed_timeouts(run)) == passes
