"""Chain: the state of each actor (rank or service) at the end of a run, and the actors that it waits for.

    for one in chain(run_index).values():
        one.state, one.what, one.waits_for       # "waits", "dp_cpu #0", (0,)

    rank 1 -> rank 0 (dp_cpu #0)                 `waits_text` of the path from rank 1
    rank 0 -> coordinator (input)                rank 0 is in an idle get, and the coordinator posts there
    coordinator stopped between two ops

An actor has one of these *states*:

    waits      a host thread or the device is blocked in an op that does not end
    idle       all remaining threads wait in idle gets: the program allows such a get to wait without end
    stopped    the last op has returned and the host issues no further one, so the program itself does not continue
    died, raised, ended

A collective waits for its missing members, and a transfer waits for its peer. A wait at a mailbox or at a store's key
does not name the actor that should answer it. `messages` lists the actors that may answer, and the list may be too
long. If a run was stopped while its actors still made steps, no actor is blocked, and the chain is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from dpsim.checks import limits
from dpsim.checks.blame.messages import MessageIndex
from dpsim.checks.blame.places import OpPlaces
from dpsim.checks.finding import Part, fact
from dpsim.checks.happens_before.points import NullSink
from dpsim.checks.happens_before.walk import Walk
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.stuck import Stuck, find_stuck
from dpsim.checks.thread_records import is_idle, waits
from dpsim.contract.kinds import MEETS, WORK, learns
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
    """The state of an actor at the end of a run.

    `what` describes its op in a few words, or the thread that stopped while others of its rank wait. `waits_for` lists
    actors: the wait ends when one or all of them act. `since` is the record of this op, or else the actor's last
    record; None if the actor has no records.
    """

    actor: int
    thread: str
    state: State
    what: str
    waits_for: tuple[int, ...]
    since: Entry | None


def chain(run_index: RunIndex) -> dict[int, ActorState]:
    """Returns the state of each actor.

    The result is empty for a run that was stopped while it still moved, or from which the machine took a process.
    """
    run = run_index.run
    if run.endless or run.lost:
        return {}
    hosts = ActorStates(run_index)
    return {actor: hosts.state_of(actor) for actor in range(len(run.ends))}


def _busy(run_index: RunIndex) -> frozenset[int]:
    run = run_index.run
    if not any(run.ends[rank] == "blocked" and _has_device(journal) for rank, journal in enumerate(run.journals)):
        return frozenset()
    walk = Walk(run_index.world, run, NullSink())
    walk.go()
    streams = (stream for host in walk.hosts for stream in (*host.streams.values(), *host.lanes.values()))
    return frozenset(stream.rank for stream in streams if stream.queue)


def _has_device(journal: Sequence[RawRecord]) -> bool:
    return any(raw[KIND] in WORK and raw[STREAM] is not None for raw in journal)


class ActorStates:
    """Determines where hosts and devices are blocked at the end of a run.

    `stuck` lists by rank the incomplete collectives and transfers in which it waits. `busy` is the set of ranks whose
    devices have unfinished work. `places` predicts the next op of an actor from similar places in the journals.
    """

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self.messages, self.places = MessageIndex(run_index.run.journals), OpPlaces(run_index)
        self.stuck: dict[int, list[Stuck]] = {}
        for one in find_stuck(run_index):
            for rank in one.waits:
                self.stuck.setdefault(rank, []).append(one)
        self.busy = _busy(run_index) | {*self.stuck}

    def state_of(self, actor: int) -> ActorState:
        """Returns the state of one actor."""
        end, last = self.run_index.end(actor), self.run_index.last(actor)
        thread = MAIN if last is None else last.raw[THREAD]
        if end == "died" or end == "raised":
            return ActorState(actor, thread, end, end, (), last)
        living, stuck = self.run_index.living(actor), self.stuck.get(actor, [])
        ops = [op for one in living if (op := _op(one)) is not None and not _over(self.run_index, op)]
        described = self._described(actor, ops, stuck, last)
        in_ops = bool(living) and len(ops) == len(living)
        if in_ops and all(is_idle(op.raw) for op in ops) and actor not in self.busy:
            return ActorState(actor, thread, "idle", *described)
        if end == "finished":
            return ActorState(actor, thread, "ended", "ended", (), last)
        if ops and all(waits(op.raw) for op in ops) and actor not in self.busy:
            for free in (one for one in living if _op(one) is None and self.places.continues(one)):
                thread = free.raw[THREAD]
                return ActorState(actor, thread, "stopped", f"issues no further op in thread {thread}", (), free)
        held = any(not is_idle(op.raw) for op in ops) or any(one.joined[actor].raw[STREAM] is None for one in stuck)
        if in_ops or held or limits.blocked_call(self.run_index, actor) is not None:
            return ActorState(actor, thread, "waits", *described)
        plain = last is not None and last.raw[KIND] in limits.PLAIN and not learns(last.raw)
        device = actor in self.busy or plain
        if device and (last is None or not self.places.continues(last)):
            return ActorState(actor, thread, "waits", described[0] or "its device", *described[1:])
        return ActorState(actor, thread, "stopped", "", (), last)

    def _described(
        self, actor: int, ops: list[Entry], stuck: list[Stuck], last: Entry | None
    ) -> tuple[str, tuple[int, ...], Entry | None]:
        """Returns the actor's blocking ops in words, the actors that it waits for, and the record of the first op.

        Incomplete collectives and transfers take precedence over other ops.
        """
        what = [(f"{one.communicator} #{one.seq}", one.missing) for one in stuck]
        what = what or [waits_of(self.messages, actor, op.raw) for op in ops]
        since = stuck[0].joined[actor] if stuck else ops[0] if ops else last
        waits_for = dict.fromkeys(one for _, actors in what for one in actors)
        return ", ".join(text for text, _ in what), tuple(waits_for), since


def _op(last: Entry) -> Entry | None:
    """Returns the op in which a thread is blocked, given its last record. None if the thread is between two ops."""
    return last if learns(last.raw) else None


def _over(run_index: RunIndex, op: Entry) -> bool:
    """Returns whether a collective or transfer completed although the thread has no later record.

    It completed if every member or peer made a call with the same number and equal arguments.
    """
    raw = op.raw
    if raw[KIND] not in MEETS or run_index.aborted:
        return False
    if raw[KIND] == "collective":
        sides = [*run_index.collectives[raw[COMMUNICATOR]].values()]
    else:
        pair = (op.rank, raw[TRANSFER_PEER]) if raw[OP] == "send" else (raw[TRANSFER_PEER], op.rank)
        sides = [*run_index.transfers[raw[COMMUNICATOR], *pair]]
    calls = [own[raw[SEQ]].raw for own in sides if len(own) > raw[SEQ]]
    field = CALL if raw[KIND] == "collective" else slice(COUNT, DTYPE + 1)
    return len(calls) == len(sides) and all(one[field] == raw[field] for one in calls)


def waits_of(messages: MessageIndex, actor: int, raw: RawRecord) -> tuple[str, tuple[int, ...]]:
    """Returns what an op waits for: a few words, and the actors that may end the wait."""
    kind = raw[KIND]
    if kind == "take":
        return raw[TAKE_MAILBOX], messages.posters(actor, raw[TAKE_MAILBOX])
    if kind == "store":
        place = raw[STORE_NODE], raw[STORE_PORT]
        if raw[STORE_HOW] == "get":
            return f"key {raw[STORE_KEY]}", messages.setters(actor, place, raw[STORE_KEY])
        return f"port {raw[STORE_PORT]}", ()
    if kind == "flag":
        return f"flag {raw[FLAG]}", ()
    if kind == "thread":
        return f"thread {raw[THREAD_NAME]}", ()
    return str(raw[SITE]), ()


def way(states: Mapping[int, ActorState], start: int, ends: Container[int]) -> tuple[int, ...]:
    """Returns the shortest path from actor `start` to one of the actors `ends` along the waits. Empty if
    there is none.
    """
    queue: deque[tuple[int, ...]] = deque([(start,)])
    seen = {start}
    while queue:
        path = queue.popleft()
        if path[-1] in ends:
            return path
        for other in states[path[-1]].waits_for:
            if other not in seen:
                seen.add(other)
                queue.append((*path, other))
    return ()


STATE_WORDS = {
    "stopped": "stopped between two ops",
    "died": "died",
    "raised": "raised",
    "ended": "has ended",
    "idle": "sleeps in an idle get of",
    "waits": "waits in",
}


def waits_text(states: Mapping[int, ActorState], path: Sequence[int]) -> tuple[Part, ...]:
    """Returns a path: a fact for each wait, and the state of the last actor."""
    steps = [fact("waits_for", rank=one, other=other, what=states[one].what) for one, other in pairwise(path)]
    last = states[path[-1]]
    return (*steps, f"rank {last.actor} {text_of(last)}")


def text_of(actor_state: ActorState) -> str:
    """Returns the state of an actor in words. A thread may have ended or stopped: its records do not differ."""
    if actor_state.state == "stopped" and actor_state.what:
        return actor_state.what
    what = f" {actor_state.what}" if actor_state.state in ("idle", "waits") else ""
    return f"{STATE_WORDS[actor_state.state]}{what}"
