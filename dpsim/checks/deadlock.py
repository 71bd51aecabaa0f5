"""Deadlock: explains a run that did not reach its end by the chain of waits between its ranks.

The check starts from incomplete ops: collectives that not every member joined, and transfers that only one side issued.
It does not start from hosts, because a host that ran ahead may have ended while its device still hangs. A rank in an
incomplete op waits for the ranks that did not join it (`stuck`). If a missing rank is in another incomplete op, it
waits as well. If each missing rank waits, the ranks form a cycle. Otherwise the cause is a rank that waits for no rank:
it ended, died, or is blocked elsewhere.

Some ops complete without all members. An eager send may return before its receive, and a root may need nothing from the
others. So such an op counts only for a rank that has not ended and is in no other incomplete op. A rank in a get waits
for a message. A rank in an idle get may wait without end, so it does not hang.

Before the check follows the chain of waits, two other parts look for a cause. `order_inversion` finds GPUs that block
each other because they run two collectives in opposite orders. `limits` finds a host that waits for room in a launch
queue or for device memory. A collective may return before all members have joined it. If the check finds no other cause
of a hang, it assumes that each collective waits for all its members.

The host threads of one rank may wait for each other (`thread_hangs`), and a stream may wait for a flag that no host
sets (`stream_flags`). Either explains why peers wait for this rank.

If nothing explains the hang, the finding is HANG:UNDECIDED. A rank that still polls is a livelock and no deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpsim.checks import crossed_transfers, given_up, limits, mail, order_inversion, stores, stream_flags, thread_hangs
from dpsim.checks.alike_hangs import shown
from dpsim.checks.blame.reached import reached
from dpsim.checks.finding import Fact, Finding, Part, fact, indented, without_indent
from dpsim.checks.run_index import GONE, Entry, RunIndex
from dpsim.checks.stuck import Stuck, find_stuck
from dpsim.contract.kinds import NO_ACTS
from dpsim.contract.ops import KIND, TAKE_MAILBOX, Collective, ReceiveAny, Transfer, as_record
from dpsim.contract.rules.replay_frame import replay_at


def check(run_index: RunIndex) -> list[Finding]:
    """Returns the finding of the hang, and one for each rank that waits for a message or key.

    Empty if the run finished or could still move, or if an exception explains the hang. The first finding lists the
    full launch queues and slots that take part.
    """
    findings = _hang(run_index)
    return [limits.takes_part(run_index, one) if not at else one for at, one in enumerate(findings)]


def every(run_index: RunIndex) -> list[Finding]:
    """Returns all hangs of a run as separate findings, even if a rank raised or died.

    `judge` calls this if the user switched off the findings that would explain the hangs.
    """
    stuck = find_stuck(run_index)
    waits = {rank: one for one in stuck for rank in one.waits}
    roots = _roots(run_index, stuck, waits)
    details = _details(run_index, stuck)
    findings = (
        thread_hangs.check(run_index)
        + stream_flags.check(run_index, waits)
        + [*mail.waiting(run_index), *stores.waiting(run_index)]
        + [_missing(run_index, stuck, root, details) for root in roots]
    )
    findings += [_cycle(run_index, waits, path, details) for path in _cycles(waits)]
    inversions = _in_streams(run_index, stuck, roots), _in_slots(run_index)
    return findings + [one for one in inversions if one is not None] or _hang(run_index, crash_explains=False)


def _hang(run_index: RunIndex, crash_explains: bool = True) -> list[Finding]:
    if run_index.run.finished or run_index.run.endless:
        return []
    stuck = find_stuck(run_index)
    waits = {rank: one for one in stuck for rank in one.waits}
    roots = _roots(run_index, stuck, waits)
    gone = [rank for rank, end in enumerate(run_index.run.ends) if end in GONE]
    raised = any(run_index.end(rank) == "raised" for rank in roots) or (not stuck and "raised" in run_index.run.ends)
    if raised and crash_explains:
        return []
    unanswered = [*mail.waiting(run_index), *stores.waiting(run_index)]
    within = thread_hangs.check(run_index) if run_index.threaded else []
    within += stream_flags.check(run_index, waits)
    if within:
        details = _details(run_index, stuck)
        own = {rank for rank in roots if thread_hangs.holds(run_index, rank)}.union(stream_flags.holding(run_index))
        others = [_missing(run_index, stuck, one, details) for one in roots if one not in own]
        return [*unanswered, *others[:1], *[_with_details(one, details) for one in within]]
    inversion = _in_streams(run_index, stuck, roots)
    if inversion:
        return [*unanswered, inversion]
    details = _details(run_index, stuck)
    held = limits.held_up(run_index, roots, unanswered, details) if stuck or unanswered else []
    if held:
        return held
    if roots:
        return [*unanswered, _missing(run_index, stuck, roots[0], details)]
    if stuck:
        return [*unanswered, _cycle(run_index, waits, _cycles(waits)[0], details)]
    blocked = [rank for rank, end in enumerate(run_index.run.ends) if end == "blocked" and not run_index.asleep(rank)]
    if unanswered or not blocked:
        return unanswered
    entry = run_index.last(blocked[0])
    groups = [{*spec.ranks} for spec in run_index.world.communicators]
    left = next((rank for rank in gone if any(rank in own and own & {*blocked} for own in groups)), None)
    if left is not None:
        return [_left_by_the_dead(run_index, left, blocked)]
    no_slots = limits.no_slots(run_index)
    other = _in_slots(run_index) or (_lasting(run_index) if no_slots and run_index.transfers else None)
    if other:
        return [other]
    return limits.held_up(run_index) or [
        Finding(
            check="deadlock",
            klass="HANG:UNDECIDED",
            message=fact("did_not_end", ranks=tuple(blocked), no_slots=no_slots),
            culprit=reached(run_index, blocked[0]) if entry and len(blocked) == 1 else None,
            position=run_index.position(entry) if entry else (0, 0),
        )
    ]


def _with_details(finding: Finding, details: tuple[Part, ...]) -> Finding:
    more = [part for part in details if without_indent(part) not in finding.details]
    return replace(finding, details=(*finding.details, *more))


def _roots(run_index: RunIndex, stuck: list[Stuck], waits: Mapping[int, Stuck]) -> list[int]:
    """Returns the ranks that others wait for, and that wait for no rank. Sleeping ranks only count if none died or
    raised. Without such a rank, returns those that aborted what others wait in, because they never join it.
    """
    missing = [(rank, one) for one in stuck for rank in one.missing]
    aborted = {rank for rank, one in missing if run_index.gave_up(rank, one.communicator)}
    roots = sorted({rank for rank, _ in missing if rank not in waits} or aborted)
    gone = any(run_index.end(rank) in GONE for rank in roots)
    return [rank for rank in roots if not (gone and run_index.asleep(rank))]


def _details(run_index: RunIndex, stuck: list[Stuck]) -> tuple[Part, ...]:
    return tuple(dict.fromkeys(line for one in stuck for line in describe(run_index, one)))


def _in_streams(run_index: RunIndex, stuck: list[Stuck], roots: list[int]) -> Finding | None:
    inversion = order_inversion.in_streams(run_index)
    if not inversion and (not stuck or any(run_index.end(rank) == "blocked" for rank in roots)):
        inversion = order_inversion.in_streams(run_index, joint=True)
        if not inversion and run_index.transfers and not limits.no_slots(run_index):
            inversion = _lasting(run_index)
    return inversion


def _lasting(run_index: RunIndex) -> Finding | None:
    streams = order_inversion.in_streams
    return streams(run_index, lasting=True) or streams(run_index, joint=True, lasting=True)


def _in_slots(run_index: RunIndex) -> Finding | None:
    if not run_index.world.residency and run_index.transfers:
        return None
    issued = order_inversion.in_residency(run_index) or order_inversion.in_residency(run_index, joint=True)
    return issued or order_inversion.in_places(run_index) or order_inversion.in_places(run_index, joint=True)


def _cycles(waits: Mapping[int, Stuck]) -> list[list[int]]:
    """Returns each cycle of ranks that wait for each other once. The first rank is at both ends."""
    found: list[list[int]] = []
    for start in sorted(waits):
        path = [start]
        while (following := waits[path[-1]].missing[0]) in waits and following not in path:
            path.append(following)
        if following in path and not any(following in cycle for cycle in found):
            found.append([*path[path.index(following) :], following])
    return found


def describe(run_index: RunIndex, stuck: Stuck) -> list[Part]:
    """Returns lines that name the waiting ranks, and the last op of each missing one."""
    some_entry = next(iter(stuck.joined.values()))
    some = wanted(some_entry)
    members = (
        [*run_index.collectives[stuck.communicator]] if stuck.kind == "collective" else [*stuck.joined, *stuck.missing]
    )
    joined = fact(
        "joined",
        communicator=stuck.communicator,
        seq=stuck.seq,
        number=len(stuck.joined),
        members=len(members),
        ranks=tuple(stuck.joined),
        call=some,
        within=run_index.within(some_entry),
    )
    parts: list[Part] = [joined]
    where: dict[object, tuple[Part, Fact | None, list[int]]] = {}
    for rank in [rank for rank in members if rank not in stuck.joined]:
        end, did = _ended(run_index, rank), _did(run_index, rank)
        where.setdefault((end, did and shown(did["op"])), (end, did, []))[2].append(rank)
    parts += [indented(fact("missing", ranks=(*own,), end=end, did=did)) for end, did, own in where.values()]
    for rank in [rank for *_, ranks in where.values() for rank in ranks if run_index.end(rank) == "blocked"]:
        parts += [indented(indented(line)) for line in thread_hangs.lines(run_index, rank)]
    return parts


def wanted(entry: Entry) -> Collective | Transfer | ReceiveAny:
    record = entry.record
    assert isinstance(record, Collective | Transfer | ReceiveAny)
    return record


def _ended(run_index: RunIndex, rank: int) -> Part:
    """Returns how a rank ended. A rank in an idle get counts as ended, although its program is still there."""
    end, last = run_index.end(rank), run_index.last(rank)
    if last is not None and end == "finished" and run_index.asleep(rank):
        return fact("asleep_in", mailbox=last.raw[TAKE_MAILBOX])
    return "ended" if end == "finished" else end


def _did(run_index: RunIndex, rank: int) -> Fact | None:
    """Returns the last op of a rank. None for a rank with threads, whose lines show each thread."""
    if rank in run_index.threaded and run_index.end(rank) == "blocked":
        return None
    journal = run_index.run.journals[rank]
    for at in range(len(journal) - 1, -1, -1):
        if journal[at][KIND] not in NO_ACTS:
            of = replay_at(journal, at)
            return fact("last_op", op=as_record(journal[at if of is None else of]))
    return None


CLASSES = {"send": "HANG:P2P:UNMATCHED_SEND", "recv": "HANG:P2P:UNMATCHED_RECV"}

NEVER = {"collective": fact("never_joins"), "recv": fact("never_sends"), "send": fact("never_receives")}


def _missing(run_index: RunIndex, stuck: list[Stuck], rank: int, details: tuple[Part, ...]) -> Finding:
    one = min(
        (one for one in stuck if rank in one.missing), key=lambda one: not run_index.gave_up(rank, one.communicator)
    )
    entry = min((one.joined[waiting] for waiting in one.waits), key=run_index.position)
    record = wanted(entry)
    culprit = reached(run_index, rank) if run_index.end(rank) in GONE else run_index.culprit(entry, rank)
    gave_up = run_index.gave_up(rank, one.communicator)
    if gave_up:
        culprit = run_index.culprit(given_up.abort_of(run_index, rank, one.communicator))
    klass = given_up.ABORTED if gave_up else "HANG:COLLECTIVE:MISSING_RANK"
    klass = "HANG:COLLECTIVE:DEAD_RANK" if run_index.end(rank) in GONE else klass
    how = fact("has_aborted", communicator=one.communicator) if gave_up else NEVER[one.kind]
    return Finding(
        check="deadlock",
        klass=CLASSES.get(one.kind, klass),
        message=fact(
            "wait_for_rank",
            ranks=(*one.waits,),
            call=record,
            communicator=one.communicator,
            seq=one.seq,
            within=run_index.within(entry),
            rank=rank,
            how=how,
            end=_ended(run_index, rank),
        ),
        culprit=culprit,
        position=run_index.position(entry),
        details=details,
    )


def _left_by_the_dead(run_index: RunIndex, rank: int, blocked: list[int]) -> Finding:
    entry, culprit = run_index.last(rank), reached(run_index, rank)
    return Finding(
        check="deadlock",
        klass="HANG:COLLECTIVE:DEAD_RANK",
        message=fact(
            "wait_for_work", ranks=(*blocked,), rank=rank, end=run_index.end(rank), site=culprit.site, step=culprit.step
        ),
        culprit=culprit,
        position=run_index.position(entry) if entry else (0, 0),
    )


def _cycle(run_index: RunIndex, waits: Mapping[int, Stuck], path: list[int], details: tuple[Part, ...]) -> Finding:
    entry = min((waits[rank].joined[rank] for rank in path), key=run_index.position)
    places = [fact("in_call", rank=rank, communicator=waits[rank].communicator, seq=waits[rank].seq) for rank in path]
    kinds = [waits[rank].kind for rank in path]
    if all(kind == "send" for kind in kinds):
        return crossed_transfers.of_hosts(run_index, waits, path, details)
    transfer = next((kind for kind in ("recv", "send") if kind in kinds), None)
    return Finding(
        check="deadlock",
        klass=CLASSES[transfer] if transfer else "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
        message=fact("circle", ops=transfer is not None, circle=fact("chain", waits=tuple(places))),
        culprit=None,
        position=run_index.position(entry),
        details=details,
    )
