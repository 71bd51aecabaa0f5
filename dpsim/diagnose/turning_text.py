"""Turning text: describes steps of a schedule in words, above all the step after which the run can only fail.

    point of no return: rank 1 reads mailbox input (engine.input[0]); 16 random schedules from there fail, too
    in this run, rank 1 reads mailbox input (engine.input[0]) before rank 0 receives message 'WAKE' of rank 2
    (tell.wake[1]); otherwise, the run finishes

The explorer identifies a step of a schedule by a label, such as "rank 0 engine.input[0]" (`dpsim.contract.events`).
This module looks up the op in the journals of the failing run, and adds the contents of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dpsim.contract.events import CALLS, DELIVERS, DELIVERS_FROM_OUTSIDE, RENDEZVOUS, ScheduleEvent
from dpsim.contract.kinds import NO_ACTS
from dpsim.contract.ops import KIND, MAIN, ORDINAL, POST_CONTENT, POST_TO, SITE, TAKE_MAILBOX, THREAD, RawRecord
from dpsim.contract.words import counted, short
from dpsim.contract.world import Run

LONGEST = 40
"""The largest number of characters of a message's content."""


def step_text(run: Run, label: str) -> str:
    """Returns a step in words. An event without a call of a rank keeps its label.

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
    event = ScheduleEvent.read(label)
    if event is None or event.ordinal is None:
        waits = event is not None and event.option == RENDEZVOUS
        return f"{event._replace(option='')} waits for its receive" if event is not None and waits else label
    call = f"{event.site}[{event.ordinal}]"
    who = f"rank {event.rank}" + (f" thread {event.thread}" if event.thread != MAIN else "")
    if event.verb == DELIVERS_FROM_OUTSIDE:
        return f"{who} receives message {event.ordinal} from outside ({event.site})"
    if event.verb == DELIVERS:
        message = sent_message(run, event)
        if message is None:
            return f"the message of {who} from {call} arrives"
        return f"rank {message.to} receives message {message.content} of {who} ({message.site})"
    raw = _record(run, event)
    if event.verb == CALLS and raw is not None and raw[KIND] == "take":
        return f"{who} reads mailbox {raw[TAKE_MAILBOX]} ({call})"
    return f"{who} {event.verb or 'calls'} {call}"


class SentMessage(NamedTuple):
    """A message that arrives: its receiver, its content as a short text, and the call that sent it."""

    to: int
    content: str
    site: str


def sent_message(run: Run, event: ScheduleEvent) -> SentMessage | None:
    """Returns the message that arrives; None for another event, or without a record of the post."""
    raw = _record(run, event) if event.verb == DELIVERS else None
    if raw is None or raw[KIND] != "post":
        return None
    return SentMessage(raw[POST_TO], short(repr(raw[POST_CONTENT]), LONGEST), f"{event.site}[{event.ordinal}]")


def _record(run: Run, event: ScheduleEvent) -> RawRecord | None:
    """Returns the record of the call of an event, or None."""
    if event.rank is None or event.rank >= len(run.journals):
        return None
    own = (raw for raw in run.journals[event.rank] if raw[KIND] not in NO_ACTS and raw[SITE] == event.site)
    return next((raw for raw in own if (raw[THREAD], raw[ORDINAL]) == (event.thread, event.ordinal)), None)


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
