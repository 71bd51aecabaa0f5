"""Tests what a run of the simulation returns, also if it is stopped. The backend itself keeps no state of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, TAKE_TIMEOUT
from dpsim.contract.schedule import Candidate, CutOff, OutOfTime, RunStopped, Strategy
from dpsim.sim.backend import SimBackend, SimRun
from tests.programs import Script, Scripted, world_of

WORLD = world_of(2, hosts=["h"])


class Stops(Strategy):
    """A strategy that stops the run after some picks. A run that ends before is complete."""

    def __init__(self, picks: int) -> None:
        self.left = picks

    def pick(self, candidates: Sequence[Candidate]) -> int:
        self.left -= 1
        if self.left < 0:
            raise CutOff("enough")
        return 0

    def draw(self, label: str, options: Sequence[str]) -> int:
        return 0


async def script(rank: Rank) -> None:
    for rank.step in range(4):
        rank.send(1 - rank.rank, "box", rank.step, "send")
        while await rank.mailbox("box").poll("poll") is None:
            pass


async def waits(rank: Rank) -> None:
    await rank.mailbox("never").get("get", timeout_ns=1_000)
    await script(rank)


def run(picks: int, program: Script = script) -> SimRun:
    return SimBackend(choose=Stops(picks)).run_program(WORLD, Scripted(program), None)


def stopped(picks: int, program: Script = script) -> SimRun:
    with pytest.raises(CutOff) as caught:
        run(picks, program)
    assert isinstance(caught.value.run, SimRun)
    return caught.value.run


def test_a_stopped_run_keeps_the_records_so_far() -> None:
    whole, part = run(1_000), stopped(5)
    assert whole.finished
    assert part.ends == ["blocked", "blocked"]
    assert part.order == whole.order[:5]
    assert all(one == other[: len(one)] for one, other in zip(part.journals, whole.journals, strict=True))
    assert 0 < sum(map(len, part.journals)) < sum(map(len, whole.journals))
    assert all(one == other[: len(one)] for one, other in zip(part.learned, whole.learned, strict=True))


def test_a_stopped_run_says_whether_an_actor_waited_with_a_timeout() -> None:
    assert not stopped(5).timeouts
    timed_out = stopped(5, waits)
    assert timed_out.timeouts
    assert any(raw[KIND] == "take" and raw[TAKE_TIMEOUT] is not None for raw in timed_out.journals[0])


def test_a_caller_may_stop_a_run_from_its_progress() -> None:
    def expired(step: int) -> None:
        raise OutOfTime

    with pytest.raises(RunStopped) as caught:
        SimBackend(choose=Stops(1_000_000)).run_program(WORLD, Scripted(polls_for_long), None, expired)
    assert len(caught.value.run.journals[0]) > 100


async def polls_for_long(rank: Rank) -> None:
    for _ in range(1_000):
        await rank.mailbox("box").poll("poll")


def test_a_backend_keeps_nothing_of_a_run() -> None:
    backend = SimBackend(keep_order=True)
    before = dict(vars(backend))
    first = backend.run_program(WORLD, Scripted(script), None)
    assert vars(backend) == before
    second = backend.run_program(WORLD, Scripted(script), None)
    assert first == second
    assert first.order is not second.order
