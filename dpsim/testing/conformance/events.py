"""What a query of an event may answer.

The record of an event is itself work on its stream: it ends some time after what was before it. So a host that has
waited for that alone may be answered either way, and this part takes both answers. Once the host has waited for the
event, has found it passed, or has waited for something behind it, the answer is yes.
"""

from __future__ import annotations

from dpsim.contract.interface import Event
from dpsim.testing.conformance.ground import Round, copy_to, expect, increase

LAW = "an event has passed when the host has waited for it or for something behind it"


async def events(at: Round) -> None:
    """The answers that cannot be no."""
    await _waited_for(at)
    await _behind_on_streams(at)
    await _behind_a_collective(at)


async def queries(at: Round) -> None:
    """The answers that may be either. How a host asks until yes is a matter of time."""
    main, side = at.main, at.rank.stream("side")
    await _either(side.record(), "on a stream that may be idle")
    source = at.put(4, "int32")
    await source.read("conformance.read")
    done = main.record()
    await _either(done, "behind a read")
    await _either(main.record(), "behind an event that has passed")
    main.record(done)
    await _either(done, "that was recorded again")
    source.free()


async def _passed(event: Event, what: str) -> None:
    expect(f"Event.query {what}", await event.query("conformance.query"), True, LAW)


async def _either(event: Event, what: str) -> None:
    """No may become yes, yes stays yes, and after synchronize it is yes."""
    answers = [await event.query("conformance.query") for _ in range(3)]
    expect(f"queries {what}", answers, sorted(answers), "an event that has passed stays so")
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
    await source.read("conformance.read")  # in front of which the event was recorded again
    await _passed(event, "that was recorded again, after a read behind it")
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
    await _passed(later, "for which another stream waited")
    await _passed(event, "in front of that")
    source.free()
    copy.free()


async def _behind_a_collective(at: Round) -> None:
    """A rank knows of its event by its own part of a collective behind it, and by that of a peer."""
    main, group = at.main, at.device
    total = at.put(4, "int32")
    event = main.record()
    group.all_reduce(total, main)
    if group.index or group.size == 1:
        await total.read("conformance.read")
        await _passed(event, "in front of a collective")
    await at.host.barrier(site="conformance.barrier")
    await _passed(event, "in front of a collective that peers are through with")
    total.free()
