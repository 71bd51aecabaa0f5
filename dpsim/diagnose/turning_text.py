"""Turning text: describes steps of a schedule in words, above all the step after which the run can only fail.

    point of no return: rank 1 reads mailbox input (engine.input[0]); 16 random schedules from there fail, too
    in this run, rank 1 reads mailbox input (engine.input[0]) before rank 0 receives message 'WAKE' of rank 2
    (tell.wake[1]); otherwise, the run finishes

The explorer identifies a step of a schedule by a label, such as "rank 0 engine.input[0]" (`dpsim.contract.schedule`).
This module looks up the op in the journals of the failing run, and adds the contents of messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.contract.ops import (
    KIND,
    MAIN,
    ORDINAL,
    POST_CONTENT,
    POST_TO,
    SITE,
    TAKE_MAILBOX,
    THREAD,
    RawRecord,
)
from dpsim.contract.schedule import RENDEZVOUS
from dpsim.contract.words import counted, short
from dpsim.contract.world import Run

_VISIT = re.compile(r"rank (\d+)(?:/(\S+))? (?:(delivers from outside|delivers|comes\ to) )?(\S+)\[(\d+)\]")
"""Matches the label of an op (`dpsim.contract.schedule.visit_label`), with or without a verb."""

_WAITS = re.compile(rf"(.*): {RENDEZVOUS}")
"""Matches the label of a choice after which a send waits for its receive."""

LONGEST = 40
"""The largest number of characters of a message's content."""


class VisitedOp(NamedTuple):
    """The op of a label: rank, thread, site and ordinal. `verb`: how another event follows from this op, or empty."""

    rank: int
    thread: str
    verb: str
    site: str
    ordinal: int


def visited(label: str) -> VisitedOp | None:
    """Returns the op that a label names; None for a label without a site.

    >>> visited("rank 1/ubatch.1 delivers start[2]")
    VisitedOp(rank=1, thread='ubatch.1', verb='delivers', site='start', ordinal=2)
    """
    found = _VISIT.fullmatch(label)
    if found is None:
        return None
    rank, thread, verb, site, ordinal = found.groups()
    return VisitedOp(int(rank), thread or MAIN, verb or "", site, int(ordinal))


def step_text(run: Run, label: str) -> str:
    """Returns a step in words. A label that names no op of a rank does not change.

    >>> take = ("take", 0, "main", "engine.input", 0, "loop.py:9", "input", "idle", None)
    >>> post = ("post", 0, "main", "start", 1, "wave.py:7", 0, "input", ("START", 1))
    >>> run = Run("sim", [[take], [post]], ["blocked", "finished"], [0, 0], 0)
    >>> step_text(run, "rank 0 engine.input[0]")
    'rank 0 reads mailbox input (engine.input[0])'
    >>> step_text(run, "rank 1 delivers start[1]")
    "rank 0 receives message ('START', 1) of rank 1 (start[1])"
    >>> step_text(run, "dp #4"), step_text(run, "rank 0 pp 0>1 #0: rendezvous")
    ('dp #4', 'rank 0 pp 0>1 #0 waits for its receive')
    """
    found = visited(label)
    if found is None:
        waits = _WAITS.fullmatch(label)
        return label if waits is None else f"{waits[1]} waits for its receive"
    rank, thread, verb, site, ordinal = found
    who = f"rank {rank}" + (f" thread {thread}" if thread != MAIN else "")
    raw = _record(run, found)
    if verb == "delivers from outside":
        return f"{who} receives message {ordinal} from outside ({site})"
    if verb == "delivers":
        message = sent_message(run, label)
        if message is None:
            return f"the message of {who} from {site}[{ordinal}] arrives"
        return f"rank {message.to} receives message {message.content} of {who} ({message.site})"
    if raw is not None and raw[KIND] == "take":
        return f"{who} reads mailbox {raw[TAKE_MAILBOX]} ({site}[{ordinal}])"
    return f"{who} calls {site}[{ordinal}]"


class SentMessage(NamedTuple):
    """A message that arrives: its receiver, its content as a short text, and the call that sent it."""

    to: int
    content: str
    site: str


def sent_message(run: Run, label: str) -> SentMessage | None:
    """Returns the message whose arrival a label names; None for another label, or without a record of the post."""
    found = visited(label)
    raw = None if found is None or found.verb != "delivers" else _record(run, found)
    if found is None or raw is None or raw[KIND] != "post":
        return None
    return SentMessage(raw[POST_TO], short(repr(raw[POST_CONTENT]), LONGEST), f"{found.site}[{found.ordinal}]")


def _record(run: Run, op: VisitedOp) -> RawRecord | None:
    """Returns the record of an op, or None."""
    rank, thread, _, site, ordinal = op
    if rank >= len(run.journals):
        return None
    outcomes = ("learned", "injected")
    own = (raw for raw in run.journals[rank] if raw[KIND] not in outcomes and raw[SITE] == site)
    return next((raw for raw in own if (raw[THREAD], raw[ORDINAL]) == (thread, ordinal)), None)


def no_return(run: Run, point: str, walks: int) -> str:
    """Returns the point of no return, with its evidence; empty without one."""
    if not point:
        return ""
    return f"{step_text(run, point)}; {counted(walks, 'random schedule')} from there fail, too"


def to_swap(run: Run, swaps: Sequence[Sequence[str]]) -> str:
    """Returns the events whose swap lets the run finish; empty without any. A single label is a choice and
    its result.
    """
    pairs = [" before ".join(step_text(run, label) for label in swap) for swap in swaps]
    return " and ".join(pairs)
