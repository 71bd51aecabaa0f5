"""Messages from outside on real processes: sent where a rank is, with the records of the simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.ops import KIND, LEARNED_OUTCOME, posted
from dpsim.sim.backend import SimBackend
from dpsim.world import At, Message, World
from real.backend import TorchBackend
from tests.real import service_programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL, make_world

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
