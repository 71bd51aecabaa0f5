"""Tests of `same_on`: it runs several schedules of a scenario with racing messages on gloo, with the simulation's
results.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from dpsim import runner
from dpsim.campaign import gates
from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol
from dpsim.scenario import Scenario
from dpsim.scenario.errors import ScenarioError
from dpsim.testing import same_on
from dpsim.testing.conformance.gates import GatesConformance
from tests.protocols import SizedProgram, sized

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

OUTSIDE = {"to": 0, "mailbox": "in", "content": ["x"], "after": {"rank": 1, "site": "conformance.tell", "ordinal": 0}}


@register_protocol("t_gates")
class Gates(SizedProgram, GatesConformance):
    """The conformance program of gates, with its number of ranks."""


def scenario(**sections: Any) -> Scenario:
    return sized("t_gates", name="races", messages=[OUTSIDE], **sections)


@pytest.mark.parametrize("backend", ["sim", pytest.param("gloo", marks=pytest.mark.slow)])
def test_a_scenario_with_racing_messages(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the scenario on a backend, also on the timed simulation. The runs show more than two different orders. The
    faulty twin ignores the gates, which delay racing calls, so that its results differ.
    """
    done = same_on(scenario(), backend, schedules=4, seed=3)
    bodies = [one.simulated.journals for one in done]
    assert len(done) == 4
    assert sum(body not in bodies[:at] for at, body in enumerate(bodies)) > 2
    monkeypatch.setattr(gates, "gates_of", lambda run: ())
    way = r"(the run in time|schedule . of seed 3)"
    with pytest.raises(AssertionError, match=f"^races, {way}: {backend} is not as sim: "):
        same_on(scenario(), backend, schedules=4, seed=3)


@register_protocol("t_tickets")
class Tickets(SizedProgram):
    """Three threads take numbered tickets from a Python list, each after a call on one flag. So the order of these
    calls decides the tickets.
    """

    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        tickets = count()

        async def take(own: Rank) -> None:
            own.flag("tickets").set("come")
            own.probe(f"ticket.{next(tickets)}")
            own.flag("tickets").set("gone")

        for thread in [rank.start(f"taker.{number}", take) for number in range(3)]:
            await thread.join("join")


@pytest.mark.slow
def test_threads_that_race_for_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs `Tickets` on gloo. Real threads call the flag in the simulation's order. The faulty twin ignores the gates,
    and its tickets differ.
    """
    tickets = sized("t_tickets", name="tickets")
    done = same_on(tickets, "gloo", schedules=6, seed=3)
    bodies = [one.simulated.journals for one in done]
    assert sum(body not in bodies[:at] for at, body in enumerate(bodies)) > 2
    monkeypatch.setattr(gates, "gates_of", lambda run: ())
    with pytest.raises(AssertionError, match=r"^tickets, .*: gloo is not as sim: "):
        same_on(tickets, "gloo", schedules=6, seed=3)


def test_same_on_refuses_what_a_real_backend_cannot_do() -> None:
    with pytest.raises(ScenarioError, match="cannot kill a rank"):
        same_on(scenario(faults=[{"kind": "kill", "rank": 1}]))
    with pytest.raises(runner.UnknownBackend):
        same_on(scenario(), "gloos")
