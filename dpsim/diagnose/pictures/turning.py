"""Turning: marks the events whose swap lets a failing run finish.

    mark_turning(picture, run, ranks, extras.swaps)

    rank 0  engine.poll[2]      too early: rank 0 reads mailbox input (engine.poll[2])
    rank 1  wake[0]             sent here; rank 0 receives it too late: message 'WAKE' (wake[0])

A label of a schedule names each event. The arrival of a message is no op of the picture, so its post has the mark. A
collective has the words at its first part. Events without an op, such as the end of a time-out, have no mark.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.events import CALLS, GIVES, KILL, REACHES, ScheduleEvent
from dpsim.contract.ops import ADDRESS
from dpsim.contract.world import Run
from dpsim.diagnose.pictures.journal_ops import RankOps
from dpsim.diagnose.pictures.meetings import LINE
from dpsim.diagnose.pictures.op import DrawnOp, Picture
from dpsim.diagnose.turning_text import sent_message, step_text
from dpsim.diagnose.words import in_words

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
    event = ScheduleEvent.read(label)
    message = sent_message(run, event) if side in _SIDES and event is not None else None
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
    event = ScheduleEvent.read(label)
    if event is None:
        return []
    own = ranks if event.rank is None else ranks[event.rank : event.rank + 1]
    if event.ordinal is not None:
        address = event.thread, event.site, event.ordinal
        return [one for rank in own for at, one in rank.by_at.items() if rank.journal[at][ADDRESS] == address]
    if event.actor == KILL:
        return [one for rank in own for one in rank.ops if one.kind == "died"]
    if event.verb not in (CALLS, GIVES, REACHES):
        return []
    name, _, ends = f"{event.actor if event.rank is None else ''} {event.site}".strip().partition(" ")
    key = LINE.format(name, *ends.split(">")) if ends else name, event.number
    return [one for rank in own for one in rank.ops if one.key == key]
