"""Planted faults: each makes the machine, or a check, break one rule of the contract.

    FAULTS["joint broadcast"](monkeypatch)      # active until the test ends

The comparison with the interpreter must notice each fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from dpsim.backend.journal.issue import Issue
from dpsim.checks.happens_before.clocks import Point
from dpsim.checks.happens_before.hosts import HostState
from dpsim.checks.happens_before.meeting import WalkState
from dpsim.checks.happens_before.points import Signal
from dpsim.checks.memory.reuse import Reuse
from dpsim.contract.collectives import role
from dpsim.contract.collectives.reduce import Reduce
from dpsim.contract.collectives.scatter import Scatter
from dpsim.contract.gates import Address
from dpsim.contract.ops import RawRecord
from dpsim.sim import wiring
from dpsim.sim.calls.communicators import SimDeviceCommunicator
from dpsim.sim.calls.streams import SimEvent
from dpsim.sim.collectives import parts, results
from dpsim.sim.collectives.residency import Places
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import EarlyEnds
from dpsim.sim.services.mailbox import Mailboxes

Fault: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Joins: TypeAlias = Callable[[Issue, frozenset[int]], bool]


def _waits_for_all(joins: Joins) -> Fault:
    """Returns a fault: members of some collectives wait for all members, though they do not have to."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = parts._wanted

        def awaited(issue: Issue, rank: int, members: tuple[int, ...]) -> frozenset[int] | None:
            wanted = real(issue, rank, members)
            return None if wanted is not None and joins(issue, wanted) else wanted

        patch.setattr(parts, "_wanted", awaited)

    return plant


def _all_get_what_is_reduced(patch: pytest.MonkeyPatch) -> None:
    """Makes reduce behave like all_reduce: all members wait for all members, and get the result."""
    patch.setattr(Reduce, "gets", lambda *_: True)
    _waits_for_all(lambda issue, _: issue.op == "reduce")(patch)
    patch.setattr(results, "role", role.__wrapped__)
    patch.setattr(parts, "role", role.__wrapped__)


def _pieces_are_mixed_up(patch: pytest.MonkeyPatch) -> None:
    """Makes each member of a scatter get the piece of the next member."""
    real = Scatter.result
    patch.setattr(Scatter, "result", lambda self, call, at, sent: real(self, call, (at + 1) % len(sent.wires), sent))


def _sends_are_eager(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EarlyEnds, "next", lambda *_: (False, 0))


def _groups_are_in_order(patch: pytest.MonkeyPatch) -> None:
    """Makes the transfers of a group wait for those listed before them."""
    real = SimDeviceCommunicator._move

    def move(self: SimDeviceCommunicator, *how: Any) -> None:
        real(self, *how)
        if self._moves:
            self._before = self._moves[-1]

    patch.setattr(SimDeviceCommunicator, "_move", move)


def _polls_do_not_race(patch: pytest.MonkeyPatch) -> None:
    real = Mailboxes.take

    def take(self: Mailboxes, op: Op, at: Address, name: str, how: str, *more: Any) -> None:
        lives = op.touches()
        real(self, op, at, name, how, *more)
        if how == "poll":
            op.footprint = lives

    patch.setattr(Mailboxes, "take", take)


def _messages_overtake(patch: pytest.MonkeyPatch) -> None:
    real = Mailboxes.post

    def post(self: Mailboxes, *how: Any) -> None:
        self._chains.clear()
        real(self, *how)

    patch.setattr(Mailboxes, "post", post)


def _no_rank_dies_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wiring, "kill", lambda *_, **__: None)


def _slots_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Places, "open", lambda _: True)


def _transfers_need_no_slot(patch: pytest.MonkeyPatch) -> None:
    for name in ("_move", "_close"):
        patch.setattr(SimDeviceCommunicator, name, _without_slots(getattr(SimDeviceCommunicator, name)))


def _without_slots(real: Callable[..., None]) -> Callable[..., None]:
    def call(self: SimDeviceCommunicator, *how: Any) -> None:
        slots, self.slots = self.slots, None
        try:
            real(self, *how)
        finally:
            self.slots = slots

    return call


def _queries_are_true(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimEvent, "_passed", lambda _: True)


def _queries_are_false(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimEvent, "_passed", SimEvent._known)


def _ends_prove_ends(patch: pytest.MonkeyPatch) -> None:
    """Makes the check treat the end of one member's part as an end of its peers' parts."""
    real = WalkState.arrive

    def arrive(self: WalkState, rank: int, raw: RawRecord, point: Point) -> Signal:
        clock, actor, position = point
        return real(self, rank, raw, (clock, actor, position + bool(actor)))

    patch.setattr(WalkState, "arrive", arrive)


def _communicators_without_order(patch: pytest.MonkeyPatch) -> None:
    """Makes the check ignore the order of one rank's calls on one communicator from two streams."""
    patch.setattr(HostState, "_turn", lambda *_: [])


def _reuse_is_no_matter(patch: pytest.MonkeyPatch) -> None:
    """Makes the check ignore that the memory of a freed buffer may belong to a later buffer."""
    patch.setattr(Reuse, "wrote", lambda *_: None)


def _marks_are_nothing(patch: pytest.MonkeyPatch) -> None:
    real = Reuse.freed
    patch.setattr(Reuse, "freed", lambda self, life, marks: real(self, life, {}))


FAULTS: Mapping[str, Fault] = {
    "joint broadcast": _waits_for_all(lambda issue, _: issue.op == "broadcast"),
    "joint reduce": _waits_for_all(lambda issue, _: issue.op == "reduce"),
    "joint gather": _waits_for_all(lambda issue, _: issue.op == "gather"),
    "joint scatter": _waits_for_all(lambda issue, _: issue.op == "scatter"),
    "pieces are mixed up": _pieces_are_mixed_up,
    "a reduce is an all_reduce": _all_get_what_is_reduced,
    "rendezvous always": _waits_for_all(lambda issue, _: issue.op == "send"),
    "a collective of nothing is a meeting": _waits_for_all(lambda issue, _: issue.count == 0),
    "eager always": _sends_are_eager,
    "a group's transfers in order": _groups_are_in_order,
    "a poll before the message": _polls_do_not_race,
    "messages overtake": _messages_overtake,
    "no rank dies early": _no_rank_dies_early,
    "slots without end": _slots_without_end,
    "slots for collectives only": _transfers_need_no_slot,
    "an event has passed": _queries_are_true,
    "an event has not passed": _queries_are_false,
    "a collective's end proves a peer's end": _ends_prove_ends,
    "communicators without order": _communicators_without_order,
    "reuse is no matter": _reuse_is_no_matter,
    "marks are nothing": _marks_are_nothing,
}
