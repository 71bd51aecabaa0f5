"""Captured graphs of kernels, and content that each replay needs anew.

A graph keeps the kernels of one stream, with the numbers that they were given in the capture. A replay puts them on its
stream one after the other, behind the last replay of the graph. A buffer with the mark "each" says that every replay
reads fresh contents. A replay that reads what no rank wrote since another replay read it is *stale*.
"""

from __future__ import annotations

from tests.interpreter.language import Instruction, Script
from tests.interpreter.state import NOTHING, Host, Item, Part

MOST = 1_000
"""More calls than a graph has: call n of the replay at place p is work p + n / MOST."""


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
    """The work of a replay: at first the wait for the last one."""
    pending = NOTHING.union(*(host.pending(stream) for stream in range(len(host.queues))))
    last = pending & host.replays.get(name, NOTHING)
    waits = (Item(host.pc, (), last),) if last else ()
    items = [Item(host.pc + (number + 1) / MOST, (one,)) for number, one in enumerate(host.graphs[name])]
    return (*waits, *items)


def freshness(script: Script, rank: int, host: Host, item: Item, number: int) -> tuple[tuple[str, ...], Host]:
    """What it means for buffers with the mark that a part is over: "stale", or nothing."""
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
    """Buffers of the rank that each replay needs anew."""
    return frozenset(how[1] for how in script.ranks[rank] if how[0] == "alloc" and how[4:] == ("each",))
