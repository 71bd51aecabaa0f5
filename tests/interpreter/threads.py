"""Host threads of a rank in the interpreter: one thread is current, and the others are parked.

All instructions of a rank are one list. The instructions of a thread begin after `("thread", name)` and end before the
next such entry, so each instruction has a place. A step of a thread is a call with the Python code up to the next call.
This code includes accesses to the list that the threads share. Noting the result of an awaited call is a call as well.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from tests.interpreter.language import Script, unwrapped
from tests.interpreter.moves import goes_on, learns, notes
from tests.interpreter.state import Host, State, Thread

PYTHON = ("append", "show")

NOTING = ("poll", "get", "idle", "within", "await", "read", "query", "sync", "ended", "flag")


def names(host: Host) -> tuple[str, ...]:
    return (host.thread, *sorted(host.parked)) if host.parked else (host.thread,)


def turn(host: Host, name: str) -> Host:
    """Returns the rank with this thread as the current one."""
    if name == host.thread:
        return host
    mine = Thread(host.pc, host.number, host.end, host.asked, host.until, host.held)
    parked = host.parked.minus(name).plus(host.thread, mine)
    return host._replace(thread=name, parked=parked, **host.parked[name]._asdict())


def over(host: Host) -> bool:
    """Returns whether all threads have ended."""
    return bool(host.end) and all(one.end for one in host.parked.values())


def section(script: Script, rank: int, name: str) -> int:
    """Returns the place of a thread's first instruction."""
    return script.ranks[rank].index(("thread", name)) + 1


def step(script: Script, state: State, rank: int, what: str, how: list[Any]) -> State | None:
    host = state.hosts[rank]
    match what:
        case "spawn":
            thread = Thread(section(script, rank, how[0]), host.number)
            return goes_on(state, rank, host._replace(parked=host.parked.plus(how[0], thread)))
        case "ended":
            return learns(state, rank, host, ()) if host.parked[how[0]].end else None
        case "set":
            return goes_on(state, rank, host._replace(flags=host.flags | {how[0]}))
        case "flag":
            return learns(state, rank, host, ()) if how[0] in host.flags else None
        case "append":
            return goes_on(state, rank, host._replace(shared=(*host.shared, host.pc)))
        case "show":
            return notes(state, rank, host, host.shared)
    raise ValueError(what)


def rested(script: Script, state: State, rank: int, place: int) -> State:
    """Continues the current thread after the instruction at `place`, in Python up to its next call. Then makes the main
    thread current.
    """
    said, does = script.ranks[rank], unwrapped(script.ranks[rank][place])[0] if place < len(script.ranks[rank]) else ""
    while (
        not script.promise
        and not _ends_in_a_call(does)
        and (host := state.hosts[rank]).end == ""
        and host.pc < len(said)
    ):
        does, *how = said[host.pc]
        if does not in PYTHON:
            break
        after = step(script, state, rank, does, how)
        assert after is not None
        state = after
    return state.with_host(rank, turn(state.hosts[rank], "main"))


def _ends_in_a_call(what: str) -> bool:
    """Returns whether the instruction ends in a call, where the thread may pause: noting a result is a call."""
    return what in NOTING or what == "show"


def unordered(script: Script, state: State, rank: int, ready: list[str]) -> bool:
    """Returns whether two ready threads use their list next and one of them changes it. For a script with a promise,
    the Python code after a call is a separate step. That step may run after steps of other threads.
    """
    said = script.ranks[rank]
    places = [turn(state.hosts[rank], name).pc for name in ready]
    uses = [said[place][0] for place in places if place < len(said) and said[place][0] in PYTHON]
    return any("append" in pair for pair in combinations(uses, 2))
