"""Turning: marks the events whose swap lets a failing run finish.

    mark_turning(picture, run, ranks, extras.swaps)

    rank 0  engine.poll[2]      too early: rank 0 reads mailbox input (engine.poll[2])
    rank 1  wake[0]             sent here; rank 0 receives it too late: message 'WAKE' (wake[0])

A label of a schedule names each event. The arrival of a message is no op of the picture, so its post has the mark. A
collective has the words at its first part. Events without an op, such as the end of a time-out, have no mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpsim.contract.ops import ADDRESS
from dpsim.contract.schedule import kill_label
from dpsim.contract.world import Run
from dpsim.diagnose.evidence import in_words
from dpsim.diagnose.pictures.journal_ops import RankOps
from dpsim.diagnose.pictures.meetings import LINE
from dpsim.diagnose.pictures.op import DrawnOp, Picture
from dpsim.diagnose.turning_text import sent_message, step_text, visited

_MEETING = re.compile(
    r"(?:rank (?P<rank>\d+) (?:gives )?)?(?P<name>\S+)(?: (?P<ends>\d+>\d+))? #(?P<number>\d+)(?:: .*)?"
)
"""Matches the label of a collective or transfer, of one rank's part of it, or of a choice about it."""

_SIDES = "too early", "too late"


def mark_turning(picture: Picture, run: Run, ranks: Sequence[RankOps], swaps: Sequence[Sequence[str]]) -> None:
    """Marks the ops of each swap. A swap has two events in the order of the failing run, or a single random choice."""
    for number, swap in enumerate(swaps, 1):
        which = f"swap {number}, " if len(swaps) > 1 else ""
        sides = _SIDES if len(swap) == len(_SIDES) else ("the choice that matters",) * len(swap)
        marked = [
            _mark(_ops_of(label, ranks), in_words(run, which + _words(run, side, label)))
            for side, label in zip(sides, swap, strict=True)
        ]
        pair = [op for op in marked if op is not None]
        if len(pair) == len(_SIDES) and pair[0] is not pair[1]:
            picture.turns.append((pair[0], pair[1]))


def _words(run: Run, side: str, label: str) -> str:
    """Returns the words of an event. Those of a message that arrives stand at its post, on the rank that sent it."""
    message = sent_message(run, label) if side in _SIDES else None
    if message is None:
        return f"{side}: {step_text(run, label)}"
    to, content, site = message
    return f"sent here; rank {to} receives it {side}: message {content} ({site})"


def _mark(ops: list[DrawnOp], words: str) -> DrawnOp | None:
    """Marks the ops, the first of them with the words. Returns this one."""
    for op in ops:
        op.turning = op.turning or ""
    first = min(ops, key=lambda op: (op.begin is None, op.begin or 0, op.rank), default=None)
    if first is not None:
        first.turning = f"{first.turning}; {words}" if first.turning else words
    return first


def _ops_of(label: str, ranks: Sequence[RankOps]) -> list[DrawnOp]:
    """Returns the ops that a label of a schedule names; of a message its post."""
    op = visited(label)
    if op is not None:
        address = op.thread, op.site, op.ordinal
        own = ranks[op.rank : op.rank + 1]
        return [one for rank in own for at, one in rank.by_at.items() if rank.journal[at][ADDRESS] == address]
    killed = [one for rank in ranks for one in rank.ops if one.kind == "died" and label == kill_label(rank.rank)]
    found = _MEETING.fullmatch(label)
    if killed or found is None:
        return killed
    name = LINE.format(found["name"], *found["ends"].split(">")) if found["ends"] else found["name"]
    key, only = (name, int(found["number"])), found["rank"]
    return [one for rank in ranks for one in rank.ops if one.key == key and only in (None, str(rank.rank))]
