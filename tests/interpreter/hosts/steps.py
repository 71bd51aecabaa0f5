"""The steps of a host thread, instruction by instruction.

`step` returns the state after the next instruction of a thread, or None while it waits. An abort of the own rank is
asked first, in one place. A call on an aborted communicator learns ABORTED, and so does a look at earlier work. A
thread that waits at the abort may have its result too. That is the execution in which the thread had its
result before the abort, and made its next call late.
"""

from __future__ import annotations

from typing import Any

from tests.interpreter.hosts import parts, tables
from tests.interpreter.hosts.language import ABORTED, LIMITED, Reading
from tests.interpreter.hosts.state import State, Thread
from tests.interpreter.language import Instruction, Script, unwrapped

RETURN = ("stop",)


def current(script: Script, rank: int, thread: Thread) -> Instruction | None:
    """Returns the thread's next instruction, or None if it has ended. The return of a program is an instruction too."""
    said = script.ranks[rank]
    if thread.end:
        return None
    return said[thread.pc] if thread.pc < len(said) and said[thread.pc][0] != "thread" else RETURN


def step(reading: Reading, state: State, rank: int, name: str) -> State | None:
    script, thread = reading.script, state.hosts[rank].threads[name]
    instruction = current(script, rank, thread)
    if instruction is None:
        return None
    if instruction[0] == "odd" and not thread.number % 2:
        return state.goes_on(rank, name)
    what, *how = unwrapped(instruction)
    if what in ("start", "await", "asks", "until"):
        after = _on_work(script, state, rank, name, what, how)
    elif what in tables.ON_TABLES:
        after = tables.step(state, rank, name, what, how)
    else:
        after = _other(script, state, rank, name, what, how)
    if after is None and what in LIMITED and how[-1] is not None:
        return _passes(reading, state, rank, name, what, how[-1])
    return after


def _passes(reading: Reading, state: State, rank: int, name: str, what: str, ms: int) -> State | None:
    """Returns the state after a sleep or time-out has begun, or has passed; None while a time-out lasts. A sleep
    orders nothing.
    """
    until = state.hosts[rank].threads[name].until
    if ms and until is None:
        return state.with_thread(rank, name, until=ms)
    if what == "sleep":
        return None if until and reading.exact else state.goes_on(rank, name)
    if ms and (until or not parts.is_calm(reading, state)):
        return None
    return state.learns(rank, name, False if what in ("until", "enter") else None)


def is_asleep(script: Script, rank: int, thread: Thread) -> bool:
    """Returns whether the thread sleeps, and the time of its sleep is not over."""
    instruction = current(script, rank, thread)
    return bool(thread.until) and instruction is not None and unwrapped(instruction)[0] == "sleep"


def _on_work(script: Script, state: State, rank: int, name: str, what: str, how: list[Any]) -> State | None:
    host = state.hosts[rank]
    if what == "start":
        if how[1] in host.aborted:
            return state.learns(rank, name, ABORTED)
        return parts.started(script, state, rank, name, *how).goes_on(rank, name)
    if how[0] not in host.parts:
        return state.goes_on(rank, name)
    part = host.parts[how[0]]
    if part.kind in host.aborted:
        return state.learns(rank, name, ABORTED)
    if what == "asks":
        return state.learns(rank, name, part.over)
    if not part.over:
        return None
    return state.learns(rank, name, True if what == "until" else parts.result(script, state, rank, part))


def _other(script: Script, state: State, rank: int, name: str, what: str, how: list[Any]) -> State | None:
    host = state.hosts[rank]
    match what:
        case "abort":
            return state.with_host(rank, aborted=host.aborted | {how[0]}).goes_on(rank, name)
        case "post":
            way = (rank, *how)
            mail = (*state.flying.get(way, ()), host.threads[name].number + 1)
            return state._replace(flying=state.flying.plus(way, mail)).goes_on(rank, name)
        case "watch":
            one = (rank, how[0], how[1], host.threads[name].pc)
            return state._replace(watched=state.watched | {one}).goes_on(rank, name)
        case "poll" | "get" | "idle" | "within":
            there = state.boxes.get((rank, how[0]), ())
            if there:
                boxes = state.boxes.plus((rank, how[0]), there[1:])
                return state._replace(boxes=boxes).learns(rank, name, there[0])
            return state.learns(rank, name, None) if what == "poll" else None
        case "sleep":
            return None
        case "open":
            return tables.opened(state, rank, name, *how)
        case "enter":
            return tables.joined(state, rank, name, *how[:2])
        case "spawn":
            first = script.ranks[rank].index(("thread", how[0])) + 1
            new = Thread(first, host.threads[name].number)
            return state.with_host(rank, threads=host.threads.plus(how[0], new)).goes_on(rank, name)
        case "ended":
            return state.learns(rank, name, ()) if host.threads[how[0]].end else None
        case "set":
            return state.with_host(rank, flags=host.flags | {how[0]}).goes_on(rank, name)
        case "flag":
            return state.learns(rank, name, ()) if how[0] in host.flags else None
        case "stop" | "raise":
            return state.with_thread(rank, name, end="returned" if what == "stop" else "raised", until=None)
    raise ValueError(what)


def prompt(reading: Reading, state: State, rank: int) -> State | None:
    """Returns the state after the rank's next step if the rank may take it at once, else None. It may if no outcome is
    lost: no other rank can tell whether the step was early.
    """
    host = state.hosts[rank]
    running = [name for name, thread in host.threads.items() if not thread.end]
    if len(running) != 1 or rank in reading.script.mortal:
        return None
    thread = host.threads[running[0]]
    instruction = current(reading.script, rank, thread)
    assert instruction is not None
    what, *how = unwrapped(instruction)
    match what:
        case _ if instruction[0] == "odd" and not thread.number % 2:
            at_once = True
        case "post" | "watch" | "put" | "start" | "abort" | "stop" | "raise" | "idle" | "get" | "await":
            at_once = True
        case "until" | "asks":
            part = host.parts.get(how[0])
            at_once = part is None or part.over or part.kind in host.aborted
        case _:
            at_once = False
    return step(reading, state, rank, running[0]) if at_once else None
