"""Races in the interpreter: two accesses race if both can be active in the same state. It computes no order of
accesses.

In each state the interpreter collects the accesses that can be active. These are the reached and unfinished parts of
streams, and reads of the host that wait for no further work. Two active accesses of the same elements are a race if one
of them writes. Limits on slots do not prevent a race, because no program may rely on which rank gets a slot first.

A transfer does not use its memory before its peer has sent, or after its peer has ended. The interface does not state
this, but no other reading is plausible. A race that is excluded only for this reason is doubtful, and dpsim may report
it or not.

The memory of a freed buffer may belong to any later buffer of its stream. When a write of such a buffer can be active,
all uses of the old buffer must be over. This includes uses that their stream has not reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

from tests.interpreter.device import reached
from tests.interpreter.language import Script, View, unwrapped
from tests.interpreter.state import Host, Item, Part, State


class Access(NamedTuple):
    """An access to device memory. `place`: of its instruction in the rank's list. `sure`: False if a race of the access
    is doubtful, because it belongs to a transfer whose peer has not sent, or has ended.
    """

    rank: int
    place: float
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    sure: bool = True


Race: TypeAlias = tuple[Access, Access]


def races(script: Script, state: State) -> Iterator[Race]:
    """Yields pairs of accesses that can both be active in this state, or that a reuse of memory orders wrongly."""
    for rank, host in enumerate(state.hosts):
        working = [*_at_work(script, state, rank)]
        yield from (pair for pair in combinations(working, 2) if _conflict(*pair))
        if any(host.alias.values()):
            waiting = [*_unfinished(script, state, rank)]
            for access in working:
                old = {name for buffer, first, end in access.writes if first < end for name in host.alias[buffer]}
                yield from ((access, other) for other in waiting if _uses(other, old))


def took_place(state: State, race: Race) -> bool:
    """Returns whether both accesses of a race are over and neither is doubtful."""
    host = state.hosts[race[0].rank]
    waiting = {item.place for queue in host.queues for item in queue}
    return host.end != "died" and all(one.sure and one.place < host.pc and one.place not in waiting for one in race)


def standing(host: Host) -> bool:
    """Returns whether a stream has unfinished work on memory."""
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
    """Returns whether an access of a transfer is certain. A receive writes only once its peer has sent. A send no
    longer reads once its peer has received.
    """
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
