"""Reverts repairs of the machine or of the checks, one at a time. The random scripts of a row must notice each soon.

    python -m tests.interpreter.reverted        # a table: how many scripts until the first difference

A row (see `tests.interpreter.rows`) tests one kind of mistake. The reverted repair shows that the row can find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from dpsim.backend.calls import streams
from dpsim.backend.graphs import kernel_call
from dpsim.backend.journal.issue import Issue
from dpsim.campaign import explored
from dpsim.campaign.lone_ranks import Looked
from dpsim.checks import stale_replay, unordered
from dpsim.checks.expected import Expected
from dpsim.contract.rules.made_groups import GroupSpecs
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.calls.streams import SimEvent, SimStream
from dpsim.sim.calls.underway import QueriedCall
from dpsim.sim.collectives import results
from dpsim.sim.collectives.any_source import AnyReceive, AnySource
from dpsim.sim.graph.alarms import Alarms
from dpsim.sim.graph.op import Op
from dpsim.sim.wiring import Wiring
from tests.interpreter.rows import drawn
from tests.interpreter.verdicts import judged

Revert: TypeAlias = Callable[[pytest.MonkeyPatch], None]

MOST = 500


def _records_take_no_time(patch: pytest.MonkeyPatch) -> None:
    """Lets an event pass as soon as the work before its record is done."""
    record, known = SimStream._record, SimEvent._known
    patch.setattr(SimStream, "_record", lambda self, number, joins=False: record(self, number, True))
    patch.setattr(SimEvent, "_known", lambda self: self.op is None or known(self))


def _sleeps_order_nothing(patch: pytest.MonkeyPatch) -> None:
    """Ignores how long sleeps last: a time-out passes only after all sleeps have ended, even after those that last
    longer.
    """
    patch.setattr(Alarms, "sleep", lambda *_: None)


def _kernels_may_use_globals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kernel_call, "check_globals", lambda _: None)
    known: set[object] = set()  # dpsim caches checked kernels, so a kernel checked here must not count as checked later
    for module in (kernel_call, streams):
        patch.setattr(module, "KNOWN", known)
    patch.setattr(kernel_call, "_READ", set())
    patch.setattr(kernel_call, "_CALLS", {})


def _groups_are_made_alone(patch: pytest.MonkeyPatch) -> None:
    """Lets a rank create a group without waiting for the other members."""
    real = SimRank._make

    def make(self: SimRank, specs: GroupSpecs, issues: list[Issue]) -> Any:
        real(self, specs, issues)
        return real(self, specs, [])

    patch.setattr(SimRank, "_make", make)


def _queries_are_exact(patch: pytest.MonkeyPatch) -> None:
    """Lets a host observe the end of its call as soon as the call has ended."""
    patch.setattr(QueriedCall, "_is_seen", lambda self: self._end.at >= 0)


def _late_offers_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Makes a receive from any source take the message that is first in the first schedule, and ignore messages that
    arrive later.
    """
    real = AnySource._offer

    def offer(self: AnySource, one: AnyReceive, sender: int, offer: Op) -> None:
        if not one.taken:
            real(self, one, sender, offer)

    patch.setattr(AnySource, "_offer", offer)


def _no_rank_runs_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(explored, "looked_at", lambda *_: Looked())


def _floats_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Wiring, "undefined", ())
    patch.setattr(results, "order_matters", lambda *_: False)


def _promises_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unordered, "of", lambda _: [])


def _replays_read_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stale_replay, "found", lambda _: [])


def _nothing_is_as_good_as_held(patch: pytest.MonkeyPatch) -> None:
    real = Expected.unmet
    patch.setattr(Expected, "unmet", lambda self, came, *more: real(self, came.replace("vacuous", "held"), *more))


REVERTED: Mapping[str, Revert] = {
    "events": _records_take_no_time,
    "time-outs": _sleeps_order_nothing,
    "kernels": _kernels_may_use_globals,
    "modules": _no_rank_runs_alone,
    "floats": _floats_are_not_compared,
    "promise": _promises_are_believed,
    "groups": _groups_are_made_alone,
    "looks": _queries_are_exact,
    "any source": _late_offers_are_ignored,
    "replays": _replays_read_anything,
    "nothing": _nothing_is_as_good_as_held,
}


def first_difference(row: str, most: int = MOST) -> tuple[int, str]:
    """Returns the number of scripts of a row up to the first difference, and the difference. If no script differs,
    returns `most` + 1 and "".
    """
    for seed in range(most):
        difference = judged(drawn(row, seed)).difference
        if difference:
            return seed + 1, difference
    return most + 1, ""


def main() -> None:
    for row, revert in REVERTED.items():
        with pytest.MonkeyPatch.context() as patch:
            revert(patch)
            number, difference = first_difference(row)
        print(f"{row:10} {number:4}  {difference or 'no difference'}")


if __name__ == "__main__":
    main()
