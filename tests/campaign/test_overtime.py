"""Tests that the time budget stops programs that make no calls of the contract: loops in Python, and calls without a
record.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from types import FunctionType

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.cli.timer import Timer
from dpsim.contract.interface import Rank
from dpsim.contract.world import World
from tests.programs import Script, Scripted


async def computes(rank: Rank) -> None:
    while True:
        pass


async def views(rank: Rank) -> None:
    buffer = rank.stream("main").alloc(2, "int32", "x")
    while True:
        buffer.view(0, 1)


async def streams(rank: Rank) -> None:
    while True:
        rank.stream("main")


async def in_a_library(rank: Rank) -> None:
    sum(1 for _ in itertools.count())


async def catches_all(rank: Rank) -> None:
    seen = 0
    while seen < 3:
        try:
            while True:
                pass
        except BaseException:
            seen += 1
    while True:
        pass


async def locks(rank: Rank) -> None:
    """The program blocks in C on a lock that it holds, so only a signal can stop it."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


LOOPS = (computes, views, streams, in_a_library, catches_all, locks)


@pytest.mark.parametrize("threaded", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["alone", "threaded"])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_budget_ends_a_loop_that_leaves_no_record(loop: Script, threaded: bool) -> None:
    program = Scripted(loop)
    program.threaded = threaded
    found = explore_subject(Subject(World(2, ()), program), seconds=0.2).exploration
    assert (found.verdict, found.runs) == ("sampled", 0)
    said, line, *_ = found.stood.splitlines()
    assert said == "a run stood here when the time was up:"
    assert re.match(r"rank [01] runs on at tests/campaign/test_overtime\.py:\d+, ", line)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_budget_ends_a_loop_in_a_process_and_other_worlds_are_explored(jobs: int) -> None:
    async def ends(rank: Rank) -> None:
        pass

    subjects = [Subject(World(1, ()), Scripted(script)) for script in (ends, computes)]
    first, second = explore_all(subjects, "dpor", jobs=jobs, seconds=0.4)
    assert (first.exploration.runs, second.exploration.runs) == (1, 0)
    assert "test_overtime.py:" in second.exploration.stood


def test_a_budget_ends_a_loop_in_a_thread_that_is_not_main() -> None:
    stood: list[str] = []

    def explores() -> None:
        stood.append(explore_subject(Subject(World(1, ()), Scripted(computes)), seconds=0.2).exploration.stood)

    thread = threading.Thread(target=explores)
    thread.start()
    thread.join()
    assert "rank 0 runs on at" in stood[0]


def shows() -> None:
    """Runs with other globals, of a module of the command line."""
    globals()["timer"].stop()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        pass


def test_the_place_is_a_line_of_the_program_while_the_command_line_shows_its_progress() -> None:
    """A timer interrupts the program. The handler, code of the command line, still runs when the time is up."""
    names: dict[str, object] = {"__name__": "dpsim.cli.shown", "time": time}
    timer = names["timer"] = Timer(0.05, FunctionType(shows.__code__, names))
    timer.start()
    found = explore_subject(Subject(World(1, ()), Scripted(computes)), seconds=0.2).exploration
    line = computes.__code__.co_firstlineno + 1
    assert re.search(rf"rank 0 runs on at tests/campaign/test_overtime\.py:({line}|{line + 1}), ", found.stood)


def test_a_run_that_ends_in_time_is_not_interrupted() -> None:
    async def ends(rank: Rank) -> None:
        pass

    before = threading.active_count()
    found = explore_subject(Subject(World(2, ()), Scripted(ends)), seconds=60).exploration
    assert (found.runs, found.stood) == (1, "")
    assert threading.active_count() == before


def test_the_budget_interrupts_programs_and_not_the_search() -> None:
    """The time is up before the program starts, and the search takes longer than the check of the clock. The interrupt
    must not stop the search itself.
    """
    from dpsim.sim.hosts.overtime import interrupted

    with interrupted(lambda: True):
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
