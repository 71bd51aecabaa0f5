"""Injected: reports planted faults, delays and messages that never happened, so that a typing error in one is noticed.

    faults: rank 1 never reached dp.agre[5]; did you mean dp.agree?

A run whose fault did not happen would otherwise count as healthy. A fault does not happen if no rank reaches its
address, if it changes nothing there, or if its rank ends before. A message from outside has no effect if its receiver
never takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpsim.checks.expected import Expected
from dpsim.contract.collectives import COLLECTIVES, UNKNOWN
from dpsim.contract.kinds import MEETS, NAMED, SHARED
from dpsim.contract.ops import (
    ADDRESS,
    CALL,
    COLLECTIVE_SIZES,
    COMMUNICATOR,
    GRAPH,
    INJECTED_COMMUNICATOR,
    INJECTED_SEQ,
    INJECTED_WHAT,
    KIND,
    LEARNED_OUTCOME,
    OP,
    ORDINAL,
    SEQ,
    SITE,
    TAKE_MAILBOX,
    THREAD,
    Injected,
    RawRecord,
    posted,
)
from dpsim.contract.rules.replay_frame import MADE, replay_at, within
from dpsim.contract.words import counted, did_you_mean, nearest
from dpsim.contract.world import At, Kill, Message, Run, World, fault_text

REPLAYED = MADE | {"replay"}

CHANGES = frozenset({"skip", "repeat", "alter"})
"""Kinds of fault that change a call. They apply to collectives and transfers."""

CHANGED = MEETS | {"replay"}
"""Kinds of record at which a user may place such a fault. A replay contains such calls."""

NEVER_LATE = (
    ": calls on stores, ports and events, allocations and decisions are never late. Delay the start of the rank (leave "
    "`at` out) or a call before; `dpsim explore` tries all orders without a delay"
)
"""Why a delay did not happen although the rank reached its address."""

SHOWN = 20
"""The largest number of sites in a message, if no site has a similar name."""


def never_applied(world: World, run: Run) -> list[str]:
    """Returns one line for each fault, kill, delay or message of the world without a record in the journals."""
    lines = []
    for kind, described, rank, at, change in [
        *((fault.kind, fault.describe(), fault.rank, fault.at, fault.change) for fault in world.faults),
        *(("delay", "delay", delay.rank, delay.at, {}) for delay in world.delays),
    ]:
        if not any(raw[KIND] == "injected" and _is_record_of(raw, kind, at) for raw in run.journals[rank]):
            lines.append(f"{described}: {_why(world, run, rank, at, kind, 'count' in change)}")
    for message in world.messages:
        described = _unheard(world, run, message)
        if described:
            lines.append(f"{message.describe()} of {world.actor(message.to)}: {described}")
    for kill in world.kills:
        if not any(raw[KIND] == "injected" and raw[INJECTED_WHAT] == "kill" for raw in run.journals[kill.rank]):
            lines.append(f"kill: {_lived(world, run, kill)}")
    return lines


def not_the_cause(expected: Expected, world: World, run: Run) -> list[str]:
    """Returns why no planted fault or kill happened in a violated run, if a violation is expected: the failure then has
    another cause.

    Empty if one of them happened, because the run may have stopped before it reached the others. Also empty if none is
    planted.
    """
    planted = len(world.faults) + len(world.kills)
    if expected.verdict != "violated" or not planted:
        return []
    lines = never_applied(replace(world, delays=(), messages=()), run)
    return [*lines, "the failure has another cause"] if len(lines) == planted else []


def _unheard(world: World, run: Run, message: Message) -> str:
    """Returns why the machine did not send a message from outside, or why it stayed in its mailbox; empty otherwise."""
    wanted = message.to, message.mailbox, message.content
    if not any(posted(raw) == wanted and _is_record_of(raw, "message", message.at) for raw in run.journals[message.by]):
        return _why(world, run, message.by, message.at, "message")
    journal = run.journals[message.to]
    boxes = sorted({raw[TAKE_MAILBOX] for raw in journal if raw[KIND] == "take"})
    if message.mailbox in boxes:
        looks = {raw[ADDRESS] for raw in journal if raw[KIND] == "take" and raw[TAKE_MAILBOX] == message.mailbox}
        taken = any(
            raw[KIND] == "learned" and raw[ADDRESS] in looks and raw[LEARNED_OUTCOME] == message.content
            for raw in journal
        )
        return "" if taken else f"{world.actor(message.to)} polled this mailbox and never took the message"
    hint = f"it polls {', '.join(boxes)}" if boxes else "it polls no mailbox"
    return f"{world.actor(message.to)} never polled this mailbox; {hint}{did_you_mean(message.mailbox, boxes)}"


def injection_text(record: Injected) -> str:
    """Returns an injection in words: "skip", "alter count to 9 at dp_cpu #3", "message 5 to inbox of rank 2"."""
    if record.what == "message":
        (_, to), (_, mailbox), (_, content) = record.change
        return f"message {content!r} to {mailbox} of rank {to}"
    text = f"delay {_exactly(record.ns)}" if record.what == "delay" else fault_text(record.what, dict(record.change))
    return text if record.communicator is None else f"{text} at {record.communicator} #{record.seq}"


def _exactly(ns: int) -> str:
    units = ((10**9, "s"), (10**6, "ms"), (1000, "us"), (1, "ns"))
    unit, name = next((unit, name) for unit, name in units if ns >= unit)
    return f"{ns / unit:g} {name}"


def _is_record_of(raw: RawRecord, kind: str, at: At) -> bool:
    """Returns whether an `Injected` record belongs to a fault or delay of this kind at this address of its rank."""
    if raw[INJECTED_WHAT] != kind:
        return False
    if at.communicator is not None:
        return (raw[INJECTED_COMMUNICATOR], raw[INJECTED_SEQ]) == (at.communicator, at.seq)
    site = "start" if at.site is None else at.site
    return (raw[THREAD], raw[SITE]) == (at.thread, site) and at.ordinal in (None, raw[ORDINAL])


def _lived(world: World, run: Run, kill: Kill) -> str:
    if kill.at is not None:
        why = _why(world, run, kill.rank, kill.at, "kill")
        if any(part in why for part in ("never reached", "no host thread", "in replay")):
            return why
    return f"{world.actor(kill.rank)} {_ENDED[run.ends[kill.rank]]} before it died"


_ENDED = {"finished": "had ended", "blocked": "stood still", "raised": "had raised", "died": "had died otherwise"}


def _why(world: World, run: Run, rank: int, at: At, kind: str, count: bool = False) -> str:
    """Returns why nothing happened at an address. `count`: the fault changes a count."""
    journal, who = run.journals[rank], world.actor(rank)
    if at.communicator is not None:
        calls = sum(_is_collective(raw, at) for raw in journal)
        if at.seq is not None and at.seq < calls:
            return _in_vain(who, journal, at, kind, count, lambda raw: _is_collective(raw, at) and raw[SEQ] == at.seq)
        return f"{who} never reached {at}; it made {calls} collectives on {at.communicator}"
    threads = sorted({raw[THREAD] for raw in journal})
    if threads and at.thread not in threads:
        return f"{who} has no host thread {at.thread!r}; it has {', '.join(threads)}"
    here = (at.thread, at.site)
    visits = [raw[ORDINAL] for raw in journal if (raw[THREAD], raw[SITE]) == here and raw[KIND] not in SHARED]
    if visits and (at.ordinal is None or at.ordinal in visits):
        return _in_vain(
            who, journal, at, kind, count, lambda raw: (raw[THREAD], raw[SITE], raw[ORDINAL]) == (*here, at.ordinal)
        )
    if visits:
        return f"{who} never reached {at}; its last visit was {at.site}[{max(visits)}]"
    sites = sorted({raw[SITE] for raw in journal if raw[KIND] in NAMED and raw[THREAD] == at.thread})
    near = nearest(str(at.site), sites)
    hint = f"did you mean {near[0]}?" if near else f"its sites: {_some(sites)}"
    return f"{who} never reached {at}; {hint}"


def _some(sites: list[str]) -> str:
    more = [counted(len(sites) - SHOWN, "more site")] if len(sites) > SHOWN else []
    return ", ".join([*sites[:SHOWN], *more]) or "none"


def _is_collective(raw: RawRecord, at: At) -> bool:
    return bool(raw[KIND] == "collective" and raw[COMMUNICATOR] == at.communicator)


def _in_vain(
    who: str, journal: list[RawRecord], at: At, kind: str, count: bool, is_there: Callable[[RawRecord], bool]
) -> str:
    """Returns why nothing happened at an address that the rank reached."""
    index = next((index for index, raw in enumerate(journal) if raw[KIND] in REPLAYED and is_there(raw)), None)
    of = None if index is None else replay_at(journal, index)
    meant = index != of if kind not in CHANGES else index is not None and journal[index][KIND] in CHANGED
    if count and index is not None and of is None and _sizes_rule(journal[index]):
        sizes = list(journal[index][COLLECTIVE_SIZES])
        return f"{who} reached {at}, but a count changes nothing where sizes say what moves: {sizes}"
    if index is None or of is None or not meant:
        return f"{who} reached {at}, but there it changes nothing{NEVER_LATE if kind == 'delay' else ''}"
    reached = f"{who} reached {at}" + (f" in {within(journal, index)}" if of != index else ", a replay")
    if kind not in CHANGES:
        return f"{reached}. A replay goes out as a whole: name the replay, or the call in the capture"
    return (
        f"{reached}. A replay goes out as a whole: a scenario can delay it, or let its rank die there. "
        f"To {kind} a call, name it in the capture of graph {journal[of][GRAPH]}"
    )


def _sizes_rule(raw: RawRecord) -> bool:
    return raw[KIND] == "collective" and COLLECTIVES.get(raw[OP], UNKNOWN).sizes_rule(raw[CALL])
