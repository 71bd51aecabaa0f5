"""Order inversion: finds device collectives that block each other although every member has issued them.

Hosts run ahead of their devices. So a run can hang on its streams while every collective has all its members:

    rank 0, stream main:   all_reduce on dp, all_reduce on ep
    rank 1, stream main:   all_reduce on ep, all_reduce on dp

Here the device of rank 0 executes the collective on dp and waits for rank 1. The device of rank 1 executes the one on
ep and waits for rank 0.

If each rank enqueues both collectives on one stream, as here, they hang in every run. The journals prove this, because
they show which op is first on each stream.

If each rank enqueues the two collectives on two streams, they hang only if a device cannot run both at a time. (A
waiting collective occupies multiprocessors; `World.residency` sets how many fit.) Journals do not show which collective
a device started first. So the check considers this cause only if a run hung and nothing else explains the hang. Then it
assumes that each device starts its collectives in the order in which the host issued them.

For one stream and for two, the check builds a graph of waits. Collective A waits for collective B if the other members
of A need a rank that is still in B. The check removes each collective that waits for no other, until only cycles
remain.

Transfers are nodes of this graph, too. A receive waits for its send, and a send may wait for its receive. A cycle of
transfers alone has another class (`crossed_transfers`).

Some waits are optional. A member may wait for all others, or only for those whose data it needs
(`dpsim.contract.rules.wait_set`), and a sender may wait for its receiver. A cycle without optional waits is a proof.
The check adds optional waits only if nothing else explains a hang.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.checks import crossed_transfers
from dpsim.checks.finding import Fact, Finding, fact
from dpsim.checks.happens_before.points import NullSink
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.run_index import Entry, RunIndex, split
from dpsim.checks.running_ops import Key, RunningOps, entry_of, heads, key_of, name_of, needs_of
from dpsim.checks.stuck import passed_on_streams
from dpsim.contract.ops import KIND, STREAM


class DevicePart(NamedTuple):
    """One rank's part of a device collective, its stream, and the ranks that the part waits for."""

    key: Key
    stream: str
    needs: Sequence[int]


def in_streams(run_index: RunIndex, joint: bool = False, lasting: bool = False) -> Finding | None:
    """Returns a finding for collectives in opposite order on streams, or None.

    With `joint`, each member waits for all others. With `lasting`, sends wait for their receives. A cycle of transfers
    alone gives the finding for crossed transfers.
    """
    run = run_index.run
    passed = [passed_on_streams(journal) for journal in run.journals] if lasting else None
    walk = Walk(run_index.world, run, NullSink(), joint=joint, passed=passed)
    walk.go()
    running = heads(run_index, walk, joint)
    cycle = running.cycle()
    if cycle and not any(communicator in run_index.collectives for communicator, _ in cycle):
        return crossed_transfers.on_streams(run_index, running, cycle)
    return _finding(run_index, running, *[ALL_WAIT] * joint, *[fact("sends_last")] * lasting)


def in_residency(run_index: RunIndex, joint: bool = False) -> Finding | None:
    """Returns a finding for collectives in opposite order on several streams, or None.

    Each rank starts them in the order of issue. It runs as many at a time as the scenario allows, by default one.
    """
    room = run_index.world.residency or 1
    limit = fact("runs_at_a_time", room=room) if run_index.world.residency else fact("may_not_run_both")
    return _finding(run_index, _slots(run_index, room, joint), limit, *[ALL_WAIT] * joint)


def in_places(run_index: RunIndex, joint: bool = False) -> Finding | None:
    """Returns a finding for a cycle among the ops that occupy a device's slots and the ops that wait for a slot.

    The simulated machine records both (`Run.occupied`). A rank without a free slot cannot start an op that other ranks
    wait for.
    """
    running, room = RunningOps(), run_index.world.residency or 0
    calls = [(one, run_index.run.journals[one.rank]) for one in run_index.run.occupied if one.held]
    alone: dict[Key, int] = {}
    for one, journal in calls:
        for raw in map(journal.__getitem__, one.held):
            key, least = key_of(raw, one.rank), needs_of(run_index, raw, one.rank, False)
            running.add_rank(key, one.rank, needs_of(run_index, raw, one.rank, joint))
            if len(least) == 1:
                alone[key] = least[0]
    for one, journal in calls:
        comes = [key_of(journal[at], one.rank) for at in one.waiting]
        if len(one.held) == room:
            missing = [key for key, rank in alone.items() if rank == one.rank and rank not in running.executing[key]]
            comes += [key for key in missing if entry_of(run_index, key, one.rank)]
        for key in comes:
            running.wait(key, one.rank, key_of(journal[one.held[0]], one.rank))
    return _finding(run_index, running, fact("has_places", room=room), *[ALL_WAIT] * joint)


ALL_WAIT = fact("all_wait_for_all")


def _slots(run_index: RunIndex, room: int, joint: bool) -> RunningOps:
    """Returns the ops that never complete if each rank starts its collectives in the order of issue, `room`
    at a time.
    """
    left: list[list[DevicePart]] = []
    over, arrived = _over(run_index, joint)
    for rank, journal in enumerate(run_index.run.journals):
        calls = [calls[rank] for calls in run_index.collectives.values() if rank in calls]
        issued = sorted(entry.at for own in calls for entry in own if entry.raw[STREAM] is not None)
        parts = [
            DevicePart(key_of(raw, rank), raw[STREAM], needs_of(run_index, raw, rank, joint))
            for raw in map(journal.__getitem__, issued)
        ]
        left.append([part for part in parts if (part.key, rank) not in over])

    def active(rank: int) -> list[DevicePart]:
        started: dict[str, DevicePart] = {}
        for part in left[rank]:
            if len(started) == room:
                break
            started.setdefault(part.stream, part)
        return list(started.values())

    ready = list(range(len(left)))
    while ready:
        rank = ready.pop()
        for part in active(rank):
            if rank not in arrived[part.key]:
                arrived[part.key].add(rank)
                ready.extend(run_index.collectives[part.key[0]])
            if arrived[part.key].issuperset(part.needs):
                left[rank].remove(part)
                ready.append(rank)
    running = RunningOps()
    for rank in range(len(left)):
        for part in active(rank):
            running.add_rank(part.key, rank, part.needs)
    for rank, parts in enumerate(left):
        started = active(rank)
        for part in parts:
            if part not in started:
                running.wait(part.key, rank, started[0].key)
    return running


def _over(run_index: RunIndex, joint: bool) -> tuple[set[tuple[Key, int]], defaultdict[Key, set[int]]]:
    """Returns the parts of device collectives that certainly completed, and the members that certainly reached each.

    A part completed if the host observed later work on its stream, or if all members that it waits for have arrived.
    """
    arrived: defaultdict[Key, set[int]] = defaultdict(set)
    over = set()
    for rank, journal in enumerate(run_index.run.journals):
        passed = passed_on_streams(journal)
        for at, raw in enumerate(journal):
            if raw[KIND] == "collective" and raw[STREAM] is not None and at < passed.get(raw[STREAM], 0):
                key = key_of(raw, rank)
                over.add((key, rank))
                arrived[key] |= {rank, *needs_of(run_index, raw, rank, joint)}
    for key, ranks in arrived.items():
        for rank in ranks:
            entry = entry_of(run_index, key, rank)
            if entry is not None and ranks.issuperset(needs_of(run_index, entry.raw, rank, joint)):
                over.add((key, rank))
    return over, arrived


def _finding(run_index: RunIndex, running: RunningOps, *limits: Fact) -> Finding | None:
    """Returns the finding for a cycle, or None. Each rank of the cycle executes one collective and reaches the next
    after it.
    """
    cycle = running.cycle()
    if not cycle:
        return None
    orders_found: list[tuple[list[int], Key, Key]] = []
    votes: dict[int, Key] = {}
    involved: list[Entry] = []
    for key, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        ranks = [rank for rank, other in running.behind[key].items() if other == after]
        orders_found.append((ranks, after, key))
        votes |= dict.fromkeys(ranks, after)
        involved += [entry for rank in ranks for one in (key, after) if (entry := entry_of(run_index, one, rank))]
    orders_found.sort()
    parted = split(votes) if len(cycle) == 2 else None
    odd = entry_of(run_index, votes[parted[1][0]], parted[1][0]) if parted and parted[1] else None
    details = []
    for ranks, key, other in orders_found:
        entry = entry_of(run_index, key, ranks[0])
        assert entry is not None
        call, waiting, within = entry.record, running.executing[other], run_index.within(entry)
        details.append(
            fact(
                "blocked_before",
                ranks=tuple(ranks),
                op=f"{call.site}[{call.ordinal}]",
                call=name_of(key),
                stream=entry.raw[STREAM],
                step=call.step,
                where=call.where,
                within=within,
                other=name_of(other),
                waiting=tuple(waiting),
            )
        )
    orders = tuple(
        fact("order", ranks=tuple(ranks), first=name_of(key), second=name_of(other))
        for ranks, key, other in orders_found
    )
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
        message=fact("opposite_orders", limits=limits, orders=orders),
        culprit=run_index.culprit(odd) if odd else None,
        position=max(map(run_index.position, involved)),
        details=tuple(details),
    )
