"""Tests of the conformance programs about ends: notices of services that have ended, and aborted communicators.

The conformance programs pass on the simulation. On a simulation with one call replaced, they name the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from dpsim.backend.hosts.aborting import Abortable
from dpsim.contract.ops import KIND, RAISED_MESSAGE
from dpsim.contract.world import Run
from dpsim.sim.backend import SimBackend
from dpsim.sim.calls import underway
from dpsim.sim.calls.communicators import SimHostCommunicator
from dpsim.sim.calls.underway import QueriedCall, Underway
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.graph.op import Op
from dpsim.sim.services.notices import Notices
from dpsim.testing.conformance.services import SERVICES
from tests.programs import world_of

Patch: TypeAlias = pytest.MonkeyPatch


def run(program: str, size: int = 3) -> Run:
    services = SERVICES if program == "conformance_services" else ()
    return SimBackend().run(world_of(size, ["dp_cpu"], ["dp"], services=services), program, {})


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("program", ["conformance_aborts", "conformance_aborts_beside", "conformance_services"])
def test_the_conformance_programs_of_ends_finish(program: str, size: int) -> None:
    done = run(program, size)
    assert done.finished, [journal[-1] for journal in done.journals]


def takes_calls(patch: Patch) -> None:
    patch.setattr(Abortable, "refuse_aborted", lambda self, site: None)


def breaks_nothing_off(patch: Patch) -> None:
    patch.setattr(Membership, "_break_off", lambda self, by: None)


def leaves_the_old_memory(patch: Patch) -> None:
    patch.setattr(AbortingMachine, "break_off", lambda self, over, rank: None)


def returns_what_is_over(patch: Patch) -> None:
    patch.setattr(SimHostCommunicator, "unless_aborted", lambda self, site: iter(()))


def ends_at_the_first_look(patch: Patch) -> None:
    part, drawn = SimHostCommunicator._part, Underway.drawn

    def late(self: Underway) -> Op:
        end = drawn(self)
        return part(self[0], end, self[3])

    patch.setattr(SimHostCommunicator, "_part", lambda self, last, issue: last)
    patch.setattr(Underway, "drawn", late)
    patch.setattr(QueriedCall, "_drawn_in_time", lambda self, *_: self._resolved())


def needs_all_members(patch: Patch) -> None:
    patch.setattr(Membership, "_senders", lambda self, issue: [one for one in (0, 1, 2) if one != self._rank])


def says_that_it_is_over(patch: Patch) -> None:
    patch.setattr(QueriedCall, "_is_seen", lambda self: True)


def wakes_no_thread(patch: Patch) -> None:
    patch.setattr(underway, "breakable", lambda *_: None)


def sends_no_notice(patch: Patch) -> None:
    patch.setattr(Notices, "gone", lambda self, actor, behind: None)


def sends_one_notice(patch: Patch) -> None:
    def tell(self: Any, actor: int) -> None:
        told(self, actor)
        self._gone.pop(actor, None)

    told = Notices._tell
    patch.setattr(Notices, "_tell", tell)


WRONG: dict[Callable[[Patch], None], tuple[str, str]] = {
    takes_calls: ("conformance_aborts", "accepted a barrier"),
    breaks_nothing_off: ("conformance_aborts", ""),
    leaves_the_old_memory: ("conformance_aborts", "a wait for an event behind that sum returned"),
    returns_what_is_over: ("conformance_aborts", "a query of an awaited barrier returned"),
    ends_at_the_first_look: ("conformance_aborts", "a wait for a sum that all called before the abort of a peer"),
    needs_all_members: ("conformance_aborts", "a wait for a receive: expected True"),
    says_that_it_is_over: ("conformance_aborts", "a query of a sum with a member that left"),
    wakes_no_thread: ("conformance_aborts_beside", ""),
    sends_no_notice: ("conformance_services", ""),
    sends_one_notice: ("conformance_services", ""),
}
"""The message of the program, or "" if the program never ends."""


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_faulty_machine_fails_the_conformance_programs_of_ends(
    wrong: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    program, says = WRONG[wrong]
    wrong(monkeypatch)
    done = run(program)
    said = [journal[-1][RAISED_MESSAGE] for journal in done.journals if journal[-1][KIND] == "raised"]
    assert said if says else "blocked" in done.ends
    assert all(says in message for message in said)
