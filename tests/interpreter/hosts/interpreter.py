"""Visits all executions of a script of hosts that the contract allows, and collects their outcomes.

    interpret(script).outcomes      # for each rank how it ended, and what each awaited call returned

Threads run, parts end, ranks leave, messages and values arrive, and ranks die, one step at a time and in every order. A
part that waits for members from whom it gets nothing is `free` to end. An execution may end when only free steps and
deaths are left. Time is read as in `tests.interpreter.clock`. A death takes nothing with it but the rank: what the rank
had begun completes, and its messages arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.interpreter.clock import PATIENT
from tests.interpreter.hosts import parts, steps, tables
from tests.interpreter.hosts.language import Reading
from tests.interpreter.hosts.state import Host, State, Thread
from tests.interpreter.language import GONE, Script, unwrapped
from tests.interpreter.state import Map

Outcome: TypeAlias = tuple[tuple[str, tuple[tuple[int, Any], ...]], ...]


@dataclass
class Allowed:
    """What the contract allows. `tied`: see `State`. `complete`: the search ended before its limit."""

    outcomes: set[Outcome] = field(default_factory=set)
    tied: bool = False
    complete: bool = False
    states: int = 0


def interpret(script: Script, limit: int = 20_000, mode: str = PATIENT) -> Allowed:
    allowed, reading = Allowed(), Reading.of(script, mode)
    hosts = tuple(Host(Map({"main": Thread(number=rank + 1)})) for rank in range(script.size))
    first = _settled(reading, State(hosts))
    known, todo = {first}, [first]
    while todo and len(known) <= limit:
        state = todo.pop()
        following = [*_steps(reading, state)]
        if all(free for free, _ in following):
            later = _later(state)
            if later is None:
                allowed.outcomes.add(_outcome(script, state))
                allowed.tied |= state.tied
            else:
                following.append((False, later))
        new = {_settled(reading, after) for _, after in following} - known
        known |= new
        todo += new
    allowed.states, allowed.complete = len(known), not todo
    return allowed


def _steps(reading: Reading, state: State) -> Iterator[tuple[bool, State]]:
    """Yields every possible step, each with whether it is free: a death, or the end of a part that may wait."""
    for rank, host in enumerate(state.hosts):
        yield from ((False, after) for after in parts.takes(reading.script, state, rank))
        if host.ended:
            continue
        for name in host.threads:
            after = steps.step(reading, state, rank, name)
            if after is not None:
                yield False, after
        yield from parts.ends(reading, state, rank)
        if rank in reading.script.mortal:
            dead = Map({name: Thread(end="died") for name in host.threads})
            yield True, state.with_host(rank, threads=dead)
    yield from ((False, after) for after in (*parts.leaves(state), *tables.arrivals(state), *_mail(state)))


def _mail(state: State) -> Iterator[State]:
    yield from (_delivered(state, way) for way in state.flying)
    for one in state.watched:
        rank, peer, box, _ = one
        if state.hosts[peer].ended and (peer, rank, box) not in state.flying:
            yield _arrived(state._replace(watched=state.watched - {one}), rank, box, GONE + peer)


def _delivered(state: State, way: tuple[int, int, str]) -> State:
    first, *rest = state.flying[way]
    flying = state.flying.plus(way, tuple(rest)) if rest else state.flying.minus(way)
    return _arrived(state._replace(flying=flying), way[1], way[2], first)


def _arrived(state: State, rank: int, box: str, message: int) -> State:
    return state._replace(boxes=state.boxes.plus((rank, box), (*state.boxes.get((rank, box), ()), message)))


def _settled(reading: Reading, state: State) -> State:
    """Takes all steps that come at once without losing an outcome."""
    before = None
    while state is not before:
        before = state
        for way in state.flying:
            if way[1:] in reading.ordered:
                state = _delivered(state, way)
        for rank in range(len(state.hosts)):
            state = parts.prompt_ends(reading, state, rank)
            while (after := steps.prompt(reading, state, rank)) is not None:
                state = after
    return state


def _later(state: State) -> State | None:
    """Returns the state at the next instant at which a sleep or time-out ends, or None if no thread waits for one."""
    waiting = [thread.until for host in state.hosts for thread in host.threads.values() if thread.until]
    if not waiting:
        return None
    first = min(waiting)
    for rank, host in enumerate(state.hosts):
        state = parts.settled(state, rank)
        for name, thread in host.threads.items():
            if thread.until:
                state = state.with_thread(rank, name, until=thread.until - first)
    return state._replace(tied=state.tied or waiting.count(first) > 1)


def _outcome(script: Script, state: State) -> Outcome:
    return for_peers([(_end(script, state, rank), host.learned) for rank, host in enumerate(state.hosts)])


def for_peers(ranks: list[tuple[str, tuple[tuple[int, Any], ...]]]) -> Outcome:
    """Returns an outcome, without what a dead rank has learned: nobody knows whether it learned its last result."""
    return tuple((end, () if end == "died" else noted) for end, noted in ranks)


def _end(script: Script, state: State, rank: int) -> str:
    host = state.hosts[rank]
    ends = {thread.end for thread in host.threads.values()}
    if ends & {"died", "raised"}:
        return "died" if "died" in ends else "raised"
    last = [steps.current(script, rank, thread) or steps.RETURN for thread in host.threads.values()]
    rests = all(how == steps.RETURN or unwrapped(how)[0] == "idle" for how in last)
    return "finished" if rests else "blocked"
