"""Tests what a program may do within the capture of a graph. A forbidden call raises CUDA's error code, and other calls
pass. Also tests misuse of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Buffer, CaptureError, Event, Rank, Stream
from dpsim.contract.ops import CAPTURE_WHAT, KIND
from dpsim.contract.schedule import Choose
from dpsim.contract.world import At, Fault, Kill
from tests.programs import run, set_to
from tests.sim.programs import filled, holds, numbers, usual_world

EARLIER: dict[int, Event] = {}
"""Maps a rank to an event of a capture that has ended."""

Act = Callable[[Rank, Stream, Buffer], Coroutine[Any, Any, Any]]


async def reads(rank: Rank, main: Stream, x: Buffer) -> None:
    await x.read("out")


async def synchronises(rank: Rank, main: Stream, x: Buffer) -> None:
    await main.record().synchronize("sync")


async def queries(rank: Rank, main: Stream, x: Buffer) -> None:
    await main.record().query("ask")


async def gathers_on_the_host(rank: Rank, main: Stream, x: Buffer) -> None:
    await rank.host("h").all_reduce(np.zeros(1, np.int32))


async def looks_into_a_mailbox(rank: Rank, main: Stream, x: Buffer) -> None:
    await rank.mailbox("box").poll("look")


async def replays(rank: Rank, main: Stream, x: Buffer) -> None:
    rank.graph("before").replay(main, "go")


async def captures(rank: Rank, main: Stream, x: Buffer) -> None:
    async with rank.graph("nested").capture(rank.stream("other")):
        pass


async def leaves_a_branch(rank: Rank, main: Stream, x: Buffer) -> None:
    side = rank.stream("side")
    side.wait_stream(main)
    side.launch("set", set_to, writes=[x], args=(1,))


async def waits_for_an_event_from_outside(rank: Rank, main: Stream, x: Buffer) -> None:
    main.wait(rank.stream("outside").record())


async def asks_again_after_an_error(rank: Rank, main: Stream, x: Buffer) -> None:
    with suppress(CaptureError):
        await x.read("out")
    await x.read("out")


async def takes_memory_after_an_error(rank: Rank, main: Stream, x: Buffer) -> None:
    with suppress(CaptureError):
        await x.read("out")
    main.alloc(2, "int32", "y")


async def asks_for_an_event_of_an_earlier_capture(rank: Rank, main: Stream, x: Buffer) -> None:
    with suppress(CaptureError):
        await EARLIER[rank.rank].query("ask")
    main.launch("set", set_to, writes=[x], args=(1,))


async def goes_on_after_an_error(rank: Rank, main: Stream, x: Buffer) -> None:
    with suppress(CaptureError):
        await x.read("out")
    main.launch("set", set_to, writes=[x], args=(1,))


async def ends_after_an_error(rank: Rank, main: Stream, x: Buffer) -> None:
    with suppress(CaptureError):
        await x.read("out")


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (reads, 900),
        (synchronises, 907),
        (queries, 907),
        (gathers_on_the_host, 900),
        (looks_into_a_mailbox, 900),
        (replays, 900),
        (captures, 902),
        (leaves_a_branch, 904),
        (waits_for_an_event_from_outside, 905),
        (goes_on_after_an_error, 901),
        (asks_again_after_an_error, 901),
        (takes_memory_after_an_error, 901),
        (asks_for_an_event_of_an_earlier_capture, 901),
        (ends_after_an_error, 901),
    ],
)
def test_a_call_that_a_capture_forbids_raises_cudas_code(act: Act, code: int) -> None:
    """A forbidden call in a capture raises CUDA's error code. Afterwards the program can capture the graph anew."""

    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, 5)
        async with rank.graph("before").capture(main):
            main.launch("set", set_to, writes=[x], args=(1,))
            EARLIER[rank.rank] = main.record()
        graph, told_code = rank.graph("g"), 0
        try:
            async with graph.capture(main):
                await act(rank, main, x)
        except CaptureError as error:
            told_code = error.code
        async with graph.capture(main):
            main.launch("set", set_to, writes=[x], args=(9,))
        graph.replay(main, "go")
        return told_code, numbers(await x.read("out"))

    holds(script, [(code, (9, 9))] * 2)


def test_an_event_of_a_capture_is_no_use_afterwards() -> None:
    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        async with rank.graph("g").capture(main):
            event = main.record()
        codes = []
        for use in (lambda: rank.stream("side").wait(event), lambda: event.query("ask")):
            with pytest.raises(CaptureError) as raised:
                use()
            codes.append(raised.value.code)
        main.record(event)
        await event.synchronize("sync")
        return tuple(codes)

    holds(script, [(907, 907)], usual_world(1))


def test_a_capture_does_not_block_other_streams() -> None:
    """During a capture other streams work, and the rank may sleep. In relaxed mode it may also synchronize an event
    that another stream recorded before.
    """

    async def script(rank: Rank) -> Any:
        main, other = rank.stream("main"), rank.stream("other")
        x = filled(other, 5)
        event = other.record()
        async with rank.graph("g").capture(main, mode="relaxed"):
            other.launch("set", set_to, writes=[x], args=(1,))
            await rank.sleep(10, "pause")
            await event.synchronize("sync")
        return numbers(await x.read("out"))

    holds(script, [(1, 1)], usual_world(1))


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda rank: rank.graph("two words"), ValueError, "printable ASCII"),
        (lambda rank: (rank.graph("g", "a"), rank.graph("g", "b")), ValueError, "from pool a, not from b"),
        (lambda rank: rank.graph("g").replay(rank.stream("main"), "go"), RuntimeError, "was not captured"),
        (lambda rank: rank.graph("g").capture(rank.stream("main"), mode="none"), ValueError, "none of global"),
        (lambda rank: rank.graph("g").capture(7), TypeError, "Stream of this backend"),
    ],
)
def test_a_misused_graph_raises_an_error(wrong: Any, error: type[Exception], words: str) -> None:
    async def script(rank: Rank) -> None:
        with pytest.raises(error, match=words):
            wrong(rank)

    holds(script, None, usual_world(1))


def test_a_graph_is_captured_once() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        async with rank.graph("g").capture(main):
            pass
        with pytest.raises(RuntimeError, match="captured already"):
            async with rank.graph("g").capture(main):
                pass

    holds(script, None, usual_world(1))


@pytest.mark.runs_once  # the ranks share a list, which outlives a run
def test_a_graph_and_its_streams_are_of_one_rank() -> None:
    """A rank cannot capture or replay its graph on a stream of another rank, which the ranks of one process could
    exchange.
    """
    streams: list[Stream] = []

    async def script(rank: Rank) -> None:
        streams.append(rank.stream("main"))
        await rank.host("h").barrier()
        other, graph = next(one for one in streams if one is not rank.stream("main")), rank.graph("g")
        words = f"graph g is of rank {rank.rank}, and the stream main of rank {1 - rank.rank}"
        with pytest.raises(ValueError, match=words):
            graph.capture(other)
        async with graph.capture(rank.stream("main")):
            pass
        with pytest.raises(ValueError, match=words):
            graph.replay(other, "go")

    done = run(usual_world(), script)
    assert done.finished, done.journals


@pytest.mark.parametrize("how", ["return", "break", "raise"])
def test_ways_out_of_the_block(how: str) -> None:
    """A block that ends by `return` or `break` ends the capture. A block that raises an error of the program discards
    it.
    """

    async def leave(rank: Rank, x: Buffer) -> None:
        main = rank.stream("main")
        for _ in range(2):
            async with rank.graph("g").capture(main):
                main.launch("set", set_to, writes=[x], args=(7,))
                if how == "return":
                    return
                if how == "break":
                    break
                raise KeyError(how)

    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        x = filled(main, 5)
        with suppress(KeyError):
            await leave(rank, x)
        if how == "raise":
            with pytest.raises(RuntimeError, match="a capture counts if the block ends without an error"):
                rank.graph("g").replay(main, "go")
        else:
            rank.graph("g").replay(main, "go")
        return numbers(await x.read("out"))

    holds(script, [(5, 5) if how == "raise" else (7, 7)], usual_world(1))


@pytest.mark.parametrize("choose", [None, lambda what, options: 0])
@pytest.mark.parametrize("kind", ["kill", "die"])
def test_a_rank_that_ends_in_a_capture_writes_nothing_more(kind: str, choose: Choose | None) -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(2, "int32", "x")
        async with rank.graph("g").capture(main):
            main.launch("one", set_to, writes=[x], args=(1,))
            await rank.sleep(1_000, "nap")
            main.launch("two", set_to, writes=[x], args=(2,))

    at = At("nap", 0)
    world = (
        replace(usual_world(), kills=(Kill(1, at=at),))
        if kind == "kill"
        else replace(usual_world(), faults=(Fault("die", 1, at),))
    )
    done = run(world, script, choose=choose)
    if done.ends[1] == "finished":  # the kill came after the last op
        assert (kind, choose is None) == ("kill", False)
        return
    assert done.ends == ["finished", "died"]
    assert [raw[CAPTURE_WHAT] for raw in done.journals[1] if raw[KIND] == "capture"] == ["begin"]
    assert [raw[CAPTURE_WHAT] for raw in done.journals[0] if raw[KIND] == "capture"] == ["begin", "end"]


def test_memory_that_others_use_is_freed_once() -> None:
    """A capture allocates memory, which another stream uses too. A second free raises at once, not at the end of the
    capture.
    """

    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        async with rank.graph("g").capture(main):
            x = main.alloc(2, "int32", "x")
            x.record_stream(side)
            x.free()
            with pytest.raises(RuntimeError, match="freed twice"):
                x.free()
        rank.graph("g").replay(main, "go")

    holds(script, None, usual_world(1))


@pytest.mark.parametrize(("where", "code"), [("main", 900), ("other", 0)])
def test_the_relaxed_mode_permits_reads_of_uncaptured_memory(where: str, code: int) -> None:
    async def script(rank: Rank) -> Any:
        main, other = rank.stream("main"), rank.stream("other")
        x = filled(other, 5)
        came = 0
        with suppress(CaptureError):
            async with rank.graph("g").capture(main, mode="relaxed"):
                try:
                    await x.read("out", rank.stream(where))
                except CaptureError as error:
                    came = error.code
        return (came,)

    holds(script, [(code,)], usual_world(1))
