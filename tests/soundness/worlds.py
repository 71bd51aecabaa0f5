"""What the tests in this folder share: they write a script, run or explore it, and ask what was found.

Each test asserts what has to hold. Where dpsim does not hold it yet, the test is marked `not_yet`: such a mark is
strict, so whoever repairs dpsim takes the mark away.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding, matches
from dpsim.checks.judge import judge
from dpsim.explore.strategies.dpor import Dpor
from dpsim.interface import Buffer, Rank, Stream
from dpsim.program import Program
from dpsim.schedule import CutOff
from dpsim.sim.backend import SimBackend
from dpsim.world import End, Run, World
from tests.worlds.case import world_of as world_of  # for the tests

Script = Callable[[Rank], Coroutine[Any, Any, None]]


class Scripted(Program):
    """Every rank runs the script, in step 0."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await self.script(rank)


def not_yet(reason: str) -> pytest.MarkDecorator:
    """The test fails today, by its assertion and by nothing else."""
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


# ---- runs


def prove(world: World, script: Script, strategy: str = "dpor") -> Explored:
    """Explore until every schedule is known, or 1,000 were run."""
    return explore_subject(Subject(world, Scripted(script)), strategy, schedules=1_000)


def timed(world: World, script: Script, **settings: Any) -> list[Finding]:
    """The findings of one run with time. `settings`: those of the simulation."""
    return judge(world, SimBackend(**settings).run_program(world, Scripted(script), None))


def run_under(world: World, script: Script, strategy: Any) -> Run:
    """One run without time, under a strategy that has begun."""
    return SimBackend(choose=strategy, memory=False).run_program(world, Scripted(script), None)


def all_ends(world: World, script: Script) -> set[tuple[End, ...]]:
    """How the ranks end, in each schedule."""
    strategy, ends = Dpor(), set()
    while strategy.begin():
        try:
            ends.add(tuple(run_under(world, script, strategy).ends))
            whole = True
        except CutOff:
            whole = False
        strategy.end(whole)
    return ends


def shows(findings: Sequence[Finding] | Explored, pattern: str) -> bool:
    """Whether a finding has a class of that pattern; of what was explored, in the run that shows the failure."""
    listed = findings.findings if isinstance(findings, Explored) else findings
    return any(matches(finding.klass, pattern) for finding in listed)


# ---- kernels


def put(target: Any, value: int) -> None:
    target[:] = value


def copy(source: Any, target: Any) -> None:
    target[:] = source


def look(source: Any) -> None:
    """It reads, and nothing comes of it."""


def filled(stream: Stream, site: str, size: int = 4, value: int = 1) -> Buffer:
    """A buffer of numbers, which a kernel on the stream writes."""
    buffer = stream.alloc(size, "int32", site)
    stream.launch(f"fill.{site}", put, writes=[buffer], args=(value,))
    return buffer
