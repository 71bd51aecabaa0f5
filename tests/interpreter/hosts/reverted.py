"""Reverts repairs of the machine, one at a time. The random scripts of hosts must notice each soon.

    python -m tests.interpreter.hosts.reverted      # a table: how many scripts until the first difference

Each reverted repair puts back a false proof or a false alarm about aborts, deaths, receives from any source, made
groups, queries or time-outs. The table shows that the scripts mix these features in the ways that matter.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from dpsim.sim.calls.communicators import SimHostCommunicator
from dpsim.sim.calls.underway import QueriedCall, Underway
from dpsim.sim.collectives.any_source import AnySource
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.graph.alarms import Alarms
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from tests.interpreter.hosts.comparison import compare
from tests.interpreter.hosts.generator import random_script
from tests.interpreter.reverted import REVERTED as OLDER
from tests.interpreter.reverted import Revert

MOST = 300


def _parts_are_made_at_the_first_look(patch: pytest.MonkeyPatch) -> None:
    """Makes a rank's part when it first awaits or queries the call. So a peer that leaves before stops the end."""
    drawn = Underway.drawn

    def looked(self: Underway) -> Underway:
        communicator, last, part, issue, *rest = self
        if communicator.membership is None or part is not last:
            return self
        return type(self)(
            (communicator, last, communicator.membership.served(communicator.host, last, issue), issue, *rest)
        )

    patch.setattr(SimHostCommunicator, "_part", lambda self, last, issue: last)
    patch.setattr(Underway, "drawn", lambda self: drawn(looked(self)))
    patch.setattr(Underway, "queried", lambda self: QueriedCall(looked(self)))


def _all_members_serve(patch: pytest.MonkeyPatch) -> None:
    """Lets a part end only if no member at all has left, also one that sends it nothing."""
    patch.setattr(Membership, "_senders", lambda self, _: [one for one in self._group.spec.ranks if one != self._rank])


def _an_own_abort_is_not_asked_first(patch: pytest.MonkeyPatch) -> None:
    """Returns the result of a call that is over, although the rank has aborted the communicator."""

    def unless_aborted(*_: Any) -> Generator[Any, Any, None]:
        return
        yield

    patch.setattr(SimHostCommunicator, "unless_aborted", unless_aborted)


def _no_death_behind_the_last_plain_call(patch: pytest.MonkeyPatch) -> None:
    def settle(self: Host) -> Generator[Any, Any, None]:
        last = self.issued
        if self.lives is not None and last is not None and last.at < 0:
            yield self.machine.until(last, self.waiter)

    patch.setattr(Host, "settle", settle)


def _time_outs_tell_nothing(patch: pytest.MonkeyPatch) -> None:
    """Lets a query after a time-out answer no, although the call could be over."""
    patch.setattr(Alarms, "behind", lambda *_: False)


def _messages_outlive_their_sender(patch: pytest.MonkeyPatch) -> None:
    """Lets a receive from any source take a message of a member that has left."""
    real = AnySource._need

    def need(self: AnySource, take: Op, rank: int, sender: int) -> None:
        kept, self._group.memberships = self._group.memberships, {}
        real(self, take, rank, sender)
        self._group.memberships = kept

    patch.setattr(AnySource, "_need", need)


REVERTED: Mapping[str, Revert] = {
    "parts at the call": _parts_are_made_at_the_first_look,
    "only senders serve": _all_members_serve,
    "own aborts first": _an_own_abort_is_not_asked_first,
    "deaths behind the last call": _no_death_behind_the_last_plain_call,
    "queries after time-outs": _time_outs_tell_nothing,
    "lost messages": _messages_outlive_their_sender,
    **{name: OLDER[name] for name in ("groups", "looks", "any source", "time-outs")},
}


def first_difference(most: int = MOST) -> tuple[int, str]:
    """Returns the number of scripts up to the first difference, and the difference. If no script differs, returns
    `most` + 1 and "".
    """
    for seed in range(most):
        difference = compare(random_script(seed)).difference
        if difference:
            return seed + 1, difference
    return most + 1, ""


def main() -> None:
    for name, revert in REVERTED.items():
        with pytest.MonkeyPatch.context() as patch:
            revert(patch)
            number, difference = first_difference()
        print(f"{name:30} {number:4}  {difference or 'no difference'}")


if __name__ == "__main__":
    main()
