"""The state of each actor at the end of a run, and the actors that it waits for.

    for one in chain(run_index).values():
        one.state, one.what, one.waits_for       # "waits", "dp_cpu #0", (0,)

    rank 1 -> rank 0 (dp_cpu #0)                 `waits_text` of the path from rank 1
    rank 0 -> coordinator (input)                rank 0 is in an idle get, and the coordinator posts there
    coordinator stands between two ops

An actor, a rank or service, has one of these *states*:

    waits      a thread of its host, or its device, stands in an op that does not end
    idle       its remaining threads are in idle gets, which may last without end
    stopped    its host is behind one op and before the next: only the program itself can stop there
    died, raised, ended

A collective or transfer determines the actors that its ranks wait for. For mailboxes and stores, this module learns
them from the run (`letters`), perhaps too many. A run that moves without end has no such chain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from dpsim.checks import limits
from dpsim.checks.blame.letters import LetterIndex
from dpsim.checks.blame.places import OpPlaces
from dpsim.checks.happens_before.points import NullSink
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.stuck import Stuck, find_stuck
from dpsim.checks.thread_records import awaited, is_idle, waits
from dpsim.contract.ops import (
    CALL,
    COMMUNICATOR,
    COUNT,
    DTYPE,
    FLAG,
    KIND,
    MAIN,
    OP,
    SEQ,
    SITE,
    STORE_HOW,
    STORE_KEY,
    STORE_NODE,
    STORE_PORT,
    STREAM,
    TAKE_MAILBOX,
    THREAD,
    THREAD_NAME,
    TRANSFER_PEER,
    RawRecord,
)

State: TypeAlias = Literal["waits", "idle", "stopped", "died", "raised", "ended"]


class ActorState(NamedTuple):
    """The state of an actor. `what`: its op, in few words. `waits_for`: actors of which one or all may release it.
    `since`: its last record, or that of the op; None for an actor without records.
    """

    actor: int
    thread: str
    state: State
    what: str
    waits_for: tuple[int, ...]
    since: Entry | None


def chain(run_index: RunIndex) -> dict[int, ActorState]:
    """The state of each actor; empty for a run that moves without end, or from which the machine took a resource."""
    run = run_index.run
    if run.endless or run.lost:
        return {}
    hosts = HostStands(run_index)
    return {actor: hosts.standing(actor) for actor in range(len(run.ends))}


def _busy(run_index: RunIndex) -> frozenset[int]:
    """The ranks whose devices have unfinished work."""
    run = run_index.run
    if not any(run.ends[rank] == "blocked" and _has_device(journal) for rank, journal in enumerate(run.journals)):
        return frozenset()
    walk = Walk(run_index.world, run, NullSink())
    walk.go()
    streams = (stream for host in walk.hosts for stream in (*host.streams.values(), *host.lanes.values()))
    return frozenset(stream.rank for stream in streams if stream.queue)


def _has_device(journal: Sequence[RawRecord]) -> bool:
    return any(raw[KIND] in ("collective", "transfer", "launch", "read") and raw[STREAM] is not None for raw in journal)


class HostStands:
    """The ops in which hosts and devices stand. `stuck`: by rank, the calls in which it stands. `busy`: the ranks whose
    devices have unfinished work. `places`: the next ops at similar places of the journals.
    """

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self.letters, self.places = LetterIndex(run_index.run.journals), OpPlaces(run_index)
        self.stuck: dict[int, list[Stuck]] = {}
        for one in find_stuck(run_index):
            for rank in one.waits:
                self.stuck.setdefault(rank, []).append(one)
        self.busy = _busy(run_index) | {*self.stuck}

    def standing(self, actor: int) -> ActorState:
        """The state of an actor."""
        end, last = self.run_index.end(actor), self.run_index.last(actor)
        thread = MAIN if last is None else last.raw[THREAD]
        if end == "died" or end == "raised":
            return ActorState(actor, thread, end, end, (), last)
        living, stuck = self.run_index.living(actor), self.stuck.get(actor, [])
        ops = [op for one in living if (op := _op(one)) is not None and not _over(self.run_index, op)]
        told = self._told(actor, ops, stuck, last)
        in_ops = bool(living) and len(ops) == len(living)
        if in_ops and all(is_idle(op.raw) for op in ops) and actor not in self.busy:
            return ActorState(actor, thread, "idle", *told)
        if end == "finished":
            return ActorState(actor, thread, "ended", "ended", (), last)
        if ops and all(waits(op.raw) for op in ops) and actor not in self.busy:
            for free in (one for one in living if _op(one) is None and self.places.goes_on(one)):
                return ActorState(actor, free.raw[THREAD], "stopped", "no op", (), free)
        held = any(not is_idle(op.raw) for op in ops) or any(one.joined[actor].raw[STREAM] is None for one in stuck)
        if in_ops or held or limits.stands_at(self.run_index, actor) is not None:
            return ActorState(actor, thread, "waits", *told)
        plain = last is not None and last.raw[KIND] in limits.PLAIN and not awaited(last.raw)
        device = actor in self.busy or plain
        if device and (last is None or not self.places.goes_on(last)):
            return ActorState(actor, thread, "waits", told[0] or "its device", *told[1:])
        return ActorState(actor, thread, "stopped", "no op", (), last)

    def _told(
        self, actor: int, ops: list[Entry], stuck: list[Stuck], last: Entry | None
    ) -> tuple[str, tuple[int, ...], Entry | None]:
        """The op in which an actor stands, the actors that it waits for, and its record: its calls without an end
        first, then other ops.
        """
        what = [(f"{one.communicator} #{one.seq}", one.missing) for one in stuck]
        what = what or [waits_of(self.letters, actor, op.raw) for op in ops]
        since = stuck[0].joined[actor] if stuck else ops[0] if ops else last
        waits_for = dict.fromkeys(one for _, actors in what for one in actors)
        return ", ".join(text for text, _ in what), tuple(waits_for), since


def _op(last: Entry) -> Entry | None:
    """The op in which a thread stands, by its last record; None for a thread between two ops."""
    raw = last.raw
    if raw[KIND] == "store":
        return last if raw[STORE_HOW] in ("open", "join", "get") else None
    return last if awaited(raw) else None


def _over(run_index: RunIndex, op: Entry) -> bool:
    """Whether a call of a host has ended although its thread has no later record: all sides made equal calls."""
    raw = op.raw
    if raw[KIND] not in ("collective", "transfer") or run_index.aborted:
        return False
    if raw[KIND] == "collective":
        sides = [*run_index.collectives[raw[COMMUNICATOR]].values()]
    else:
        pair = (op.rank, raw[TRANSFER_PEER]) if raw[OP] == "send" else (raw[TRANSFER_PEER], op.rank)
        sides = [*run_index.transfers[raw[COMMUNICATOR], *pair]]
    calls = [own[raw[SEQ]].raw for own in sides if len(own) > raw[SEQ]]
    field = CALL if raw[KIND] == "collective" else slice(COUNT, DTYPE + 1)
    return len(calls) == len(sides) and all(one[field] == raw[field] for one in calls)


def waits_of(letters: LetterIndex, actor: int, raw: RawRecord) -> tuple[str, tuple[int, ...]]:
    """The wait of an op in few words, and the actors that it waits for."""
    kind = raw[KIND]
    if kind == "take":
        return raw[TAKE_MAILBOX], letters.posters(actor, raw[TAKE_MAILBOX])
    if kind == "store":
        place = raw[STORE_NODE], raw[STORE_PORT]
        if raw[STORE_HOW] == "get":
            return f"key {raw[STORE_KEY]}", letters.setters(actor, place, raw[STORE_KEY])
        return f"port {raw[STORE_PORT]}", ()
    if kind == "flag":
        return f"flag {raw[FLAG]}", ()
    if kind == "thread":
        return f"thread {raw[THREAD_NAME]}", ()
    return str(raw[SITE]), ()


def way(standings: Mapping[int, ActorState], start: int, ends: Container[int]) -> tuple[int, ...]:
    """The shortest path from an actor to one of `ends`, along the waits; empty if there is none."""
    queue: deque[tuple[int, ...]] = deque([(start,)])
    seen = {start}
    while queue:
        path = queue.popleft()
        if path[-1] in ends:
            return path
        for other in standings[path[-1]].waits_for:
            if other not in seen:
                seen.add(other)
                queue.append((*path, other))
    return ()


SAID = {
    "stopped": "stands between two ops",
    "died": "died",
    "raised": "raised",
    "ended": "has ended",
    "idle": "sleeps in an idle get of",
    "waits": "waits in",
}


def waits_text(standings: Mapping[int, ActorState], path: Sequence[int]) -> tuple[str, ...]:
    """A path in words: each wait, and the state of the last actor."""
    steps = [f"rank {one} -> rank {other} ({standings[one].what})" for one, other in pairwise(path)]
    last = standings[path[-1]]
    return (*steps, f"rank {last.actor} {told_of(last)}")


def told_of(standing: ActorState) -> str:
    """The state of an actor, in words."""
    what = f" {standing.what}" if standing.state in ("idle", "waits") else ""
    return f"{SAID[standing.state]}{what}"
