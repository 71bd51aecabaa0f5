"""The parts `events` and `queries`: what a query of an event may return.

The record of an event is itself work on the stream, so it completes some time after the work before it. If a host has
waited only for that earlier work, the query may return either value. If the host has waited for the event or for later
work, or if an earlier query returned True, the query returns True.
"""

from __future__ import annotations

from dpsim.contract.interface import Event
from dpsim.testing.conformance.ground import Round, copy_to, expect, increase

LAW = "an event has passed once the host has waited for it, or for later work. A wrong backend still answers False"


async def events(at: Round) -> None:
    """Queries that must return True."""
    await _waited_for(at)
    await _behind_on_streams(at)
    await _behind_a_collective(at)


async def queries(at: Round) -> None:
    """Queries that may return either value. How often a host queries until True depends on time."""
    main, side = at.main, at.rank.stream("side")
    await _either(side.record(), "of an event on a stream that may be idle")
    source = at.put(4, "int32")
    await source.read("conformance.read")
    done = main.record()
    await _either(done, "of an event behind a read")
    await _either(main.record(), "of an event behind one that has passed")
    main.record(done)
    await _either(done, "of an event that was recorded again")
    source.free()


async def _passed(event: Event, what: str) -> None:
    expect(f"Event.query {what}", await event.query("conformance.query"), True, LAW)


async def _either(event: Event, what: str) -> None:
    answers = [await event.query("conformance.query") for _ in range(3)]
    expect(
        f"queries {what}",
        answers,
        sorted(answers),
        (
            "after a query returned True, each later query of the event returns True. A wrong backend "
            "answers False again"
        ),
    )
    await event.synchronize("conformance.synchronize")
    await _passed(event, f"{what}, after synchronize")


async def _waited_for(at: Round) -> None:
    main = at.main
    source = at.put(4, "int32")
    event = main.record()
    await event.synchronize("conformance.synchronize")
    await _passed(event, "after synchronize")
    main.launch("conformance.increase", increase, writes=[source])
    main.record(event)
    await source.read("conformance.read")  # which was launched before the second record of the event
    await _passed(event, "of an event that was recorded again, after a read behind it")
    source.free()


async def _behind_on_streams(at: Round) -> None:
    main, side = at.main, at.rank.stream("side")
    source, copy = at.put(4, "int32"), side.alloc(4, "int32", "conformance.copy")
    event = main.record()
    main.launch("conformance.increase", increase, writes=[source])
    later = main.record()
    side.wait(later)
    side.launch("conformance.copy", copy_to, reads=[source], writes=[copy])
    await side.record().synchronize("conformance.synchronize")
    await _passed(later, "of an event for which another stream waited")
    await _passed(event, "of an event before that one")
    source.free()
    copy.free()


async def _behind_a_collective(at: Round) -> None:
    """An event before it has passed for a rank that read the result, or knows that a peer has read it."""
    main, group = at.main, at.device
    total = at.put(4, "int32")
    event = main.record()
    group.all_reduce(total, main)
    if group.index or group.size == 1:
        await total.read("conformance.read")
        await _passed(event, "of an event before a collective whose result this rank has read")
    await at.host.barrier(site="conformance.barrier")
    await _passed(event, "of an event before a collective whose result a peer has read")
    total.free()
