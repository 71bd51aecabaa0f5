"""Time: sleeps, planted delays and time-outs, in three readings of the contract.

    timed       what takes time takes its time exactly, and all else takes none: a machine may do so
    patient     a sleep is over at any time, and a time-out passes when nothing else can happen
    early       a time-out passes at any time

dpsim has to show what the first two allow, and may show what the third allows. A time that is still to be waited for is
relative to now, so that equal states are equal. Of time-outs and sleeps that end in one instant any may be the first;
`tied` says that the outcome may hang on it.
"""

from __future__ import annotations

from tests.interpreter.language import Script, unwrapped
from tests.interpreter.moves import goes_on, learns
from tests.interpreter.state import Host, State
from tests.interpreter.threads import names, turn

TIMED, PATIENT, EARLY = "timed", "patient", "early"


def waits(state: State, rank: int, host: Host, ms: int, mode: str) -> State | None:
    """The thread at hand sleeps, or is held up before its instruction: None until the time is over."""
    if mode != TIMED or host.until == 0:
        return goes_on(state, rank, host)
    return state.with_host(rank, host._replace(until=ms)) if host.until is None else None


def held_up(state: State, rank: int, host: Host, ms: int, mode: str) -> State | None:
    """The same of a delay, after which the thread is still before its instruction."""
    if mode != TIMED or host.until == 0:
        return state.with_host(rank, host._replace(until=None, held=True))
    return state.with_host(rank, host._replace(until=ms)) if host.until is None else None


def within(state: State, rank: int, host: Host, box: str, ms: int, mode: str) -> State | None:
    there = state.boxes.get((rank, box), ())
    if there:
        rest = state._replace(boxes=state.boxes.plus((rank, box), there[1:]))
        return learns(rest, rank, host, there[0])
    if mode == EARLY or host.until == 0 or not ms:
        return learns(state, rank, host, None)
    return state.with_host(rank, host._replace(until=ms)) if host.until is None else None


def delay(script: Script, rank: int, host: Host) -> int | None:
    """For how long the thread at hand is held up before its instruction."""
    if host.held or host.end or host.pc >= len(script.ranks[rank]):
        return None
    return next((ms for one, place, ms in script.delays if (one, place) == (rank, host.pc)), None)


def later(script: Script, state: State) -> State | None:
    """The next instant at which a time is over; None if no time is waited for."""
    waiting = [
        (view.until, delay(script, rank, view) is None and unwrapped(script.ranks[rank][view.pc])[0] == "within")
        for rank, host in enumerate(state.hosts)
        if host.end != "died"
        for view in (turn(host, name) for name in names(host))
        if view.until
    ]
    if not waiting:
        return None
    first = min(until for until, _ in waiting)
    due = [alarm for until, alarm in waiting if until == first]
    hosts = tuple(host if host.end == "died" else _sooner(host, first) for host in state.hosts)
    return state._replace(hosts=hosts).marked(*["tied"] * (len(due) > 1 and any(due)))


def _sooner(host: Host, ms: int) -> Host:
    for name in names(host):
        view = turn(host, name)
        if view.until:
            host = turn(view._replace(until=view.until - ms), "main")
    return host
