"""Visits all executions of a script of hosts that the contract allows, and collects their outcomes.

    interpret(script).outcomes      # for each rank how it ended, and what each awaited call returned

Threads run, parts end, ranks leave, messages and values arrive, and ranks die, one step at a time and in every order. A
part that waits for members from whom it gets nothing is `free` to end. An execution may end when only free steps are
left. What a dead rank had begun completes. Its messages arrive, or each of them may be lost (`Script.loses_mail`), and
its stores are closed.

A sleep may end at any time, as a host may be slow or fast. A time-out passes only when nothing but sleeps, deaths and
free steps is left, and no running sleep or time-out ends before it (docs/assumptions.md). The interpreter does not
know that a sleep which ended early lasted for its time all the same. So it allows slightly too much, unless sleeps are
`exact`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from tests.interpreter.hosts import parts, steps, tables
from tests.interpreter.hosts.language import Reading
from tests.interpreter.hosts.state import Host, State, Thread
from tests.interpreter.interpreter import Outcome, outcome_for_peers
from tests.interpreter.language import GONE, Script, unwrapped
from tests.interpreter.state import Map


@dataclass
class Allowed:
    """What the contract allows. `tied`: see `State`. `complete`: the search ended before its limit."""

    outcomes: set[Outcome] = field(default_factory=set)
    tied: bool = False
    complete: bool = False
    states: int = 0


def interpret(script: Script, limit: int = 20_000, exact: bool = False) -> Allowed:
    allowed, reading = Allowed(), Reading.of(script, exact)
    hosts = tuple(Host(Map({"main": Thread(number=rank + 1)})) for rank in range(script.size))
    first = _settled(reading, State(hosts))
    known, todo = {first}, [first]
    while todo and len(known) <= limit:
        state = todo.pop()
        following = [*_steps(reading, state)]
        if all(free for free, _ in following):
            later = _later(script, state)
            if later is None:
                allowed.outcomes.add(_outcome(script, state))
                allowed.tied |= state.tied
            else:
                following.append((True, later))
        new = {_settled(reading, after) for _, after in following} - known
        known |= new
        todo += new
    allowed.states, allowed.complete = len(known), not todo
    return allowed


def _steps(reading: Reading, state: State) -> Iterator[tuple[bool, State]]:
    """Yields every possible step, each with whether it is free. Free are deaths, leavings, ends of sleeps before their
    time, and ends of parts that may wait.
    """
    for rank, host in enumerate(state.hosts):
        yield from ((False, after) for after in parts.takes(reading.script, state, rank))
        if host.ended:
            continue
        for name in host.threads:
            after = steps.step(reading, state, rank, name)
            if after is not None:
                yield steps.is_asleep(reading.script, rank, host.threads[name]), after
        yield from parts.ends(reading, state, rank)
        if rank in reading.script.mortal:
            yield from ((True, after) for after in _deaths(reading.script, state, rank))
    yield from ((True, after) for after in parts.leaves(state))
    yield from ((False, after) for after in (*tables.arrivals(state), *_mail(state)))


def _deaths(script: Script, state: State, rank: int) -> Iterator[State]:
    """Yields the states after a death, with each choice of the messages that are lost with the rank. A mailbox gets the
    messages of one sender in order, so the last ones of each line are lost.
    """
    threads = Map({name: Thread(end="died") for name in state.hosts[rank].threads})
    state = tables.closed_by(state, rank).with_host(rank, threads=threads)
    mine = {way: mail for way, mail in state.flying.items() if way[0] == rank and script.loses_mail}
    for kept in product(*[range(len(mail) + 1) for mail in mine.values()]):
        flying = state.flying
        for (way, mail), number in zip(mine.items(), kept, strict=True):
            flying = flying.plus(way, mail[:number]) if number else flying.minus(way)
        yield state._replace(flying=flying)


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


def _later(script: Script, state: State) -> State | None:
    """Returns the state at the next instant at which a sleep or time-out ends, or None if no thread waits for one."""
    waiting = [
        (thread.until, steps.is_asleep(script, rank, thread))
        for rank, host in enumerate(state.hosts)
        for thread in host.threads.values()
        if thread.until
    ]
    if not waiting:
        return None
    first = min(until for until, _ in waiting)
    due = [asleep for until, asleep in waiting if until == first]
    state = state if all(due) else parts.settled(state)
    for rank, host in enumerate(state.hosts):
        for name, thread in host.threads.items():
            if thread.until:
                state = state.with_thread(rank, name, until=thread.until - first)
    return state._replace(tied=state.tied or len(due) > 1)


def _outcome(script: Script, state: State) -> Outcome:
    ends = [_end(script, state, rank) for rank in range(script.size)]
    return outcome_for_peers([(end, host.learned) for end, host in zip(ends, state.hosts, strict=True)], script)


def _end(script: Script, state: State, rank: int) -> str:
    host = state.hosts[rank]
    ends = {thread.end for thread in host.threads.values()}
    if ends & {"died", "raised"}:
        return "died" if "died" in ends else "raised"
    last = [steps.current(script, rank, thread) or steps.RETURN for thread in host.threads.values()]
    rests = all(how == steps.RETURN or unwrapped(how)[0] == "idle" for how in last)
    return "finished" if rests else "blocked"
