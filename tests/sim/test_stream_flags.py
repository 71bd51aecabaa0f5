"""Tests streams that wait for flags: when a stream continues, which order that makes, and which finding a hang has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.contract.interface import Buffer, Rank
from dpsim.contract.world import At, Delay
from dpsim.diagnose.words.told import Told
from tests.programs import Script, copy, explored, judged, run, set_to
from tests.sim.programs import filled, holds, numbers, usual_world
from tests.sim.test_threads import found

CALLS: dict[str, Callable[[Rank], None]] = {
    "set": lambda rank: rank.flag("f").set("go"),
    "clear": lambda rank: rank.flag("f").clear("stop"),
}


def behind(rank: Rank, value: int = 9) -> Buffer:
    """Returns a buffer that a stream writes after it finds the flag set."""
    main = rank.stream("main")
    x = filled(main, 5)
    main.wait_flag(rank.flag("f"), "hold")
    main.launch("set", set_to, writes=[x], args=(value,))
    return x


def test_a_stream_waits_and_its_host_does_not() -> None:
    async def script(rank: Rank) -> Any:
        x = behind(rank)
        passed = await rank.stream("main").record().query("ask")
        other = await filled(rank.stream("side"), 3).read("other")
        rank.flag("f").set("go")
        return passed, numbers(other), numbers(await x.read("out"))

    holds(script, [(False, (3, 3), (9, 9))] * 2)


def test_a_flag_set_earlier_blocks_no_thread() -> None:
    async def script(rank: Rank) -> Any:
        rank.flag("f").set("go")
        return numbers(await behind(rank).read("out"))

    holds(script, [(9, 9)] * 2)


@pytest.mark.parametrize("waits", [True, False])
def test_a_flag_orders_what_its_setter_did_before_the_streams_later_work(waits: bool) -> None:
    """What a host did before it set the flag comes before the stream's later work. The faulty twin does not wait for
    the flag, so its read races with the write of another stream.
    """

    async def script(rank: Rank) -> None:
        main, side, flag = rank.stream("main"), rank.stream("side"), rank.flag("f")
        x, y = filled(main, 5), side.alloc(2, "int32", "y")
        if waits:
            side.wait_flag(flag, "hold")
        side.launch("copy", copy, reads=[x], writes=[y])
        await x.read("ready")
        flag.set("go")
        await y.read("out", side)

    wanted = [] if waits else ["RACE:BUFFER"]
    assert [one.klass for one in judged(usual_world(1), script)] == wanted
    seen = explored(usual_world(1), script)
    assert ([one.klass for one in seen.findings], seen.verdict) == (wanted, "proven" if waits else "violated")


HUNG = {
    (): "HANG:FLAG:NEVER_SET",
    ("set",): "",
    ("set", "clear"): "HANG:FLAG:CLEARED",
    ("clear", "set"): "",
    ("set", "clear", "set"): "",
}


@pytest.mark.parametrize("calls", HUNG)
def test_a_flag_that_is_never_set_is_a_hang(calls: tuple[str, ...]) -> None:
    """A flag that stays unset is a hang, also if a collective follows it on the stream and all members have
    called it.
    """

    async def script(rank: Rank) -> None:
        x = behind(rank)
        for call in calls if rank.rank == 0 else ("set",):
            CALLS[call](rank)
        rank.device("d").all_reduce(x, rank.stream("main"))
        await x.read("out")

    seen = explored(usual_world(2), script)
    assert [one.klass for one in seen.findings] == [HUNG[calls]] * bool(HUNG[calls])
    assert seen.verdict == ("violated" if HUNG[calls] else "proven")


def hang(script: Script) -> Told:
    """Returns the first finding of a world of two ranks."""
    return judged(usual_world(2), script)[0]


def test_the_hang_says_which_stream_waits_for_what() -> None:
    async def script(rank: Rank) -> None:
        x = behind(rank)
        if rank.rank:
            rank.flag("f").set("go")
        await x.read("out")

    one = hang(script)
    assert one.message.startswith("stream main of rank 0 waits for flag f (hold, ")
    assert one.message.endswith("), which no thread ever set")
    assert one.culprit is not None
    assert (one.culprit.rank, one.culprit.site) == (0, "hold")


def test_ranks_that_hang_alike_share_a_finding() -> None:
    async def script(rank: Rank) -> None:
        await behind(rank).read("out")

    one = hang(script)
    assert "of ranks 0, 1 waits" in one.message
    assert one.culprit is not None
    assert str(one.culprit).startswith("every rank, step 0, hold at ")


def test_a_host_blocked_before_its_set_is_reported_instead() -> None:
    """Rank 0 would set the flag after a barrier, but rank 1 omits the barrier. So the finding names the barrier and not
    the flag.
    """

    async def script(rank: Rank) -> None:
        x = behind(rank)
        if not rank.rank:
            await rank.host("h").barrier()
        rank.flag("f").set("go")
        await x.read("out")

    assert hang(script).klass == "HANG:COLLECTIVE:MISSING_RANK"


def test_a_rank_that_waits_for_its_flag_is_blamed_before_its_peers() -> None:
    async def script(rank: Rank) -> None:
        if not rank.rank:
            await behind(rank).read("out")
        await rank.host("h").barrier()

    one = hang(script)
    assert (one.klass, one.culprit and one.culprit.rank) == ("HANG:FLAG:NEVER_SET", 0)


# ---- threads


def of_thread(right: bool) -> Script:
    """A thread writes a buffer, and sets the flag for which a stream of the main thread waits. In the faulty twin it
    also sets the flag too early.
    """

    async def script(rank: Rank) -> None:
        side, main, flag = rank.stream("side"), rank.stream("main"), rank.flag("f")
        x, y = main.alloc(2, "int32", "x"), side.alloc(2, "int32", "y")

        async def puts(own: Rank) -> None:
            if not right:
                flag.set("go")
            main.launch("put", set_to, writes=[x], args=(3,))
            await main.record().synchronize("put.wait")
            flag.set("go")

        side.wait_flag(flag, "hold")
        side.launch("copy", copy, reads=[x], writes=[y])
        thread = rank.start("puts", puts)
        await y.read("out", side)
        await thread.join("join")

    return script


@pytest.mark.parametrize("right", [True, False])
def test_a_message_needs_a_thread_and_a_flag_alone(right: bool) -> None:
    classes = {
        klass for choose in (None, lambda label, options: 0) for klass, _ in found(of_thread(right), choose=choose)
    }
    assert classes == (set() if right else {"RACE:BUFFER"})


def cleared(hears: bool) -> Script:
    """Two threads set the flag in turn. With `hears`, the main thread reads what follows the wait before it clears the
    flag.
    """

    async def script(rank: Rank) -> None:
        side, flag = rank.stream("side"), rank.flag("f")
        x, y = filled(rank.stream("u1"), 1), side.alloc(2, "int32", "y")

        async def first(own: Rank) -> None:
            await x.read("x")
            flag.set("go")

        async def second(own: Rank) -> None:
            flag.set("go")

        side.wait_flag(flag, "hold")
        side.launch("copy", copy, reads=[x], writes=[y])
        await rank.start("first", first).join("join")
        if hears:
            await y.read("out", side)
        flag.clear("stop")
        await rank.start("second", second).join("join")

    return script


@pytest.mark.parametrize("hears", [True, False])
def test_a_set_orders_a_stream_only_if_a_host_observed_its_release(hears: bool) -> None:
    """With the read, the first set let the stream continue. Without it, the second set may have done so, so there is a
    race.
    """
    assert [klass for klass, _ in found(cleared(hears))] == ([] if hears else ["RACE:BUFFER"])


# ---- graphs


@pytest.mark.parametrize("sets", [2, 1])
def test_each_replay_looks_at_the_flag_by_itself(sets: int) -> None:
    async def script(rank: Rank) -> Any:
        main, flag, graph = rank.stream("main"), rank.flag("f"), rank.graph("g")
        x = filled(main, 0)
        async with graph.capture(main):
            main.wait_flag(flag, "hold")
            main.launch("more", more, writes=[x])
        seen = []
        for number in range(2):
            graph.replay(main, "go")
            if number < sets:
                flag.set("set")
            seen.append(numbers(await x.read("out"))[0])
            flag.clear("clear")
        return tuple(seen)

    if sets == 2:
        holds(script, [(1, 2)] * 2)
        assert explored(usual_world(1), script).verdict == "proven"
        return
    [one] = judged(usual_world(1), script)
    assert one.klass == "HANG:FLAG:CLEARED"
    assert one.culprit is not None
    assert one.culprit.within.startswith("replay 1 of graph g")


def more(buffer: Any) -> None:
    buffer[...] = buffer + 1


# ---- misuse, and delays that a scenario plants


def test_the_flag_of_another_rank_is_refused() -> None:
    flags: list[Any] = []

    async def script(rank: Rank) -> None:
        flags.append(rank.flag("f"))
        await rank.host("h").barrier()
        rank.stream("main").wait_flag(flags[1 - rank.rank], "hold")

    messages = [one.message for one in judged(usual_world(2), script) if one.klass == "CRASH:VALUEERROR"]
    assert messages
    assert "cannot wait for flag f of rank" in messages[0]


def test_wait_flag_refuses_an_object_that_is_no_flag() -> None:
    async def script(rank: Rank) -> None:
        wrong: Any = "f"
        rank.stream("main").wait_flag(wrong, "hold")

    assert [one.klass for one in judged(usual_world(1), script)] == ["CRASH:TYPEERROR"]


def test_a_delay_can_postpone_a_wait_for_a_flag() -> None:
    late = usual_world(1, delays=(Delay(0, At("hold", 0), 50_000),))

    async def script(rank: Rank) -> Any:
        rank.flag("f").set("go")
        return numbers(await behind(rank).read("out"))

    assert run(late, script).elapsed_ns - run(usual_world(1), script).elapsed_ns == 50_000
