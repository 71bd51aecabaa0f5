"""Races, without any order worked out: two accesses are unordered if they can be at work at the same time.

The interpreter collects in each state the accesses that could be at work now. These are the reached part of a stream
that is not over, and a read of the host that has nothing to wait for. Two on the same elements, of which one writes,
are a race. Slots do not count: no program may rely on which rank gets one first.

A transfer's memory is not in use as long as nothing was sent, nor when the peer is through. The interface does not say
so, but how else could it be? A race that is none for this reason is doubtful: whether dpsim sees one is its affair.

Memory that was given back may be in any later buffer of its stream. When a write of such a buffer could be at work, all
uses of the old one have to be over. That includes those that its stream has not reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

from tests.interpreter.device import reached
from tests.interpreter.language import Script, View, unwrapped
from tests.interpreter.state import Host, Item, Part, State


class Access(NamedTuple):
    """`place`: of the instruction in the rank's list. `sure`: nothing speaks against it."""

    rank: int
    place: float
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    sure: bool = True


Race: TypeAlias = tuple[Access, Access]


def races(script: Script, state: State) -> Iterator[Race]:
    """Pairs of accesses that could be at work in this state, or are in the wrong order."""
    for rank, host in enumerate(state.hosts):
        working = [*_at_work(script, state, rank)]
        yield from (pair for pair in combinations(working, 2) if _conflict(*pair))
        if any(host.alias.values()):
            waiting = [*_unfinished(script, state, rank)]
            for access in working:
                old = {name for buffer, first, end in access.writes if first < end for name in host.alias[buffer]}
                yield from ((access, other) for other in waiting if _uses(other, old))


def took_place(state: State, race: Race) -> bool:
    """Whether both accesses of a race are over, and it was one for sure."""
    host = state.hosts[race[0].rank]
    waiting = {item.place for queue in host.queues for item in queue}
    return host.end != "died" and all(one.sure and one.place < host.pc and one.place not in waiting for one in race)


def standing(host: Host) -> bool:
    """Whether a stream has work on memory that it has not done."""
    return any(part.reads or part.writes for queue in host.queues for item in queue for part in item.parts)


def _at_work(script: Script, state: State, rank: int) -> Iterator[Access]:
    host = state.hosts[rank]
    for _, item in reached(host):
        yield from _open(state, item, rank, working=True)
    if host.asked is not None and not host.asked:
        yield _read(script, host, rank)


def _unfinished(script: Script, state: State, rank: int) -> Iterator[Access]:
    host = state.hosts[rank]
    for queue in host.queues:
        for item in queue:
            yield from _open(state, item, rank, working=False)
    if host.asked is not None:
        yield _read(script, host, rank)


def _open(state: State, item: Item, rank: int, working: bool) -> Iterator[Access]:
    for number, part in enumerate(item.parts):
        if (item.place, number) not in state.hosts[rank].over:
            yield Access(rank, item.place, part.reads, part.writes, _sure(state, part, working))


def _sure(state: State, part: Part, working: bool) -> bool:
    """A member receives only what was sent; and what was received is read."""
    if part.what == "recv" and part.call is not None:
        return not working or part.call.sure <= state.came.keys()
    if part.what == "send" and part.call is not None:
        (peer,) = part.call.perhaps
        return peer not in state.came or any(call.token == peer for one in state.hosts for call in one.open_calls())
    return True


def _read(script: Script, host: Host, rank: int) -> Access:
    return Access(rank, host.pc, (unwrapped(script.ranks[rank][host.pc])[1],), ())


def _conflict(one: Access, other: Access) -> bool:
    return _meet(one.writes, (*other.reads, *other.writes)) or _meet(one.reads, other.writes)


def _meet(ones: tuple[View, ...], others: tuple[View, ...]) -> bool:
    return any(
        name == buffer and max(first, start) < min(last, end)
        for name, first, last in ones
        for buffer, start, end in others
    )


def _uses(access: Access, buffers: set[str]) -> bool:
    return any(buffer in buffers and first < end for buffer, first, end in (*access.reads, *access.writes))
