"""Calls: finds the calls that led to the line of a culprit, by a second run of the same scenario.

    with_calls(result, folder)                          # afterwards result.run.chains has that chain
    with_calls_along(subject, run, findings, schedule)  # the same of a run without time

Several functions may call one line, and a backend keeps only the calls that led to it first. So the simulation repeats
the run, and inspects each call at the culprit's site. If the culprit left the op out, the chain of the same rank in
another step is used, or else that of a peer. Runs of other backends, and long runs, keep the chain that they have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dpsim.backend.journal.call_site import Seen, watched
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.chain import Chain
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Run
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.runner import SIMULATION, Result, find_backend
from dpsim.scenario.to_world import prepare

LONGEST = 100_000
"""The largest number of records of a run that is repeated."""


def with_calls(result: Result, base: Path | None = None) -> None:
    """Adds to a run the calls that led to its culprit's line. `base` is the folder of the scenario's files."""

    def again() -> None:
        _, args, _ = prepare(result.scenario, base)
        find_backend(SIMULATION).run(result.world, result.scenario.protocol.name, args)

    if result.run.backend == SIMULATION:
        _look(result.run, result.findings, again)


def with_calls_along(subject: Subject, run: Run, findings: Sequence[Finding], schedule: Sequence[str]) -> None:
    """Adds the same to a run of the simulation along a schedule."""

    def again() -> None:
        follow = ScheduleReplay(schedule, strict=False, longest=subject.longest)
        follow.begin()
        with suppress(CutOff):
            subject.run(follow)

    _look(run, findings, again)


def _look(run: Run, findings: Sequence[Finding], again: Callable[[], None]) -> None:
    culprit = findings[0].culprit if findings else None
    if culprit is None or culprit.where not in run.chains or run.lost or sum(map(len, run.journals)) > LONGEST:
        return
    with watched(culprit.site) as seen, no_breakpoints():
        again()
    chain = of_culprit(seen, culprit)
    if chain:
        run.chains = {**run.chains, culprit.where: chain}


@contextmanager
def no_breakpoints() -> Iterator[None]:
    """Lets `breakpoint()` in a program do nothing, in runs that only the report needs."""
    kept = sys.breakpointhook
    sys.breakpointhook = lambda *_, **__: None
    try:
        yield
    finally:
        sys.breakpointhook = kept


def of_culprit(seen: Seen, culprit: Culprit) -> Chain:
    """Returns the chain of the culprit's op. If it left the op out, the chain of the nearest such op; or empty.

    >>> seen = {(0, 3, "a.py:1"): (("f", "a.py:1"),), (1, 2, "a.py:1"): (("g", "a.py:1"),)}
    >>> of_culprit(seen, Culprit(1, 3, "agree", "a.py:1"))
    (('g', 'a.py:1'),)
    """
    here = [(rank, step) for rank, step, where in seen if where == culprit.where]
    own = [(rank, step) for rank, step in here if rank == culprit.rank]
    nearest = _nearest(own, culprit.step) or _nearest(here, culprit.step)
    return () if nearest is None else seen[(*nearest, culprit.where)]


def _nearest(ops: Iterable[tuple[int, int]], step: int) -> tuple[int, int] | None:
    return min(ops, key=lambda one: (abs(one[1] - step), one[1]), default=None)
