"""Computes all outcomes of two ranks with two threads each. It tries every order of their calls and does not use dpsim.

    outcomes(spec)          # {(((3,), (4,), (3,), (4,)), True), ...}: the logs of all threads, and whether all ended

A spec lists for each rank the actions of its main thread and of its second thread, for example ("sum", group, value).
The program `tests/torch/programs/drawn_threads.py` runs these actions. One call is one step.

The n-th call of a rank on a group matches the n-th call of the other rank there. A call on a group is over when the
matching call was made. A send is over at once or when it is received; the oracle tries both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

Thing = tuple[Any, ...]
Spec = tuple[tuple[tuple[Thing, ...], tuple[Thing, ...]], ...]
Outcome = tuple[tuple[tuple[int, ...], ...], bool]
THREADS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""The pairs of rank and thread."""


class State(NamedTuple):
    """The state of all threads. `at`: the number of actions that each thread has begun. `waits`: what each thread waits
    for. `logs`: what each thread has logged.
    """

    at: tuple[int, ...] = (0, 0, 0, 0)
    waits: tuple[Any, ...] = (None, None, None, None)
    logs: tuple[tuple[Any, ...], ...] = ((), (), (), ())
    begun: tuple[tuple[Any, ...], ...] = ((), (), (), ())
    """For each thread, the places of its calls that it has not awaited."""
    lines: tuple[tuple[Any, ...], ...] = ((), (), (), ())
    """The values of rank r on group g, at 2 * g + r."""
    sent: tuple[tuple[int, ...], ...] = ((), ())
    """The values that each rank has sent."""
    taken: tuple[int, int] = (0, 0)
    """The number of receives that each rank has called."""
    locks: tuple[int, ...] = (-1, -1, -1, -1)
    """The thread that holds lock n of rank r, at 2 * r + n."""
    counts: tuple[int, ...] = (0, 0, 0, 0)
    queues: tuple[tuple[int, ...], ...] = ((), ())
    events: tuple[bool, bool] = (False, False)


def outcomes(spec: Spec) -> set[Outcome]:
    """Returns all outcomes of a spec."""
    found, seen, left = set[Outcome](), {State()}, [State()]
    while left:
        state = left.pop()
        nexts = [*steps(spec, state)]
        if not nexts:
            found.add(outcome(spec, state))
        for one in nexts:
            if one not in seen:
                seen.add(one)
                left.append(one)
    return found


def outcome(spec: Spec, state: State) -> Outcome:
    logs, ended = [], True
    for number, (rank, which) in enumerate(THREADS):
        log = [value for place in state.logs[number] if (value := learned(state, rank, place)) is not None]
        logs.append(tuple(log))
        ended &= state.at[number] == len(spec[rank][which]) and over(state, rank, state.waits[number])
    return tuple(logs), ended


def over(state: State, rank: int, waits: Any) -> bool:
    """Returns whether a thread that waits for this can continue."""
    if waits is None:
        return True
    if waits[0] == "group":
        return len(state.lines[2 * waits[1] + 1 - rank]) > int(waits[2])
    if waits[0] == "received":
        return state.taken[1 - rank] > int(waits[1])
    return len(state.sent[1 - rank]) > int(waits[1])


def learned(state: State, rank: int, place: Any) -> int | None:
    """Returns the value of an entry in a thread's log, or None if the value is not there yet."""
    if isinstance(place, int):
        return place
    if not over(state, rank, place):
        return None
    if place[0] == "group":
        return int(sum(state.lines[2 * place[1] + one][place[2]] for one in (0, 1)))
    return int(state.sent[1 - rank][place[1]])


def steps(spec: Spec, state: State) -> Iterator[State]:
    """Yields all next states."""
    for number, (rank, which) in enumerate(THREADS):
        if state.at[number] < len(spec[rank][which]) and over(state, rank, state.waits[number]):
            for one in after(state, number, rank, spec[rank][which][state.at[number]]):
                yield one._replace(at=put(state.at, number, state.at[number] + 1))


def put(row: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*row[:at], value, *row[at + 1 :])


def after(state: State, number: int, rank: int, thing: Thing) -> Iterator[State]:
    """Yields the states after one action of a thread."""
    what, *more = thing
    own = state._replace(waits=put(state.waits, number, None))
    logs = state.logs[number]
    place: tuple[Any, ...]
    if what in ("sum", "begin"):
        line = 2 * more[0] + rank
        place = "group", more[0], len(own.lines[line])
        own = own._replace(lines=put(own.lines, line, (*own.lines[line], more[1])))
        if what == "begin":
            yield own._replace(begun=put(own.begun, number, (*own.begun[number], place)))
        else:
            yield own._replace(waits=put(own.waits, number, place), logs=put(own.logs, number, (*logs, place)))
    elif what == "end":
        place, *rest = own.begun[number]
        own = own._replace(begun=put(own.begun, number, tuple(rest)))
        yield own._replace(waits=put(own.waits, number, place), logs=put(own.logs, number, (*logs, place)))
    elif what == "send":
        count = len(own.sent[rank])
        own = own._replace(sent=put(own.sent, rank, (*own.sent[rank], more[0])))
        yield own
        yield own._replace(waits=put(own.waits, number, ("received", count)))
    elif what == "recv":
        place = "sent", own.taken[rank]
        own = own._replace(taken=put(own.taken, rank, own.taken[rank] + 1))
        yield own._replace(waits=put(own.waits, number, place), logs=put(own.logs, number, (*logs, place)))
    else:
        yield from within_rank(own, number, rank, what, more)


def within_rank(own: State, number: int, rank: int, what: str, more: list[Any]) -> Iterator[State]:
    """Yields the states after an action on a lock, queue or event; none if the thread has to wait."""
    logs = own.logs[number]
    if what == "lock":
        lock = 2 * rank + more[0]
        if own.locks[lock] < 0:
            count = own.counts[lock] + 1
            own = own._replace(locks=put(own.locks, lock, number), counts=put(own.counts, lock, count))
            yield own._replace(logs=put(own.logs, number, (*logs, count)))
    elif what == "try":
        yield own._replace(logs=put(own.logs, number, (*logs, int(own.locks[2 * rank + more[0]] < 0))))
    elif what == "poll" and not own.queues[rank]:
        yield own._replace(logs=put(own.logs, number, (*logs, 0)))
    elif what == "asks":
        yield own._replace(logs=put(own.logs, number, (*logs, int(own.events[rank]))))
    elif what == "unlock":
        yield own._replace(locks=put(own.locks, 2 * rank + more[0], -1))
    elif what == "put":
        yield own._replace(queues=put(own.queues, rank, (*own.queues[rank], more[0])))
    elif what in ("get", "poll") and own.queues[rank]:
        first, *rest = own.queues[rank]
        yield own._replace(queues=put(own.queues, rank, tuple(rest)), logs=put(own.logs, number, (*logs, first)))
    elif what == "set":
        yield own._replace(events=put(own.events, rank, True))
    elif what == "await" and own.events[rank]:
        yield own


def drawn(rng: random.Random, most: int = 3) -> Spec:
    """Returns a random spec. Each thread has at most `most` actions, and releases its locks in the end."""
    kinds = rng.sample(["sum", "begin", "transfer", "lock", "queue", "event"], rng.randint(1, 3))
    rows = [[_thread(rng, kinds, rank, which, most) for which in (0, 1)] for rank in (0, 1)]
    return tuple((first, second) for first, second in rows)


def _thread(rng: random.Random, kinds: list[str], rank: int, which: int, most: int) -> tuple[Thing, ...]:
    things: list[Thing] = []
    begun, held = 0, list[int]()
    for number in range(rng.randint(1, most)):
        kind, value = rng.choice(kinds), 10 ** (2 * rank + which) * (number + 1)
        if kind == "lock":
            free = [one for one in (0, 1) if one not in held]
            if held and (not free or rng.random() < 0.5):
                things.append(("unlock", held.pop()))
            elif free:
                held.append(rng.choice(free))
                things.append(("lock", held[-1]))
        elif kind == "transfer":
            things.append(("send", value) if rng.random() < 0.5 else ("recv",))
        elif kind == "queue":
            things.append(("put", value) if rng.random() < 0.6 else ("get",))
        elif kind == "event":
            things.append(("set",) if rng.random() < 0.6 else ("await",))
        elif kind == "begin" and begun and rng.random() < 0.5:
            begun -= 1
            things.append(("end",))
        else:
            begun += kind == "begin"
            things.append((kind, rng.randint(0, 1), value))
    return (*things, *[("unlock", one) for one in reversed(held)], *[("end",)] * begun)
