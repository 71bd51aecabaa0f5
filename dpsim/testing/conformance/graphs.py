"""The part `graphs`: what a capture records, what a replay runs, on which memory, and what a capture refuses.

A program captures a graph only once, so each round creates its own graphs.
"""

from __future__ import annotations

import numpy as np

from dpsim.contract.interface import CaptureError, HostArray
from dpsim.testing.conformance.ground import Round, copy_to, expect, increase, line
from dpsim.testing.conformance.streams import SLOW_NS


async def graphs(at: Round) -> None:
    await _replayed(at)
    if at.device.size > 1:
        await _exchanged(at)
    await _joined(at)
    await _weak(at)
    await _refused(at)
    await _again(at)
    await _fresh(at)


async def _replayed(at: Round) -> None:
    """A capture records work without running it. Replays use the current contents. The graph also has an all_to_all."""
    main, group, n = at.main, at.device, at.device.size
    source, total, sent = at.put(4, "int32"), at.put(4, "int32"), at.put((n, 2), "int32")
    come = at.alloc(2 * n, "int32")
    graph = at.rank.graph(f"conformance.{at.step}", f"conformance.pool.{at.step}")
    async with graph.capture(main):
        main.launch("conformance.copy", copy_to, reads=[source], writes=[total])
        main.launch("conformance.increase", increase, writes=[total])
        group.all_reduce(total, main)
        sizes = [2] * n
        group.all_to_all(come, sent, main, output_sizes=sizes, source_sizes=sizes)
    mine = at.line(at.rank.rank, 4, "int32")
    expect(
        "a buffer of a capture",
        await total.read("conformance.read"),
        mine,
        ("a capture records work and does not run it. A wrong backend runs it during the capture"),
    )
    for turn in range(2):
        graph.replay(main, "conformance.replay")
        wanted = np.sum([_line(at, rank, turn) + 1 for rank in group.ranks], axis=0).astype(np.int32)
        law = (
            "a replay runs the recorded work on the contents that the buffers have then. A wrong "
            "backend does not run it, or uses older contents"
        )
        expect(f"the sum of replay {turn}", await total.read("conformance.read"), wanted, law)
        main.launch("conformance.line", line, writes=[source], args=(1000 + at.rank.rank, 1))
    first, end = 2 * group.index, 2 * group.index + 2
    wanted = np.concatenate([at.line(rank, 2 * n, "int32")[first:end] for rank in group.ranks])
    expect("an exchange of a replay", await come.read("conformance.read"), wanted, law)
    for buffer in (source, total, sent, come):
        buffer.free()


def _line(at: Round, rank: int, turn: int) -> HostArray:
    return np.arange(1000 + rank, 1004 + rank, dtype=np.int32) if turn else at.line(rank, 4, "int32")


async def _exchanged(at: Round) -> None:
    main, group, n = at.main, at.device, at.device.size
    after, before = group.ranks[(group.index + 1) % n], group.ranks[(group.index - 1) % n]
    source, come, shared = at.put(4, "int64"), at.alloc(4, "int64"), at.put(2, "int64")
    graph = at.rank.graph(f"conformance.exchanged.{at.step}")
    async with graph.capture(main):
        with group.coalesced(main):
            group.send(source, after, main)
            group.recv(come, before, main)
        if group.index == 0:
            group.send(come, group.ranks[1], main)
        elif group.index == 1:
            group.recv(source, group.ranks[0], main)
        group.broadcast(shared, group.ranks[1], main)
    law = (
        "each replay makes the recorded transfers in their order, and those of a coalesced group "
        "together. A wrong backend omits one, or changes the order"
    )
    # Rank 0 received this line and sent it to rank 1, which sends it to the next rank in the second replay.
    first = at.line(group.ranks[-1], 4, "int64")
    for turn in range(2):
        graph.replay(main, "conformance.replay")
        wanted = first if turn and before == group.ranks[1] else at.line(before, 4, "int64")
        expect(f"a recv of replay {turn}", await come.read("conformance.read"), wanted, law)
    got = await shared.read("conformance.read")
    expect("a broadcast of a replay", got, at.line(group.ranks[1], 2, "int64"), law)
    for buffer in (source, come, shared):
        buffer.free()


async def _joined(at: Round) -> None:
    """A stream that waits for an event of the capture joins the capture, and replays keep this order."""
    main, side = at.main, at.rank.stream("side")
    source, copy = at.put(4, "int32"), at.put(4, "int32")
    graph = at.rank.graph(f"conformance.joined.{at.step}")
    side.wait_stream(main)
    async with graph.capture(main):
        main.launch("conformance.increase", increase, writes=[source], cost=2 * SLOW_NS)
        written = main.record()
        side.wait(written)
        side.launch("conformance.copy", copy_to, reads=[source], writes=[copy], cost=SLOW_NS)
        main.wait(side.record())
        main.launch("conformance.increase", increase, writes=[source])
    mine = at.line(at.rank.rank, 4, "int32")
    for turn in range(2):
        graph.replay(main, "conformance.replay")
        law = (
            "a stream that waits for an event of the capture joins the capture. A wrong backend runs "
            "its work at once, or without the wait"
        )
        expect("a copy on the other stream", await copy.read("conformance.read"), mine + 2 * turn + 1, law)
    graph.replay(side, "conformance.replay.side")
    main.wait_stream(side)
    law = (
        "replays of one graph run one after the other, also on different streams. A wrong backend "
        "runs two of them at once"
    )
    expect("a third replay", await source.read("conformance.read"), mine + 6, law)
    source.free()
    copy.free()


async def _weak(at: Round) -> None:
    """A buffer that was freed inside of the capture keeps what the last replay wrote; other memory stays untouched."""
    main, source = at.main, at.put(4, "int32")
    graph = at.rank.graph(f"conformance.weak.{at.step}")
    async with graph.capture(main):
        kept = main.alloc(4, "int32", "conformance.weak")
        main.launch("conformance.copy", copy_to, reads=[source], writes=[kept])
        kept.free()
    other = at.put(4, "int32")
    graph.replay(main, "conformance.replay")
    mine = at.line(at.rank.rank, 4, "int32")
    law = (
        "a buffer that the program freed within the capture keeps what the last replay wrote. A "
        "wrong backend gives its memory to another buffer"
    )
    expect("memory of a graph", await kept.read("conformance.read"), mine, law)
    main.launch("conformance.increase", increase, writes=[source])
    graph.replay(main, "conformance.replay")
    expect("memory of a graph, again", await kept.read("conformance.read"), mine + 1, law)
    expect(
        "memory of the program",
        await other.read("conformance.read"),
        mine,
        ("a graph allocates from its own pool. A wrong backend lets a replay overwrite other memory of the program"),
    )
    source.free()
    other.free()


async def _refused(at: Round) -> None:
    """Refused: calls that return a result, and waits for an outside event. Then the graph is captured again."""
    main, source = at.main, at.put(4, "int32")
    before = main.record()
    graph = at.rank.graph(f"conformance.refused.{at.step}")
    for what, code in (("a read", 900), ("a wait for an earlier event", 905)):
        got = 0
        try:
            async with graph.capture(main):
                main.launch("conformance.increase", increase, writes=[source])
                if code == 905:
                    main.wait(before)
                else:
                    await source.read("conformance.read")
        except CaptureError as error:
            got = error.code
        expect(
            f"{what} in a capture",
            got,
            code,
            (
                "a capture refuses this call with a CaptureError that has CUDA's error code. A wrong "
                "backend makes the call"
            ),
        )
    async with graph.capture(main):
        main.launch("conformance.increase", increase, writes=[source])
    graph.replay(main, "conformance.replay")
    law = (
        "if the block raises, the capture ends, and the program can capture the graph again. A "
        "wrong backend stays in the failed capture"
    )
    expect("a graph captured anew", await source.read("conformance.read"), at.line(at.rank.rank, 4, "int32") + 1, law)
    source.free()


async def _again(at: Round) -> None:
    """An event that is recorded again is only at its new position."""
    main, side = at.main, at.rank.stream("side")
    source, copy = at.put(4, "int32"), side.alloc(4, "int32", "conformance.copy")
    event = main.record()
    for turn in range(2):
        main.launch("conformance.increase", increase, writes=[source], cost=SLOW_NS)
        expect(
            "Stream.record of an event",
            main.record(event) is event,
            True,
            "record(event) returns the same event. A wrong backend returns a new one",
        )
        side.wait(event)
        side.launch("conformance.copy", copy_to, reads=[source], writes=[copy])
        main.wait_stream(side)
        wanted = at.line(at.rank.rank, 4, "int32") + turn + 1
        law = (
            "an event that is recorded again completes after all work that was enqueued before the "
            "new record. A wrong backend keeps its first position"
        )
        expect("a copy behind it", await copy.read("conformance.read"), wanted, law)
    source.free()
    copy.free()


async def _fresh(at: Round) -> None:
    """A buffer with `per_replay=True` works like any other if the program writes it before each replay."""
    main, copy = at.main, at.alloc(4, "int32")
    source = main.alloc(4, "int32", "conformance.fresh", per_replay=True)
    graph = at.rank.graph(f"conformance.fresh.{at.step}")
    async with graph.capture(main):
        main.launch("conformance.copy", copy_to, reads=[source], writes=[copy])
        refused = ""
        try:
            main.alloc(4, "int32", "conformance.refused", per_replay=True)
        except ValueError as error:
            refused = str(error).partition(",")[0]
    expect(
        "per_replay in a capture",
        refused,
        "conformance.refused: per_replay within a capture",
        "the call raises this ValueError",
    )
    for turn in range(2):
        main.launch("conformance.line", line, writes=[source], args=(turn, 1))
        graph.replay(main, "conformance.replay")
        wanted = np.arange(turn, turn + 4, dtype=np.int32)
        expect(
            f"a copy of replay {turn}",
            await copy.read("conformance.read"),
            wanted,
            ("a replay reads what the program wrote before it. A wrong backend reads older contents"),
        )
    source.free()
    copy.free()
