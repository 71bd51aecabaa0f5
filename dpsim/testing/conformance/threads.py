"""The part `threads`: host threads and flags.

The conformance test runs this program on two backends and compares the records of each thread. Backends number buffers
and collectives in the order of the calls. So where the calls of two threads would race, the threads take turns by means
of a flag, and both backends assign the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import numpy as np

from dpsim.contract.interface import Flag, HostArray, Rank
from dpsim.testing.conformance.ground import Round, expect, increase, refused

TURNS = 3


async def threads(at: Round) -> None:
    await _joined(at)
    await _flags(at)
    await _baton(at)
    await _beside(at)
    await _taken(at)
    await _raised(at)


async def _joined(at: Round) -> None:
    """A thread belongs to the rank, has its own name, and begins in the step of the thread that starts it."""
    rank, seen = at.rank, list[Any]()

    async def look(own: Rank) -> None:
        seen.append((own.thread, own.step, own.rank, own.stream("main") is at.main))
        own.step = 1000
        own.decide("conformance.inside", own.step, "dp_cpu")

    thread = rank.start("helper", look)
    law = "join returns None if the thread ended without an exception. A wrong backend returns a text"
    expect("the result of a join", await thread.join("conformance.join"), None, law)
    law = (
        "a thread begins in the step of the thread that starts it, and uses the streams of its "
        "rank. A wrong backend begins in another step, or creates another stream"
    )
    expect("the name, step, rank and stream of a thread", seen, [("helper", at.step, rank.rank, True)], law)
    expect(
        "the name and step of main",
        (rank.thread, rank.step),
        ("main", at.step),
        ("each thread has its own step. A wrong backend changes the step of main when the helper sets its step"),
    )


async def _flags(at: Round) -> None:
    """A name in use is refused, and so is an invalid thread function."""
    rank, flag = at.rank, at.rank.flag("conformance.flag")
    expect(
        "Rank.flag, twice",
        rank.flag("conformance.flag") is flag,
        True,
        ("rank.flag returns the same flag each time for one name. A wrong backend creates a second flag"),
    )
    expect("a query", await flag.query("conformance.query"), False, "a flag is clear until a thread sets it")
    thread = rank.start("waits", waiting_for(flag))
    law = "a name can be used again only after a join of its thread"
    refused(RuntimeError, f"a second thread named waits ({law})", partial(rank.start, "waits", waiting_for(flag)))
    refused(ValueError, "a thread named main", partial(rank.start, "main", waiting_for(flag)))
    plain: Any = print
    refused(TypeError, "a function that is not async as the program of a thread", partial(rank.start, "plain", plain))
    for _ in range(2):
        flag.set("conformance.set")
        expect(
            "a query",
            await flag.query("conformance.query"),
            True,
            "a flag stays set if a thread sets it again. A wrong backend clears it",
        )
    await flag.wait("conformance.wait.set")
    expect(
        "a query",
        await flag.query("conformance.query"),
        True,
        "a wait does not clear the flag. A wrong backend clears it",
    )
    await thread.join("conformance.join")
    flag.clear("conformance.clear")
    expect(
        "a query",
        await flag.query("conformance.query"),
        False,
        "a query returns False after clear. A wrong backend keeps the flag set",
    )


def waiting_for(flag: Flag) -> Callable[[Rank], Coroutine[Any, Any, None]]:
    """Returns the function of a thread that waits for a flag."""

    async def wait(rank: Rank) -> None:
        await flag.wait("conformance.wait")

    return wait


async def _baton(at: Round) -> None:
    rank, main, group, total = at.rank, at.main, at.device, at.put(2, "int64")
    flags = [rank.flag("conformance.even"), rank.flag("conformance.odd")]

    def turns(mine: Flag, other: Flag, value: int) -> Callable[[Rank], Coroutine[Any, Any, None]]:
        async def take_turns(own: Rank) -> None:
            for _ in range(TURNS):
                await mine.wait("conformance.turn")
                mine.clear("conformance.take")
                scratch = main.alloc(2, "int64", "conformance.scratch")
                main.launch("conformance.fold", double_and_add, writes=[total], args=(value,))
                group.all_reduce(total, main, op="max", site="conformance.largest")
                scratch.free()
                other.set("conformance.hand")

        return take_turns

    both = [rank.start("even", turns(flags[0], flags[1], 1)), rank.start("odd", turns(flags[1], flags[0], 5))]
    flags[0].set("conformance.begin")
    for thread in both:
        await thread.join("conformance.join")
    flags[0].clear("conformance.end")
    wanted: HostArray = np.max([at.line(member, 2, "int64") for member in group.ranks], axis=0)
    for turn in range(2 * TURNS):
        wanted = 2 * wanted + (5 if turn % 2 else 1)
    law = (
        "a stream runs the work of all threads in the order in which they enqueued it. A wrong "
        "backend mixes up the turns"
    )
    expect("a total of all turns", await total.read("conformance.read"), wanted, law)
    total.free()


async def _beside(at: Round) -> None:
    rank, got = at.rank, list[HostArray]()

    async def agree(own: Rank) -> None:
        got.append(await own.host("dp_cpu").all_reduce(at.line(own.rank, 2, "int32"), site="conformance.agree"))

    thread = rank.start("agrees", agree)
    source = at.put(4, "int32")
    at.main.launch("conformance.increase", increase, writes=[source])
    law = (
        "main can use the device while another thread waits in a collective. A wrong backend "
        "blocks main, or spoils its kernel"
    )
    expect("a read of main", await source.read("conformance.read"), at.line(rank.rank, 4, "int32") + 1, law)
    source.free()
    await thread.join("conformance.join")
    wanted = np.sum([at.line(member, 2, "int32") for member in at.host.ranks], axis=0).astype(np.int32)
    expect(
        "a sum in a thread",
        got[0],
        wanted,
        ("each thread of a rank can use the rank's communicators. A wrong backend returns another result to a thread"),
    )


async def _taken(at: Round) -> None:
    rank, ring, got = at.rank, at.host.ranks, list[Any]()

    async def take(own: Rank) -> None:
        for _ in range(2):
            got.append(await own.mailbox("threads").get("conformance.get"))

    thread = rank.start("takes", take)
    after, before = ring[(at.host.index + 1) % len(ring)], ring[(at.host.index - 1) % len(ring)]
    for number in range(2):
        rank.send(after, "threads", (rank.rank, number, at.step), "conformance.send")
    await thread.join("conformance.join")
    law = "each thread of a rank can receive from the rank's mailboxes. A wrong backend loses or reorders messages"
    expect("the messages that a thread receives", got, [(before, number, at.step) for number in range(2)], law)


async def _raised(at: Round) -> None:
    async def fail(own: Rank) -> None:
        own.probe("conformance.fails")
        raise ValueError(f"in step {own.step}")

    thread = at.rank.start("fails", fail)
    law = (
        "a join returns the exception of the thread as text, and the rank continues. A wrong "
        "backend returns None, or ends the rank"
    )
    expect(
        "a join of a thread that raised", await thread.join("conformance.join"), f"ValueError: in step {at.step}", law
    )


def double_and_add(buffer: Any, value: int) -> None:
    """A kernel. Two of these in another order have another result."""
    buffer[...] = 2 * buffer + value
