"""Time in the interpreter: sleeps, planted delays and time-outs, in three readings (modes) of the contract.

    timed       a sleep, delay or time-out takes exactly its time, and all other steps take none
    patient     a sleep may end at any time, and a time-out passes when no other step is possible
    early       a time-out may pass at any time

dpsim must show the outcomes of `timed` and `patient`, and may also show those of `early`. States store remaining times
rather than instants, so that equal states compare as equal. If several time-outs and sleeps end at the same instant,
any of them may be first. Then the state gets the mark `tied`, because the outcome may depend on their order.
"""

from __future__ import annotations

from tests.interpreter.language import Script, unwrapped
from tests.interpreter.moves import goes_on, learns
from tests.interpreter.state import Host, State
from tests.interpreter.threads import names, turn

TIMED, PATIENT, EARLY = "timed", "patient", "early"


def waits(state: State, rank: int, host: Host, ms: int, mode: str) -> State | None:
    """Makes the current thread sleep for `ms`. Returns None until the time is over."""
    if mode != TIMED or host.until == 0:
        return goes_on(state, rank, host)
    return state.with_host(rank, host._replace(until=ms)) if host.until is None else None


def held_up(state: State, rank: int, host: Host, ms: int, mode: str) -> State | None:
    """Delays the current thread before its instruction for `ms`. Returns None until the time is over."""
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
    """Returns the delay in ms before the current thread's next instruction, or None."""
    if host.held or host.end or host.pc >= len(script.ranks[rank]):
        return None
    return next((ms for one, place, ms in script.delays if (one, place) == (rank, host.pc)), None)


def later(script: Script, state: State) -> State | None:
    """Returns the state at the next instant at which a time ends, or None if no thread waits for a time."""
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
