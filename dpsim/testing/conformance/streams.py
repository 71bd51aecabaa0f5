"""The part `streams`: side streams, events, views and `record_stream`.

The part needs no clock to see whether streams run concurrently, and whether one waits for another. A collective *holds*
a stream of the first rank: the peers call it only after the first rank's host has checked the other streams. At that
time, all work that does not wait for the held stream must be done, and all work that does must not be.

While a collective holds a stream, no kernel may run for the first time. A GPU loads a kernel and allocates pinned
memory at the first use, and may wait for all of its streams to do so.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dpsim.testing.conformance.ground import Round, copy_to, expect, flip, increase, line, refused

SLOW_NS = 1_000_000
"""The simulated cost of kernels for which others wait. If a wait did not work, the others would run first."""


LATER = "work that a stream enqueues after wait(event) starts only after the event. A wrong backend ignores the wait"


async def streams(at: Round) -> None:
    await _views(at)
    await _events(at)
    await _held(at)


async def _views(at: Round) -> None:
    main, side = at.main, at.rank.stream("side")
    table = at.put((4, 3), "int32")
    top, bottom = table.view(0, 2), table.view(2, 4)
    expect(
        "Buffer.view",
        (top.shape, top.dtype),
        ((2, 3), "int32"),
        ("a view has the given rows of the first axis, and the buffer's type. A wrong backend counts elements"),
    )
    main.launch("conformance.line", line, writes=[table], args=(50, 1), cost=SLOW_NS)
    side.wait_stream(main)
    main.launch("conformance.increase", increase, writes=[top])
    side.launch("conformance.flip", flip, writes=[bottom], cost=SLOW_NS)
    main.wait_stream(side)
    rows = np.arange(50, 62, dtype=np.int32).reshape(4, 3)
    rows = np.concatenate([rows[:2] + 1, rows[2:, ::-1]])
    middle = main.alloc((2, 3), "int32", "conformance.middle")
    main.launch("conformance.copy", copy_to, reads=[table.view(1, 4).view(0, 2)], writes=[middle])
    law = "a view is memory of its buffer. A wrong backend copies the rows, or lets a stream ignore its waits"
    expect("a buffer written through two views", await table.read("conformance.read"), rows, law)
    expect("a view of a view", await middle.read("conformance.read"), rows[1:3], law)
    law = (
        "a read of a view returns its rows after all work enqueued on the named stream. A wrong "
        "backend returns earlier contents"
    )
    expect("read of a view", await bottom.view(1, 2).read("conformance.read.side", side), rows[3:], law)
    for start, stop in ((3, 5), (-1, 2), (3, 2)):
        refused(IndexError, f"a view of rows {start} to {stop} of 4", partial(table.view, start, stop))
    table.free()
    middle.free()


async def _events(at: Round) -> None:
    main, side = at.main, at.rank.stream("side")
    source, copy = at.put(4, "int64"), side.alloc(4, "int64", "conformance.copy")
    main.launch("conformance.increase", increase, writes=[source], cost=SLOW_NS)
    written = main.record()
    side.wait(written)
    side.launch("conformance.copy", copy_to, reads=[source], writes=[copy], cost=SLOW_NS)
    copied = side.record()
    main.wait(copied)
    main.launch("conformance.increase", increase, writes=[source])
    await copied.synchronize("conformance.synchronize")
    for event in (written, copied):
        law = (
            "a query returns True after the host has waited for the event or for later work. A wrong "
            "backend answers False"
        )
        expect("Event.query after a wait for the event", await event.query("conformance.query"), True, law)
    mine = at.line(at.rank.rank, 4, "int64")
    law = LATER
    expect("a copy on the side stream", await copy.read("conformance.read"), mine + 1, law)
    expect("a buffer that a kernel changes after the copy", await source.read("conformance.read"), mine + 2, law)
    source.free()
    copy.free()


async def _held(at: Round) -> None:
    """Work that does not wait for a held stream completes, and work that does wait does not."""
    main, side, group = at.main, at.rank.stream("side"), at.device
    total, old, copy = at.put(4, "int32"), at.put(4, "int32"), at.put(4, "int32")
    after = at.put(4, "int32")
    main.launch("conformance.copy", copy_to, reads=[old], writes=[copy])
    side.wait_stream(main)
    await copy.read("conformance.read.side", side)  # so that each kernel below has run before
    await copy.read("conformance.read")
    main.launch("conformance.line", line, writes=[copy], args=(0, 0))
    side.wait_stream(main)
    if group.index != 0:
        await at.host.barrier(site="conformance.released")
    group.all_reduce(total, side)
    summed = side.record()
    side.launch("conformance.copy", copy_to, reads=[old], writes=[copy])
    old.record_stream(side)
    old.free()
    new = at.alloc(4, "int32")
    main.launch("conformance.line", line, writes=[new], args=(200, 1))
    law = (
        "a stream runs while another one waits for its peers, and so does the host. A wrong "
        "backend lets the read return wrong contents, or wait without end"
    )
    expect("a buffer of another stream", await new.read("conformance.read"), np.arange(200, 204, dtype=np.int32), law)
    main.wait(summed)
    main.launch("conformance.copy", copy_to, reads=[total], writes=[after])
    if group.index == 0:
        if group.size > 1:
            law = (
                "an event has not passed while earlier work of its stream waits for a peer. A wrong "
                "backend answers True"
            )
            expect(
                "Event.query behind a collective that waits for its peers",
                await summed.query("conformance.query"),
                False,
                law,
            )
        await at.host.barrier(site="conformance.released")
    law = LATER
    wanted = np.sum([at.line(rank, 4, "int32") for rank in group.ranks], axis=0).astype(np.int32)
    expect("a copy behind a collective of another stream", await after.read("conformance.read"), wanted, law)
    law = (
        "after record_stream, memory that the program frees is reused only after the earlier work "
        "of that stream. A wrong backend reuses it sooner"
    )
    got = await copy.read("conformance.read.side", side)
    expect("a copy of a freed buffer", got, at.line(at.rank.rank, 4, "int32"), law)
    for buffer in (total, copy, after, new):
        buffer.free()
