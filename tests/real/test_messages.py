"""Tests of messages from outside on real processes, and of messages at gates. Their records equal those of the
simulation.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.campaign.gates import gates_of
from dpsim.contract.gates import Gate
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, RawRecord, posted
from dpsim.contract.world import At, Delay, Message, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.testing.conformance import program  # noqa: F401  # registers conformance_gates
from real.backend import TorchBackend
from tests.judged import judge
from tests.real import service_programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL, make_world
from tests.sim.programs import MODES

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

DESK = 2


@pytest.fixture
def world() -> World:
    return make_world(devices=["dp"], services=("desk",))


@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
def test_messages_from_outside_as_on_the_simulation(backend: TorchBackend, world: World) -> None:
    first = Message(0, "in", ("begin", 1, (True, 0.5)), by=0)
    job = Message(DESK, "jobs", "a job", by=1, at=At("work", 1))
    told = replace(world, messages=(first, job))
    real, simulated = backend.run(told, "real_outside", None), SimBackend().run(told, "real_outside", None)
    assert real.ends == simulated.ends == ["finished"] * 3
    assert real.journals == simulated.journals
    assert [raw[LEARNED_OUTCOME] for raw in real.journals[0] if raw[KIND] == "learned"] == [
        first.content,
        "a job",
        None,
    ]
    assert [letter for letter in map(posted, real.journals[1]) if letter is not None] == [(DESK, "jobs", "a job")]


def records(run: Run) -> list[list[RawRecord]]:
    return [[raw for raw in journal if raw[KIND] != "injected"] for journal in run.journals]


@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
def test_messages_of_three_senders_are_taken_as_in_each_schedule(backend: TorchBackend, world: World) -> None:
    """Both ranks and a service post to one mailbox that a rank polls. With gates, each run on real processes has the
    order of its simulated run, even if the senders have delays. The twin has no gates, and differs from all other
    orders.
    """
    simulated = [SimBackend(choose=choose).run(world, "conformance_gates", None) for choose in MODES.values()]
    different = [
        one for at, one in enumerate(simulated) if one.journals not in [old.journals for old in simulated[:at]]
    ]
    assert len(different) > 3
    late = Delay(1, At("conformance.tell"), 30_000_000), Delay(DESK, At("conformance.tell", 1), 60_000_000)
    for number, one in enumerate(different):
        told = replace(world, gates=gates_of(one), delays=late if number % 2 else ())
        assert records(backend.run(told, "conformance_gates", None)) == one.journals
    free = backend.run(world, "conformance_gates", None).journals
    assert sum(free != one.journals for one in different) >= len(different) - 1


@pytest.mark.parametrize("backend", ["gloo", pytest.param("aborting", marks=pytest.mark.slow), NCCL], indirect=True)
def test_a_message_that_misses_its_gate_is_a_hang(backend: TorchBackend, world: World) -> None:
    gate = Gate((0, "main", "conformance.poll", 2), (1, "main", "conformance.tell", 7))
    told = replace(world, gates=(gate,), stall_ns=500_000_000)
    run = backend.run(told, "conformance_gates", None)
    assert run.ends == ["blocked", "finished", "finished"]
    [finding] = judge(told, run)
    assert finding.klass == "HANG:MAILBOX:GATE"
    assert "what rank 1 posts at conformance.tell[7]; it never posted it" in finding.message
