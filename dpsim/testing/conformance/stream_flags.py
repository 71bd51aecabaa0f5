"""The part `stream_flags`: streams wait for flags that their host sets.

The part needs no clock to see that a stream waits: the host queries an event behind the wait, and sets the flag only
afterwards. A GPU may stop all streams when it runs a kernel for the first time. So each kernel runs once before a wait,
as in `streams`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dpsim.contract.interface import Buffer, Flag
from dpsim.testing.conformance.ground import Round, expect, increase, refused

STARTS = (
    "a stream starts the work behind wait_flag once the flag is set. A wrong backend starts "
    "it earlier, or does not notice the flag"
)
EACH_REPLAY = (
    "each replay waits for the state that the flag has then. A wrong backend uses the state "
    "at the capture, or omits the wait"
)


async def stream_flags(at: Round) -> None:
    flag = at.rank.flag("conformance.stream")
    source = at.put(4, "int32", at.rank.stream("side"))
    await _goes(at, flag, source)
    await _held(at, flag, source)
    await _replayed(at, flag, source)
    flag.clear("conformance.clear")
    source.free()
    wrong: Any = at.main
    refused(TypeError, "a stream in place of a flag", partial(at.main.wait_flag, wrong, "refused"))


async def _goes(at: Round, flag: Flag, source: Buffer) -> None:
    side = at.rank.stream("side")
    flag.set("conformance.set")
    side.wait_flag(flag, "conformance.hold")
    side.launch("conformance.increase", increase, writes=[source])
    expect(
        "a read behind a flag that is set",
        await source.read("conformance.read"),
        at.line(at.rank.rank, 4, "int32") + 1,
        STARTS,
    )
    flag.clear("conformance.clear")


async def _held(at: Round, flag: Flag, source: Buffer) -> None:
    """A stream waits for a flag that is not set. Its host and other streams continue."""
    main, side = at.main, at.rank.stream("side")
    other = at.put(4, "int32")
    await other.read("conformance.read")
    for turn in range(2):
        side.wait_flag(flag, "conformance.hold")
        side.launch("conformance.increase", increase, writes=[source])
        behind = side.record()
        main.launch("conformance.increase", increase, writes=[other])
        mine = at.line(at.rank.rank, 4, "int32")
        law = "only the stream of wait_flag waits for the flag. A wrong backend also stops the host or other streams"
        expect("a read of another stream", await other.read("conformance.read"), mine + turn + 1, law)
        expect("a query behind a flag that is clear", await behind.query("conformance.query"), False, STARTS)
        flag.set("conformance.set")
        expect("a read after the host set the flag", await source.read("conformance.read"), mine + turn + 2, STARTS)
        flag.clear("conformance.clear")
    other.free()


async def _replayed(at: Round, flag: Flag, source: Buffer) -> None:
    """A capture records the wait, and each replay checks the flag again."""
    side, graph = at.rank.stream("side"), at.rank.graph(f"conformance.held.{at.step}")
    async with graph.capture(side):
        side.wait_flag(flag, "conformance.hold")
        side.launch("conformance.increase", increase, writes=[source])
    flag.set("conformance.set")
    graph.replay(side, "conformance.replay")
    mine, law = at.line(at.rank.rank, 4, "int32"), EACH_REPLAY
    expect("a read behind a replay whose flag is set", await source.read("conformance.read"), mine + 4, law)
    flag.clear("conformance.clear")
    graph.replay(side, "conformance.replay")
    behind = side.record()
    other = at.put(4, "int32")
    await other.read("conformance.read")  # by then, the replay would be done if it did not wait
    expect("a query behind a replay whose flag is clear", await behind.query("conformance.query"), False, law)
    flag.set("conformance.set")
    expect("a read behind the replay after the host set the flag", await source.read("conformance.read"), mine + 5, law)
    other.free()
