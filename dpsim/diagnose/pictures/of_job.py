"""Of job: draws the picture of a torch job from its recordings or flight-recorder dumps.

    job, found = job_of_folder(folder)
    picture = picture_of_job(job, found, str(folder))

A call of gloo is on the lane of the host. NCCL calls have one lane for each group, because NCCL uses one stream for
each. Calls that a ring buffer has overwritten are missing. So a call that is over waits only for the members whose ring
buffers still have it. Times are logical ones, because the clocks of hosts differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.partings import called, shift
from dpsim.diagnose.dumps.text import as_text
from dpsim.diagnose.pictures.logical_time import Issues, Learns, Move, StreamLane, ThreadMoves, move_all
from dpsim.diagnose.pictures.meetings import LINE, holes_of, join_parts, say_waits
from dpsim.diagnose.pictures.op import HOST, NEVER, DrawnOp, Hole, Key, Picture


def picture_of_job(job: DumpedJob, found: Explanation, title: str) -> Picture:
    """Returns the picture. `title` is the name of the folder."""
    keys = _transfer_keys(job)
    ops: list[DrawnOp] = []
    threads: list[ThreadMoves] = []
    for rank, calls in job.calls.items():
        own = [_op(job, rank, call, keys) for call in calls]
        ops += own
        threads.append(ThreadMoves(rank, _moves(calls, own)))
    arrived: dict[Key, set[int]] = {}
    for op in ops:
        assert op.key is not None
        arrived.setdefault(op.key, set()).add(op.rank)
    for op, over in zip(ops, (call.over for calls in job.calls.values() for call in calls), strict=True):
        _settle(op, over, arrived[op.key or ("", 0)])
    join_parts(ops, {group.name: group.members for group in job.groups.values()})
    move_all(threads)
    ranks = range(max(job.ranks) + 1)
    picture = Picture(
        title=title,
        lines=as_text(found).split("\n"),
        actors=[f"rank {rank}" for rank in ranks],
        ends=["no dump" if rank in job.missing or rank not in job.ranks else "" for rank in ranks],
        ops=ops,
    )
    say_waits(picture, ranks_text)
    _mark(picture, found)
    return picture


def _op(job: DumpedJob, rank: int, call: RecordedCall, keys: dict[int, Key]) -> DrawnOp:
    """Returns the op of a call, without times."""
    group, shape = job.groups[call.group], call.shape
    asked = called(shape)
    size = f" of {asked.elements:,} {asked.dtype}" if asked.elements is not None else ""
    words, key, needs = f"{shape.op} #{call.seq}{size} on {group.name}", (group.name, call.seq), group.members
    if shape.is_transfer:
        peer = job.peer(call)
        key, needs = keys.get(id(call), (f"{group.name} of rank {rank}", call.seq)), (peer,)
        words = f"{shape.op} #{call.seq}{size} {'to' if shape.op == 'send' else 'from'} rank {peer} on {group.name}"
    lane = HOST if call.group.startswith("gloo:") else group.name
    site = call.place.line.rpartition("/")[2] or shape.op
    kind = "transfer" if shape.is_transfer else "collective"
    return DrawnOp(rank, lane, kind, words, site, f"{shape.op} #{call.seq}", -1, call.place.line, key, needs)


def _transfer_keys(job: DumpedJob) -> dict[int, Key]:
    """Returns, for each transfer, the key that it shares with the call of its peer."""
    keys: dict[int, Key] = {}
    for line in job.lines.values():
        (group, sender, receiver), ahead = line.key, shift(job, line)
        name = LINE.format(job.groups[group].name, sender, receiver)
        keys |= {id(call): (name, at) for at, call in enumerate(line.sends, max(ahead, 0))}
        keys |= {id(call): (name, at) for at, call in enumerate(line.receives, max(-ahead, 0))}
    return keys


def _settle(op: DrawnOp, over: bool, arrived: set[int]) -> None:
    """Makes an op end or not, as the recorder says, whichever members are missing."""
    if over:
        op.needs = [rank for rank in op.needs if rank in arrived] if len(arrived) < len(op.needs) else op.needs
    else:
        op.after.append(NEVER)


def _moves(calls: Sequence[RecordedCall], ops: Sequence[DrawnOp]) -> list[Move]:
    """Returns the moves of a host: it awaits the gloo calls that are over, and issues NCCL calls on the lanes of their
    groups.
    """
    moves: list[Move] = []
    lanes: dict[str, StreamLane] = {}
    for call, op in zip(calls, ops, strict=True):
        if op.lane == HOST:
            moves.append(Issues((op,)))
            moves += [Learns(op)] * call.over
        else:
            moves.append(Issues((op,), lanes.setdefault(op.lane, StreamLane())))
    return moves


def _mark(picture: Picture, found: Explanation) -> None:
    """Marks the call of the suspect, or the hole where its peers made the call."""
    left_out: list[Hole] = []
    suspect = found.culprit
    picture.undecided = suspect is None and found.outcome == "hang"
    if suspect is not None:
        picture.culprits = suspect.ranks
        at = [op for op in picture.ops if suspect.op and op.key == (suspect.group, suspect.seq)]
        for rank in suspect.ranks:
            own = [op for op in at if op.rank == rank]
            for op in own:
                op.marked = True
            if at and not own:
                left_out.append(Hole(rank, min(at, key=lambda op: (op.begin is None, op.begin or 0, op.rank)), True))
    picture.holes += left_out
    picture.holes += holes_of(picture, left_out)
