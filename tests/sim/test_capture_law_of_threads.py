"""Tests which calls a capture permits to its own host thread, and which to other threads, in each capture mode. The
calls concern mailboxes, stores, flags, events and communicators.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from dpsim.backend.graphs import capture
from dpsim.checks.judge import judge
from dpsim.contract.interface import Aborted, CaptureError, Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, CaptureMode
from dpsim.contract.program import Program
from dpsim.sim.backend import SimBackend
from tests.programs import OWN, set_to
from tests.sim.programs import filled, usual_world

Act = Callable[[Rank], Coroutine[Any, Any, Any]]
MODES: tuple[CaptureMode, ...] = ("global", "thread_local", "relaxed")


async def gets(rank: Rank) -> None:
    await rank.mailbox("box").get("get", timeout_ns=1_000)


async def polls(rank: Rank) -> None:
    await rank.mailbox("box").get("get", timeout_ns=0)


async def looks_up(rank: Rank) -> None:
    await STORES[rank.rank].get("key", "key", timeout_ns=0)


async def joins(rank: Rank) -> None:
    await rank.join_store(0, 1234, "store.join", timeout_ns=0)


async def opens(rank: Rank) -> None:
    await rank.open_store(0, "store.open")


async def sets_a_key(rank: Rank) -> None:
    STORES[rank.rank].set("key", 1, "set")


async def sends(rank: Rank) -> None:
    rank.send(rank.rank, "box", 1, "send")


async def watches(rank: Rank) -> None:
    rank.watch(1 - rank.rank, "gone", "watch")


async def aborts_on_the_host(rank: Rank) -> None:
    rank.host("g").abort()


async def aborts_on_the_device(rank: Rank) -> None:
    rank.device("e").abort()


async def sums(rank: Rank) -> None:
    await rank.host("h").all_reduce(np.zeros(1, np.int32))


async def leaves_a_group(rank: Rank) -> None:
    await rank.host("g").destroy()


async def asks(rank: Rank) -> None:
    await EVENTS[rank.rank].query("ask")


async def waits_for_a_flag(rank: Rank) -> None:
    flag = rank.flag("f")
    flag.set("flag.set")
    await flag.wait("flag.wait")
    await flag.query("flag.query")


async def holds_another_stream(rank: Rank) -> None:
    rank.flag("f").set("flag.set")
    rank.stream("other").wait_flag(rank.flag("f"), "hold")


async def holds_the_captured_stream(rank: Rank) -> None:
    rank.stream("main").wait_flag(rank.flag("f"), "hold")


STORES: dict[int, Any] = {}
EVENTS: dict[int, Any] = {}

ALWAYS, OWN_MODES, NEVER = (900, 900, 900), (900, 900, 0), (0, 0, 0)
ANY_THREAD = (900, 0, 0)
"""Each tuple: the error codes of a call in the modes global, thread_local and relaxed; 0 means permitted. ANY_THREAD is
for calls of a thread that does not capture: only a capture in mode "global" refuses them.
"""

LAW: dict[Act, tuple[tuple[int, ...], tuple[int, ...]]] = {
    gets: (ALWAYS, ANY_THREAD),
    polls: (ALWAYS, ANY_THREAD),
    looks_up: (ALWAYS, ANY_THREAD),
    joins: (ALWAYS, ANY_THREAD),
    opens: (ALWAYS, ANY_THREAD),
    sums: (ALWAYS, ANY_THREAD),
    leaves_a_group: (ALWAYS, ANY_THREAD),
    asks: (OWN_MODES, ANY_THREAD),
    sets_a_key: (NEVER, NEVER),
    sends: (NEVER, NEVER),
    watches: (NEVER, NEVER),
    aborts_on_the_host: (NEVER, NEVER),
    aborts_on_the_device: (NEVER, NEVER),
    waits_for_a_flag: (NEVER, NEVER),
    holds_another_stream: (NEVER, NEVER),
    holds_the_captured_stream: (NEVER, NEVER),
}
"""For each call its error codes by mode: first in the thread that captures, then in another thread."""


class Captures(Program[Any]):
    """`prepared` is (call, whether another thread makes it, capture mode). Each rank captures a graph, makes the call,
    and decides two error codes: of the call, and of the capture's end.
    """

    threaded = aborts = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        act, other, mode = prepared
        main, codes = rank.stream("main"), [0, 0]
        x = filled(main, 5)
        EVENTS[rank.rank] = rank.stream("other").record()
        STORES[rank.rank] = await rank.open_store(0, "open")

        async def acts(own: Rank) -> None:
            try:
                await act(own)
            except CaptureError as error:
                codes[0] = error.code

        try:
            async with rank.graph("g").capture(main, mode=mode):
                main.launch("one", set_to, writes=[x], args=(1,))
                if other:
                    await rank.start("acts", acts).join("join")
                else:
                    await acts(rank)
        except CaptureError as error:
            codes[1] = error.code
        rank.decide("codes", tuple(codes), OWN)


def codes(act: Act, other: bool, mode: str) -> set[Any]:
    world = usual_world()
    done = SimBackend().run_program(world, Captures(), (act, other, mode))
    assert done.ends == ["finished"] * 2, done.journals
    classes = {finding.klass for finding in judge(world, done)}
    assert classes == ({"GRAPH:HOST_EFFECT"} if act in (sends, sets_a_key) and not other else set()), classes
    decisions = [
        raw for journal in done.journals for raw in journal if raw[KIND] == "decision" and raw[SITE] == "codes"
    ]
    return {raw[DECISION_VALUE] for raw in decisions}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("other", [False, True], ids=["own", "other"])
@pytest.mark.parametrize("act", LAW, ids=lambda act: act.__name__)
def test_each_call_of_a_thread_gets_the_code_of_the_table(act: Act, other: bool, mode: CaptureMode) -> None:
    """Each call of `LAW` gets its error code. A refused call also invalidates the capture (901), in either thread."""
    wanted = LAW[act][other][MODES.index(mode)]
    assert codes(act, other, mode) == {(wanted, 901 if wanted else 0)}


@pytest.mark.parametrize("kind", ["take", "look up", "ask"])
def test_a_law_that_forgets_a_kind_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twins: without its kind in `capture.LEARNS`, a call passes in a capture, so the test above fails."""
    act = {"take": gets, "look up": looks_up, "ask": asks}[kind]
    monkeypatch.delitem(capture.LEARNS, kind)
    assert codes(act, False, "global") == {(0, 0)}


def test_a_graph_of_an_aborted_communicator_is_not_replayed() -> None:
    class Replays(Captures):
        async def run(self, rank: Rank, prepared: Any) -> None:
            rank.step = 0
            main, group = rank.stream("main"), rank.device("e")
            x = filled(main, 5)
            async with rank.graph("g").capture(main):
                group.all_reduce(x, main)
                if prepared:
                    group.abort()
            came = "replayed"
            with suppress(Aborted):
                rank.graph("g").replay(main, "go")
                rank.decide("came", came, OWN)

    for aborts in (True, False):
        done = SimBackend().run_program(usual_world(), Replays(), aborts)
        assert done.finished
        assert any(raw[KIND] == "decision" for raw in done.journals[0]) is not aborts
