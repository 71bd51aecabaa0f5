"""Scripts that query a CUDA event: in some the query may return False, in others it can only return True.

Each script calls the query at the site "query" and returns its result, or None on a rank that calls no query. In the
scripts of MAYBE, the host has only observed work before the record. So the query may return False. In the scripts of
CERTAIN, the host has observed that work after the record is done. All scripts run on gloo as well.

    answers(run)        # [False, True]: of rank 0, and of rank 1
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Buffer, Event, Rank, Stream
from dpsim.contract.ops import ASK_HOW, KIND, LEARNED_OUTCOME, SITE
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import Run
from tests.programs import Script, copy, set_to

MAYBE: dict[str, Script] = {}
CERTAIN: dict[str, Script] = {}


def maybe(script: Script) -> Script:
    MAYBE[script.__name__] = script
    return script


def certain(script: Script) -> Script:
    CERTAIN[script.__name__] = script
    return script


def written(stream: Stream, site: str = "x") -> Buffer:
    buffer = stream.alloc(1, "int32", site)
    stream.launch(f"fill.{site}", set_to, writes=[buffer], args=(1,))
    return buffer


async def asks(event: Event) -> bool:
    return await event.query("query")


def answers(run: Run) -> list[bool]:
    """Returns the results of all queries of a run, in the order of the ranks."""
    asked = [raw for journal in run.journals for raw in journal if raw[KIND] == "learned" and raw[SITE] == "query"]
    return [raw[LEARNED_OUTCOME] for raw in asked]


def queries(run: Run) -> int:
    return sum(raw[KIND] == "ask" and raw[ASK_HOW] == "query" for journal in run.journals for raw in journal)


# ---- the query may return False


@maybe
async def idle(rank: Rank) -> bool | None:
    return await asks(rank.stream("main").record())


@maybe
async def behind_a_read(rank: Rank) -> bool | None:
    main = rank.stream("main")
    await written(main).read("read")
    return await asks(main.record())


@maybe
async def behind_another_event(rank: Rank) -> bool | None:
    main = rank.stream("main")
    written(main)
    first, second = main.record(), main.record()
    await first.synchronize("first")
    return await asks(second)


@maybe
async def recorded_again(rank: Rank) -> bool | None:
    main = rank.stream("main")
    written(main)
    event = main.record()
    await event.synchronize("first")
    main.record(event)
    return await asks(event)


@maybe
async def on_a_stream_that_joined(rank: Rank) -> bool | None:
    main, side = rank.stream("main"), rank.stream("side")
    x = written(main)
    side.wait_stream(main)
    await x.read("read")
    return await asks(side.record())


@maybe
async def another_stream_that_joined_before(rank: Rank) -> bool | None:
    """The host has observed that the other stream waited for the work before the record, but not for the record."""
    main, side = rank.stream("main"), rank.stream("side")
    written(main)
    side.wait_stream(main)
    event = main.record()
    await side.record().synchronize("side")
    return await asks(event)


@maybe
async def in_front_of_a_barrier_of_hosts(rank: Rank) -> bool | None:
    main = rank.stream("main")
    event = main.record()
    await rank.host("dp_cpu").barrier(site="barrier")
    return await asks(event)


@maybe
async def behind_a_collective(rank: Rank) -> bool | None:
    main = rank.stream("main")
    x = written(main)
    rank.device("dp").all_reduce(x, main)
    await x.read("read")
    return await asks(main.record())


@maybe
async def behind_a_replay(rank: Rank) -> bool | None:
    main, graph = rank.stream("main"), rank.graph("graph")
    x = written(main)
    async with graph.capture(main):
        main.launch("again", set_to, writes=[x], args=(2,))
    graph.replay(main, "replay")
    await x.read("read")
    return await asks(main.record())


@maybe
async def a_read_of_another_stream(rank: Rank) -> bool | None:
    main, side = rank.stream("main"), rank.stream("side")
    event = main.record()
    await written(side).read("read")
    return await asks(event)


@maybe
async def a_peer_that_received_an_older_read(rank: Rank) -> bool | None:
    """Rank 0 has sent what it read before the record, and receives it back. The message shows nothing about the event,
    because the value was read before the record.
    """
    main = rank.stream("main")
    if rank.rank:
        rank.send(0, "back", await rank.mailbox("there").get("get"), "send")
        return None
    x = await written(main).read("read")
    event = main.record()
    rank.send(1, "there", int(x[0]), "send")
    await rank.mailbox("back").get("get")
    return await asks(event)


# ---- the query cannot return False


@certain
async def synchronised(rank: Rank) -> bool | None:
    event = rank.stream("main").record()
    await event.synchronize("sync")
    return await asks(event)


@certain
async def found_true(rank: Rank) -> bool | None:
    event = rank.stream("main").record()
    return await asks(event) if await event.query("first") else None


@certain
async def synchronised_as_recorded_again(rank: Rank) -> bool | None:
    main, side = rank.stream("main"), rank.stream("side")
    event = main.record()
    written(side)
    side.record(event)
    await event.synchronize("sync")
    return await asks(event)


@certain
async def in_front_of_a_read(rank: Rank) -> bool | None:
    main = rank.stream("main")
    x = written(main)
    event = main.record()
    await x.read("read")
    return await asks(event)


@certain
async def in_front_of_another_event(rank: Rank) -> bool | None:
    main = rank.stream("main")
    first, second = main.record(), main.record()
    await second.synchronize("second")
    return await asks(first)


@certain
async def another_stream_waited(rank: Rank) -> bool | None:
    main, side = rank.stream("main"), rank.stream("side")
    event = main.record()
    side.wait(event)
    await side.record().synchronize("side")
    return await asks(event)


@certain
async def another_stream_joined_and_was_read(rank: Rank) -> bool | None:
    main, side = rank.stream("main"), rank.stream("side")
    x, y = written(main), side.alloc(1, "int32", "y")
    event = main.record()
    side.wait_stream(main)
    side.launch("copy", copy, reads=[x], writes=[y])
    await y.read("read")
    return await asks(event)


@certain
async def in_front_of_a_collective(rank: Rank) -> bool | None:
    main = rank.stream("main")
    x = written(main)
    event = main.record()
    rank.device("dp").all_reduce(x, main)
    await x.read("read")
    return await asks(event)


@certain
async def a_peer_is_through_with_a_collective_behind(rank: Rank) -> bool | None:
    """Rank 0 does not wait for its device. Rank 1 sends a message after it has read the sum of a later collective."""
    main = rank.stream("main")
    x = written(main)
    event = main.record()
    rank.device("dp").all_reduce(x, main)
    if rank.rank:
        await x.read("read")
        rank.send(0, "through", True, "send")
        return None
    await rank.mailbox("through").get("get")
    return await asks(event)


@certain
async def a_peer_has_received_what_was_sent_behind(rank: Rank) -> bool | None:
    main = rank.stream("main")
    x = written(main)
    event = main.record()
    if rank.rank:
        rank.device("dp").recv(x, 0, main)
        await x.read("read")
        rank.send(0, "through", True, "send")
        return None
    rank.device("dp").send(x, 1, main)
    await rank.mailbox("through").get("get")
    return await asks(event)


@certain
async def in_front_of_a_replay(rank: Rank) -> bool | None:
    main, graph = rank.stream("main"), rank.graph("graph")
    x = written(main)
    async with graph.capture(main):
        main.launch("again", set_to, writes=[x], args=(2,))
    event = main.record()
    graph.replay(main, "replay")
    await x.read("read")
    return await asks(event)


SCRIPTS = MAYBE | CERTAIN


@register_protocol("event_answers")
class EventAnswers(Program[Any]):
    """Runs a script. Arguments: the script or its name; with `demands`, the program raises if a query returns False."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        script = prepared["script"]
        answer = await (SCRIPTS[script] if isinstance(script, str) else script)(rank)
        assert answer is not False or not prepared.get("demands"), "the event has not passed"


# ---- programs with host threads, which declare `threaded`


def handed_over(tells: bool) -> Script:
    """Returns a script in which a thread waits for an event, and the main thread queries it. With `tells`, the main
    thread first waits for a flag that the thread sets.
    """

    async def script(rank: Rank) -> bool | None:
        main, flag = rank.stream("main"), rank.flag("flag")
        event = main.record()

        async def waits(_: Rank) -> None:
            await event.synchronize("sync")
            flag.set("set")

        thread = rank.start("thread", waits)
        if tells:
            await flag.wait("wait")
        answer = await asks(event)
        await thread.join("join")
        return answer

    return script


class Threaded(EventAnswers):
    threaded = True
