"""Meetings: joins the ops of several ranks that form one collective or transfer, and finds ranks that are missing in
it.

    join_parts(ops, members)        # before the ops move
    say_waits(picture, words)       # afterwards: "waits for rank 1"
    holes_of(picture, [])           # the calls that peers wait for

If a rank issued further ops after a send, the send ended, with or without its receive. A send without a receive in
which its rank is blocked never ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from dpsim.diagnose.pictures.logical_time import PartsMeet
from dpsim.diagnose.pictures.op import NEVER, DrawnOp, Hole, Key, Picture

LINE = "{} from rank {} to {}"
"""The name of transfers in one direction, as the first part of a key."""


def join_parts(ops: Iterable[DrawnOp], members: Mapping[str, Sequence[int]]) -> None:
    """Lets each part of a collective wait for the members that it needs, and each receive for its send.

    `members` maps each communicator to its ranks.
    """
    parts: dict[Key, dict[int, DrawnOp]] = defaultdict(dict)
    for op in ops:
        if op.key is not None:
            parts[op.key][op.rank] = op
    for key, own in parts.items():
        every = members.get(key[0])
        meeting: PartsMeet | None = None
        for rank, op in own.items():
            if op.kind == "transfer":
                _join_transfer(op, own)
            elif every is not None and len(op.needs) == len(every):
                meeting = meeting or PartsMeet(len(every))
                meeting.join(op)
            else:
                op.after += [own[other].began if other in own else NEVER for other in op.needs if other != rank]
        if meeting is not None:
            for op in own.values():
                if len(op.needs) != len(every or ()):
                    meeting.expect(op)


def _join_transfer(op: DrawnOp, both: Mapping[int, DrawnOp]) -> None:
    other = next((one for rank, one in both.items() if rank != op.rank), None)
    if op.said.startswith("send"):
        return
    op.after.append(NEVER if other is None else other.began)


def say_waits(picture: Picture, words: Callable[[Sequence[int]], str]) -> None:
    """Labels each op that never ends with the ranks for which it waits. `words` turns ranks into text."""
    there, parts = _there(picture.ops), _parts(picture.ops)
    for op in picture.ops:
        if op.begin is None or op.end is not None:
            op.label = ""
            continue
        missing = absent(op, there)
        others = [one for one in parts.get(op.key or ("", 0), ()) if one.said != op.said and one.kind == "collective"]
        alike = [one.rank for one in others if one.said == others[0].said]
        if missing:
            op.label = f"waits for {words(missing)}"
        elif alike:
            op.label = f"meets {others[0].said.partition(' on ')[0]} of {words(alike)}"
        else:
            op.label = op.label or "does not end"


def absent(op: DrawnOp, there: Mapping[Key, set[int]]) -> list[int]:
    """Returns the ranks that an op waits for and that have not issued their part."""
    if op.key is None:
        return []
    return [rank for rank in op.needs if rank != op.rank and rank not in there.get(op.key, ())]


def holes_of(picture: Picture, known: Sequence[Hole]) -> list[Hole]:
    """Returns a hole for each call that an op waits for and that its rank has not issued, except for those
    in `known`.
    """
    there, parts = _there(picture.ops), _parts(picture.ops)
    holes: dict[tuple[int, Key], Hole] = {}
    taken = {(one.rank, one.op.key) for one in known}
    for op in picture.ops:
        if op.begin is None or op.end is not None or op.key is None:
            continue
        for rank in absent(op, there):
            if (rank, op.key) not in taken and all(one.rank != rank for one in parts[op.key]):
                holes.setdefault((rank, op.key), Hole(rank, op, rank in picture.culprits and not known))
    return [*holes.values()]


def _there(ops: Iterable[DrawnOp]) -> dict[Key, set[int]]:
    """Returns the ranks that have begun their part, by key."""
    found: dict[Key, set[int]] = defaultdict(set)
    for op in ops:
        if op.key is not None and op.begin is not None:
            found[op.key].add(op.rank)
    return found


def _parts(ops: Iterable[DrawnOp]) -> dict[Key, list[DrawnOp]]:
    """Returns the ops of each key, even those that never began."""
    found: dict[Key, list[DrawnOp]] = defaultdict(list)
    for op in ops:
        if op.key is not None:
            found[op.key].append(op)
    return found
