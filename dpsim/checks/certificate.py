"""Certificate: finds the checks that a finished run certainly passes, in one cheap pass over its journals.

    passed = certified(world, run)      # {"ledger", "agreement", "fault", "deadlock", "livelock", "leftover", ...}

In nearly all runs, all members make the same calls, and the program order of each single rank already orders its memory
accesses. This pass verifies both rank by rank. It does not need the happens-before order of the whole run, whose vector
clocks cover all streams of all ranks. If a run is less simple, it gets no certificate, and `judge` runs the check.

Guarantee: in a run of a backend, a certified check finds nothing if the other checks find nothing. The conditions:

* fault, deadlock, livelock: all ranks reached their ends, and the machine took nothing away from the run.
* ledger: all members of a communicator made the same calls in the same steps, and no call has per-peer sizes. They made
  them at the same sites, or have no site in common. Each send has a receive of the same number of elements and type.
* agreement: all members decided the same values under a label, equally often, in the same steps. For a local decision,
  this is true of all members that made it.
* graph_lint: no rank captured. Or no rank sent a message during a capture, and all captured and replayed the same
  collectives.
* leftover: each rank received the result of every op that has one, and each send has a receive.
* race, stale: all members of a communicator made equally many calls, and each send has a receive. The program order of
  each rank orders its memory (`dpsim.checks.memory.own_order`). No rank has several host threads, because their order
  is not one sequence. No buffer needs fresh contents for each replay.

For each condition, a test has a run that fails only this condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Any

from dpsim.checks.graph_lint import agreed
from dpsim.checks.memory.own_order import all_in_order
from dpsim.contract.kinds import LAUNCHED, LEARNS, MEETS
from dpsim.contract.ops import (
    ADDRESS,
    CALL,
    COLLECTIVE_SIZES,
    COMMUNICATOR,
    COUNT,
    DECISION_COMMUNICATOR,
    DECISION_LOCAL,
    DECISION_VALUE,
    DTYPE,
    FLAG_HOW,
    KIND,
    OP,
    ORDINAL,
    SITE,
    STEP,
    STREAM,
    THREAD,
    THREAD_HOW,
    TRANSFER_PEER,
    RawRecord,
)
from dpsim.contract.rules.made_groups import with_made
from dpsim.contract.world import Run, World

MEMORY = frozenset({"race", "stale"})

CALLED = itemgetter(STEP, SITE, *range(CALL.start, CALL.stop))
"""Returns the step, the site and the arguments of a call, which members have to share."""

SIZES, MOVED, DECIDED = itemgetter(COLLECTIVE_SIZES), itemgetter(COUNT, DTYPE), itemgetter(STEP, DECISION_VALUE)

AWAITED = LEARNS - {"receive_any"}
"""Kinds of op whose result a host awaits. It also awaits collectives and transfers that are on no stream."""

LOOKS = frozenset({"wait", "query"})
"""The ways in which a host waits for a flag or reads it."""

SEEN = {"capture": "captured", "fresh": "fresh", "group": "made", "receive_any": "any_source"}
"""Kinds of op whose presence prevents a certificate, and the field of `_Facts` that notes it."""

UNHEARD = LAUNCHED - MEETS
"""Kinds of op that only the rank's device executes. They are half of all records, so the pass skips them first."""


def certified(world: World, run: Run, idle: Collection[str] = ()) -> frozenset[str]:
    """Returns the names of the checks that the run passes.

    `idle` names the checks that the user switched off. The result may omit them.
    """
    if not run.finished or run.lost or run.endless:
        return frozenset()
    facts = _Facts()
    for rank, journal in enumerate(run.journals):
        facts.add(rank, journal)
    if facts.any_source:
        return frozenset()
    passed = {"fault", "deadlock", "livelock", "progress"} | ({"floats"} if not run.undefined else set())
    world = with_made(world, run.journals) if facts.made else world
    sizes = {spec.name: len(spec.ranks) for spec in world.communicators}
    paired = len(facts.sent) == len(facts.received) and all(
        len(line) == len(facts.received.get(name, ())) for name, line in facts.sent.items()
    )
    if paired and facts.ended:
        passed.add("leftover")
    if (
        paired
        and facts.alike
        and all(number == sizes[name] for name, number in facts.callers.items())
        and all(_moved(line) == _moved(facts.received[name]) for name, line in facts.sent.items())
    ):
        passed.add("ledger")
    if not facts.captured or agreed(run.journals):
        passed.add("graph_lint")
    if facts.agreed and all(number == sizes[name] for (name, _), number in facts.deciders.items()):
        passed.add("agreement")
    if not MEMORY.issubset(idle) and (
        not facts.owners
        or (
            paired
            and facts.joined
            and not facts.threaded
            and not facts.fresh
            and all(number == sizes[name] for name, number in facts.callers.items())
            and all_in_order(run.journals[rank] for rank in facts.owners)
        )
    ):
        passed |= MEMORY
    return frozenset(passed)


class _Facts:
    """The calls and decisions of the ranks so far, compared with each other.

    `callers` counts the ranks with calls on a communicator. `joined`: all of them made equally many calls; `alike`:
    they made the same calls. `agreed`: all ranks decided the same. `deciders` counts the ranks that decided a label
    that is not local. `made`: a rank made a communicator. `any_source`: a rank received from any source, so the
    transfers are not paired yet. `ended`: programs awaited all of their ops. `owners`: the ranks that allocate memory.
    `fresh`: some memory needs fresh contents for each replay. `captured`: a rank captured a graph. `threaded`: a rank
    started a thread. `sent`, `received`: the transfers by (communicator, sender, receiver).
    """

    def __init__(self) -> None:
        self.callers: dict[str, int] = {}
        self.deciders: dict[tuple[str, str], int] = {}
        self.joined = self.alike = self.agreed = self.ended = True
        self.captured = self.threaded = self.fresh = self.any_source = self.made = False
        self.owners: list[int] = []
        self.sent: dict[tuple[str, int, int], list[RawRecord]] = {}
        self.received: dict[tuple[str, int, int], list[RawRecord]] = {}
        self._calls: dict[str, list[list[Any]]] = {}  # the different lists of calls, by communicator
        self._decisions: dict[tuple[str, str], list[Any]] = {}

    def add(self, rank: int, journal: list[RawRecord]) -> None:
        calls: dict[str, list[RawRecord]] = {}
        decisions: dict[tuple[str, str], list[RawRecord]] = {}
        pending: dict[tuple[Any, ...], bool] = {}
        pending_op: RawRecord | None = None  # the last op, still pending: hosts await most ops at once
        owns = False
        for raw in journal:
            kind = raw[KIND]
            if kind in UNHEARD:
                continue
            if kind == "learned":
                if (
                    pending_op is not None
                    and pending_op[SITE] == raw[SITE]
                    and pending_op[ORDINAL] == raw[ORDINAL]
                    and pending_op[THREAD] == raw[THREAD]
                ):
                    pending_op = None
                else:
                    pending.pop(raw[ADDRESS], None)
            elif kind == "collective":
                row = calls.get(raw[COMMUNICATOR])
                if row is None:
                    row = calls[raw[COMMUNICATOR]] = []
                row.append(raw)
                if raw[STREAM] is None:
                    if pending_op is not None:
                        pending[pending_op[ADDRESS]] = True
                    pending_op = raw
            elif kind in AWAITED:
                if pending_op is not None:
                    pending[pending_op[ADDRESS]] = True
                pending_op = raw
            elif kind == "transfer":
                if raw[OP] == "send":
                    self.sent.setdefault((raw[COMMUNICATOR], rank, raw[TRANSFER_PEER]), []).append(raw)
                else:
                    self.received.setdefault((raw[COMMUNICATOR], raw[TRANSFER_PEER], rank), []).append(raw)
                if raw[STREAM] is None:
                    if pending_op is not None:
                        pending[pending_op[ADDRESS]] = True
                    pending_op = raw
            elif kind == "decision":
                decisions.setdefault((raw[DECISION_COMMUNICATOR], raw[SITE]), []).append(raw)
            elif kind == "alloc":
                owns = True
            elif kind in SEEN:
                setattr(self, SEEN[kind], True)
            elif (kind == "flag" and raw[FLAG_HOW] in LOOKS) or (kind == "thread" and raw[THREAD_HOW] == "join"):
                pending[raw[ADDRESS]] = True
            elif kind == "thread":
                self.threaded = True
        # A rank that waits in an idle get may still await its other ops.
        if (pending or pending_op is not None) and journal[-1][KIND] == "finished":
            self.ended = False
        if owns:
            self.owners.append(rank)
        for name, row in calls.items():
            self.callers[name] = self.callers.get(name, 0) + 1
            self._call(name, row)
        for key, row in decisions.items():
            decided = list(map(DECIDED, row))
            if decided != self._decisions.setdefault(key, decided):
                self.agreed = False
            if not row[0][DECISION_LOCAL]:
                self.deciders[key] = self.deciders.get(key, 0) + 1

    def _call(self, name: str, row: list[RawRecord]) -> None:
        called, kept = list(map(CALLED, row)), self._calls.setdefault(name, [])
        if called in kept:
            return
        if not kept:
            self.alike = self.alike and not any(map(SIZES, row))
        for other in kept:
            self.joined = self.joined and len(called) == len(other)
            self.alike = self.alike and _go_together(called, other)
        kept.append(called)


def _go_together(one: list[Any], other: list[Any]) -> bool:
    """Returns whether two lists of calls are equal but for their sites, and share no site in any step."""
    return [(step, call) for step, _, *call in one] == [(step, call) for step, _, *call in other] and {
        called[:2] for called in one
    }.isdisjoint(called[:2] for called in other)


def _moved(line: Iterable[RawRecord]) -> list[Any]:
    return list(map(MOVED, line))
