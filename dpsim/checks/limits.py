"""Limits: finds hosts that hang in a call that normally returns at once, such as a launch. Deadlock checks use it.

Such a call may block because the launch queue is full, or because an allocation synchronises with the device. It may
also create a communicator, and wait for its members (`first_use`). If the device waits for a peer, and the peer waits
for a later op of this host, the run hangs:

    rank 0   all_reduce on dp #0, launch more[1]     its queue is full; the message to rank 1 is never sent
    rank 1   get go                                  waits for that message before it joins dp #0

The blocked host did not leave out that later op; it never reached it. Only the simulated machine records which ranks
are blocked in this way (`Run.standing`), and their last record is the blocking call. For a first use, the journals of
every backend suffice, because a rank waits in it until all members have made theirs.

A device may also limit how many collectives run on it at a time (`World.residency`). The machine records which ops
occupy these slots (`Run.occupied`). `takes_part` adds them to the report of each hang, whatever its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsim.checks import first_use
from dpsim.checks.finding import Fact, Finding, Part, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import LEARNS, WORK
from dpsim.contract.occupied import Occupied
from dpsim.contract.ops import KIND, RawRecord, as_record
from dpsim.contract.rules.replay_frame import within

FEW = 8

PLAIN = WORK - LEARNS | {"alloc", "replay"}
"""Kinds of record of the calls that may block a host in this way."""


def held_up(
    run_index: RunIndex, awaited: Sequence[int] = (), unanswered: Sequence[Finding] = (), details: Sequence[Part] = ()
) -> list[Finding]:
    """Returns one finding for the first rank that is blocked in such a call, with details of the others.

    Empty if no rank is, or if another rank explains the hang. `awaited`: ranks that peers wait for and that are in no
    incomplete collective or transfer. Each must be blocked in such a call, or wait for a message (`unanswered`).
    """
    blocked = _blocked_calls(run_index)
    silent = {finding.culprit.rank for finding in unanswered if finding.culprit is not None}
    if not blocked or not {*awaited} <= {*silent, *(last.rank for last in blocked)}:
        return []
    unmade = {last.rank: last for last in blocked if first_use.absent(run_index, last)}
    if unmade:
        rest = [_where(run_index, last) for last in blocked if last.rank not in unmade]
        return [first_use.finding(run_index, unmade, [*rest, *(post.message for post in unanswered), *details])]
    first, *others = sorted(blocked, key=run_index.position)
    lines = [*(_where(run_index, other) for other in others), *(post.message for post in unanswered), *details]
    return [
        Finding(
            check="deadlock",
            klass="HANG:HOST:ALLOC" if first.raw[KIND] == "alloc" else "HANG:HOST:LAUNCH_QUEUE",
            message=_where(run_index, first),
            culprit=run_index.culprit(first),
            position=run_index.position(first),
            details=tuple(lines),
        )
    ]


def _blocked_calls(run_index: RunIndex) -> list[Entry]:
    return [last for rank in range(len(run_index.run.ends)) if (last := blocked_call(run_index, rank)) is not None]


def blocked_call(run_index: RunIndex, rank: int) -> Entry | None:
    """Returns the call in which a rank is blocked, or None. It is the last record of one of its host threads."""
    if rank in run_index.run.standing:
        lasts = run_index.living(rank)
        return next((last for last in lasts if last.raw[KIND] in PLAIN), lasts[0] if lasts else None)
    if run_index.world.lazy and run_index.end(rank) == "blocked":
        return next((last for last in run_index.living(rank) if first_use.absent(run_index, last)), None)
    return None


def takes_part(run_index: RunIndex, finding: Finding) -> Finding:
    """Returns the finding of a hang, with details on blocked hosts and occupied slots."""
    hosts = [_where(run_index, last) for last in _blocked_calls(run_index) if not finding.klass.startswith("HANG:HOST")]
    slots = [_full(run_index, one) for one in _full_ranks(run_index)[:FEW]]
    more = len(_full_ranks(run_index)) - len(slots)
    rest = [fact("more_without_slot", number=more)] if more else []
    return replace(finding, details=(*finding.details, *hosts, *slots, *rest))


def no_slots(run_index: RunIndex) -> bool:
    """Returns whether an op waits for a slot."""
    return bool(_full_ranks(run_index))


def _full_ranks(run_index: RunIndex) -> list[Occupied]:
    """Returns the ranks without a free slot, those with waiting ops first. Empty if no op waits for a slot."""
    full = [one for one in run_index.run.occupied if run_index.end(one.rank) == "blocked"]
    return sorted(full, key=lambda one: not one.waiting) if any(one.waiting for one in full) else []


def _full(run_index: RunIndex, one: Occupied) -> Fact:
    journal, room = run_index.run.journals[one.rank], run_index.world.residency or 0
    held, waiting = (
        tuple(_op(journal, at) for at in places if at < len(journal)) for places in (one.held, one.waiting)
    )
    slots = fact("only_slot") if room == 1 else fact("all_slots", number=room)
    waits = fact("wait_for_slot", ops=waiting) if waiting else None
    return fact("slots_held", rank=one.rank, slots=slots, held=held, waits=waits)


def _op(journal: list[RawRecord], at: int) -> Fact:
    return fact("op_at", call=as_record(journal[at]), within=within(journal, at))


def _where(run_index: RunIndex, last: Entry) -> Fact:
    if first_use.absent(run_index, last):
        return first_use.where(run_index, last)
    call = {"rank": last.rank, "call": last.record}
    if last.raw[KIND] == "alloc":
        return fact("blocked_in_alloc", **call)
    return fact("blocked_in_queue", **call, room=run_index.world.launch_queue or 0)
