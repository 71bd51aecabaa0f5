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
from dpsim.sim.collectives.broken import AbortingMachine
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.services.notices import Notices
from dpsim.testing.conformance.services import SERVICES
from tests.programs import world_of

Patch: TypeAlias = pytest.MonkeyPatch


def run(program: str, size: int = 3) -> Run:
    services = SERVICES if program == "conformance_services" else ()
    return SimBackend().run(world_of(size, ["dp_cpu"], ["dp"], services=services), program, {})


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("program", ["conformance_aborts", "conformance_services"])
def test_the_conformance_programs_of_ends_finish(program: str, size: int) -> None:
    done = run(program, size)
    assert done.finished, [journal[-1] for journal in done.journals]


def takes_calls(patch: Patch) -> None:
    patch.setattr(Abortable, "refuse_aborted", lambda self, site: None)


def breaks_nothing_off(patch: Patch) -> None:
    patch.setattr(Membership, "_break_off", lambda self, by: None)


def leaves_the_old_memory(patch: Patch) -> None:
    patch.setattr(AbortingMachine, "break_off", lambda self, over, rank: None)


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
    leaves_the_old_memory: ("conformance_aborts", "a read behind a sum that the abort interrupted returned"),
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
