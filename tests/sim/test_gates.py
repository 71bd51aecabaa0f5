"""Tests gates. A gate names the message that one poll or get of a mailbox took in an earlier run. A run with gates
takes the same messages, in every schedule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign.gates import gates_of
from dpsim.contract.gates import Gate
from dpsim.contract.interface import Rank
from dpsim.contract.ops import THREAD
from dpsim.contract.program import Program
from dpsim.contract.world import At, Message, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.testing.conformance.gates import GatesConformance
from tests.judged import judge
from tests.programs import world_of
from tests.sim.programs import MODES

MOMENT = 1_000
OUTSIDE = Message(0, "in", "from outside", by=1, at=At("conformance.tell", 1))
WORLD = world_of(3, services=("desk",), messages=(OUTSIDE,))


def runs(world: World, program: Program[Any]) -> list[Run]:
    """Returns the runs of a program in all modes."""
    return [SimBackend(choose=choose).run_program(world, program, None) for choose in MODES.values()]


class Threads(Program[Any]):
    """Two threads of rank 0 take messages from one mailbox, one by poll, the other first by get with a time-out."""

    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank:
            for number in range(2):
                rank.send(0, "in", (rank.rank, number), "tell")
            return

        async def beside(rank: Rank) -> None:
            for _ in range(2):
                await rank.mailbox("in").poll("look")

        thread = rank.start("u1", beside)
        first = await rank.mailbox("in").get("first", timeout_ns=MOMENT)
        second = await rank.mailbox("in").poll("second")
        await thread.join("join")
        if first is not None and second is None:
            rank.probe("apart")


@pytest.mark.parametrize(
    ("world", "program"), [(WORLD, GatesConformance()), (world_of(3), Threads())], ids=["services", "threads"]
)
def test_a_run_at_the_gates_of_another_run_has_its_journals(world: World, program: Program[Any]) -> None:
    """A run with the gates of an earlier run has the journals of that run, in any schedule. Without gates, at least one
    schedule has other journals.
    """
    simulated = runs(world, program)
    different = [one for at, one in enumerate(simulated) if all(one.journals != old.journals for old in simulated[:at])]
    assert len(different) > 3
    apart = 0
    for one in different:
        at_gates = replace(world, gates=gates_of(one))
        for other in runs(at_gates, program):
            assert by_thread(other) == by_thread(one)
            assert other.taken == one.taken
        apart += any(by_thread(other) != by_thread(one) for other in simulated)
    assert apart == len(different)


def by_thread(run: Run) -> Any:
    """Returns the records of each thread in its order. No message orders the records of two threads."""
    threads = [sorted({raw[THREAD] for raw in journal}) for journal in run.journals]
    return [
        [[raw for raw in journal if raw[THREAD] == name] for name in names]
        for names, journal in zip(threads, run.journals, strict=True)
    ]


class Late(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank:
            rank.send(0, "in", 1, "tell")
            return
        await rank.mailbox("in").poll("look")
        await rank.mailbox("in").get("rest", idle=True)


@pytest.mark.parametrize(
    ("at", "message", "said"),
    [
        (
            "look",
            (1, "main", "tell", 1),
            "rank 0 waits at its gate of in for what rank 1 posts at tell[1]; it never posted it",
        ),
        ("rest", (1, "main", "tell", 0), "rank 1 posts at tell[0]; it did, and another get or poll took it"),
        (
            "look",
            (-2, "", "in", 4),
            "waits at its gate of in for message 4 from outside, which is sent where rank 1 is",
        ),
    ],
)
def test_a_message_that_misses_its_gate_is_reported(at: str, message: Any, said: str) -> None:
    look = Gate((0, "main", "look", 0), (1, "main", "tell", 0))
    told = world_of(2, gates=(look, Gate((0, "main", at, 0), message)))
    for run in runs(told, Late()):
        [finding] = judge(told, run)
        assert (finding.klass, said in finding.message) == ("HANG:MAILBOX:GATE", True), finding.message
        assert run.ends == ["blocked", "finished"]


def test_gates_need_the_senders_that_only_the_simulation_records() -> None:
    run = SimBackend().run_program(WORLD, GatesConformance(), None)
    with pytest.raises(ValueError, match="does not say whose messages it took"):
        gates_of(replace(run, taken={}))
