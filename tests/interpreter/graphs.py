"""Captured graphs of kernels in the interpreter, and buffers that each replay must find newly written.

A graph stores the kernels of one stream, with the number that the rank had at the capture. A replay puts the kernels
onto its stream in order, after the last replay of the same graph. If a buffer has the mark "each", every replay has to
read newly written contents. A replay is *stale* if it reads contents that another replay has already read.
"""

from __future__ import annotations

from tests.interpreter.language import Instruction, Script
from tests.interpreter.state import NOTHING, Host, Item, Part

MOST = 1_000
"""Larger than the number of calls of any graph: call n of the replay at place p has the place p + n / MOST."""


def part(host: Host, instruction: Instruction) -> Part:
    what, _, *views = instruction
    match what:
        case "fill":
            return Part("fill", (), (views[0],), host.number)
        case "copy":
            return Part("copy", (views[0],), (views[1],))
    return Part("mix", (views[0], views[1]), (views[1],))


def captured(host: Host, name: str, instructions: tuple[Instruction, ...]) -> Host:
    return host._replace(graphs=host.graphs.plus(name, tuple(part(host, one) for one in instructions)))


def replayed(host: Host, name: str) -> tuple[Item, ...]:
    """Returns the items of a replay. The first one waits for the graph's last replay, if that is not done."""
    pending = NOTHING.union(*(host.pending(stream) for stream in range(len(host.queues))))
    last = pending & host.replays.get(name, NOTHING)
    waits = (Item(host.pc, (), last),) if last else ()
    items = [Item(host.pc + (number + 1) / MOST, (one,)) for number, one in enumerate(host.graphs[name])]
    return (*waits, *items)


def freshness(script: Script, rank: int, host: Host, item: Item, number: int) -> tuple[tuple[str, ...], Host]:
    """Records which replay has read a buffer with the mark "each". Returns ("stale",) if another replay read the
    contents.
    """
    one, replay = item.parts[number], int(item.place) if item.place != int(item.place) else None
    used, stale = host.used, False
    if replay is not None:
        for buffer in {view[0] for view in one.reads} & each(script, rank):
            stale |= used.get(buffer, replay) != replay
            used = used.plus(buffer, replay)
    for buffer in {view[0] for view in one.writes} & used.keys():
        used = used.minus(buffer)
    return ("stale",) * stale, host._replace(used=used) if used is not host.used else host


def each(script: Script, rank: int) -> frozenset[str]:
    """Returns the buffers of the rank that every replay has to find newly written."""
    return frozenset(how[1] for how in script.ranks[rank] if how[0] == "alloc" and how[4:] == ("each",))
