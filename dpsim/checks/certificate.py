"""Certificate: which checks a finished run passes for certain, told in one cheap pass over its journals.

    passed = certified(world, run)      # {"ledger", "agreement", "fault", "deadlock", "livelock", "leftover", ...}

Nearly all runs that are judged are in order, and plainly so: all members make the same calls, and what each rank orders
by itself orders its memory. This is seen rank by rank, without the order of the whole run (`happens_before`), whose
clocks know of all streams of all ranks. What is not plain is not certified: the check looks, and explains what it
finds.

Guarantee: of a run that a backend gave, a check that is certified finds nothing, if those that are not certified find
nothing. The clauses:

* fault, deadlock, livelock: all ranks came to their ends, and the machine took nothing away from the run.
* ledger: all members of a communicator made the same calls in the same steps, none of them with sizes, at the same
  sites, or with no site in common; and to each send there is a receive of as many elements of the same type.
* agreement: all members decided the same under a label, as often, in the same steps; of a local one, all that did.
* graph_lint: nobody captured, or nobody sent a message meanwhile and all captured and replayed the same collectives.
* leftover: every op whose outcome a rank was to learn it learned, and to each send there is a receive.
* race, stale: in no communicator did one member make more calls than another, to each send there is a receive, and the
  memory of each rank is in order by what that rank alone orders (`dpsim.checks.memory.own_order`), and no rank has
  several host threads: what these order is more than one sequence. No buffer has to be written for each replay.

Twins of the clauses, each of which is just not certified, are in the tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Any

from dpsim.checks.graph_lint import agreed
from dpsim.checks.memory.own_order import all_in_order
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
"""What members have to call alike, and where."""

SIZES, MOVED, DECIDED = itemgetter(COLLECTIVE_SIZES), itemgetter(COUNT, DTYPE), itemgetter(STEP, DECISION_VALUE)

AWAITED = frozenset({"read", "ask", "take", "sleep", "look"})
"""Kinds of op whose outcome a host learns; of collectives and transfers it does if they are its own, not a stream's."""

LOOKS = frozenset({"wait", "query"})
"""What a host awaits of a flag."""

SEEN = {"capture": "captured", "fresh": "fresh", "group": "made", "receive_any": "any_source"}
"""Kinds of op of which it counts that there is one, and the field that says so."""

UNHEARD = frozenset({"launch", "mark", "wait", "flag_wait"})
"""Kinds of op of which nobody hears but the rank's device: every second record."""


def certified(world: World, run: Run, idle: Collection[str] = ()) -> frozenset[str]:
    """Names of the checks that pass. `idle`: checks of which nobody wants to know; they may be left out."""
    if not run.finished or run.lost or run.endless:
        return frozenset()
    said = _Said()
    for rank, journal in enumerate(run.journals):
        said.add(rank, journal)
    if said.any_source:
        return frozenset()
    passed = {"fault", "deadlock", "livelock", "progress"} | ({"floats"} if not run.undefined else set())
    world = with_made(world, run.journals) if said.made else world
    sizes = {spec.name: len(spec.ranks) for spec in world.communicators}
    paired = len(said.sent) == len(said.received) and all(
        len(line) == len(said.received.get(name, ())) for name, line in said.sent.items()
    )
    if paired and said.ended:
        passed.add("leftover")
    if (
        paired
        and said.alike
        and all(number == sizes[name] for name, number in said.callers.items())
        and all(_moved(line) == _moved(said.received[name]) for name, line in said.sent.items())
    ):
        passed.add("ledger")
    if not said.captured or agreed(run.journals):
        passed.add("graph_lint")
    if said.agreed and all(number == sizes[name] for (name, _), number in said.deciders.items()):
        passed.add("agreement")
    if not MEMORY.issubset(idle) and (
        not said.owners
        or (
            paired
            and said.joined
            and not said.threaded
            and not said.fresh
            and all(number == sizes[name] for name, number in said.callers.items())
            and all_in_order(run.journals[rank] for rank in said.owners)
        )
    ):
        passed |= MEMORY
    return frozenset(passed)


class _Said:
    """What ranks called and decided, held against those before.

    `callers`: how many ranks made calls on a communicator. `joined`: all these made as many; `alike`: the same ones.
    `agreed`: the ranks that decided anything decided alike. `deciders`: how many decided a label that is not local.
    `made`: a rank made a communicator. `any_source`: a rank received from any source, so lines are not known yet.
    `ended`: nothing was left that a program did not await. `owners`: the ranks that have memory. `fresh`: some of it
    has to be written for each replay. `captured`: a rank captured a graph. `threaded`: a rank started a thread. `sent`,
    `received`: the transfers of a line (communicator, sender, receiver).
    """

    def __init__(self) -> None:
        self.callers: dict[str, int] = {}
        self.deciders: dict[tuple[str, str], int] = {}
        self.joined = self.alike = self.agreed = self.ended = True
        self.captured = self.threaded = self.fresh = self.any_source = self.made = False
        self.owners: list[int] = []
        self.sent: dict[tuple[str, int, int], list[RawRecord]] = {}
        self.received: dict[tuple[str, int, int], list[RawRecord]] = {}
        self._calls: dict[str, list[list[Any]]] = {}  # of a communicator: the lists that there are
        self._decisions: dict[tuple[str, str], list[Any]] = {}

    def add(self, rank: int, journal: list[RawRecord]) -> None:
        calls: dict[str, list[RawRecord]] = {}
        decisions: dict[tuple[str, str], list[RawRecord]] = {}
        pending: dict[tuple[Any, ...], bool] = {}
        asked: RawRecord | None = None  # of what is pending, the last: most ops are awaited at once
        owns = False
        for raw in journal:
            kind = raw[KIND]
            if kind in UNHEARD:
                continue
            if kind == "learned":
                if (
                    asked is not None
                    and asked[SITE] == raw[SITE]
                    and asked[ORDINAL] == raw[ORDINAL]
                    and asked[THREAD] == raw[THREAD]
                ):
                    asked = None
                else:
                    pending.pop(raw[ADDRESS], None)
            elif kind == "collective":
                row = calls.get(raw[COMMUNICATOR])
                if row is None:
                    row = calls[raw[COMMUNICATOR]] = []
                row.append(raw)
                if raw[STREAM] is None:
                    if asked is not None:
                        pending[asked[ADDRESS]] = True
                    asked = raw
            elif kind in AWAITED:
                if asked is not None:
                    pending[asked[ADDRESS]] = True
                asked = raw
            elif kind == "transfer":
                if raw[OP] == "send":
                    self.sent.setdefault((raw[COMMUNICATOR], rank, raw[TRANSFER_PEER]), []).append(raw)
                else:
                    self.received.setdefault((raw[COMMUNICATOR], raw[TRANSFER_PEER], rank), []).append(raw)
                if raw[STREAM] is None:
                    if asked is not None:
                        pending[asked[ADDRESS]] = True
                    asked = raw
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
        # Who stands in an idle get for ever has not come to its end.
        if (pending or asked is not None) and journal[-1][KIND] == "finished":
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
    """Whether two lists of calls are alike but for their sites, and have no site in common in any step."""
    return [(step, call) for step, _, *call in one] == [(step, call) for step, _, *call in other] and {
        called[:2] for called in one
    }.isdisjoint(called[:2] for called in other)


def _moved(line: Iterable[RawRecord]) -> list[Any]:
    return list(map(MOVED, line))
