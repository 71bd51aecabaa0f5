"""Tests programs that declare `ordered_by_flags`: that flags order all data that threads share in Python. Programs that
keep the promise are proven; for those that break it, the explorer reports RACE:THREADS.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.diagnose.words import text
from dpsim.sim.backend import SimBackend
from dpsim.sim.hosts.uses import Use, uses_of
from tests.programs import world_of

Script = Callable[[Rank], Coroutine[Any, Any, None]]

BOARD: dict[str, int] = {}


class Promised(Program[Any]):
    threaded = True
    ordered_by_flags = True

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await rank.host("h").barrier()
        await self.script(rank)


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self.other = 0
        self.items: list[int] = []

    def add(self, number: int) -> None:
        self.count += number


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


def found(script: Script) -> Explored:
    return explore_subject(Subject(world_of(1, ["h"]), Promised(script)), "dpor")


Part = Callable[[Rank], Coroutine[Any, Any, None]]


async def side_by_side(rank: Rank, first: Part, second: Part) -> None:
    threads = [rank.start("one", first), rank.start("two", second)]
    for thread in threads:
        await thread.join(f"join.{thread.name}")


async def in_turn(rank: Rank, first: Part, second: Part) -> None:
    """Runs both parts in two threads, and a flag orders them."""
    done = rank.flag("done")

    async def one(rank: Rank) -> None:
        await first(rank)
        done.set("done")

    async def two(rank: Rank) -> None:
        await done.wait("after")
        await second(rank)

    await side_by_side(rank, one, two)


Use2 = Callable[[], tuple[Callable[[], object], Callable[[], object]]]


def appends() -> Any:
    order: list[int] = []
    return lambda: order.append(1), lambda: order.append(2)


def appends_and_reads() -> Any:
    order: list[int] = []
    return lambda: order.append(1), lambda: len(order)


def sets_a_key() -> Any:
    table: dict[str, int] = {"a": 0}

    def sets() -> None:
        table["a"] = 1

    return sets, lambda: table["a"]


def adds_to_an_attribute() -> Any:
    counter = Counter()
    return lambda: counter.add(1), lambda: counter.add(2)


def reads_an_attribute() -> Any:
    counter = Counter()
    return lambda: counter.add(1), lambda: counter.count > 0


def adds_to_a_slot() -> Any:
    slotted = Slotted()

    def adds() -> None:
        slotted.count += 1

    return adds, adds


def appends_to_an_attribute() -> Any:
    counter = Counter()
    return lambda: counter.items.append(1), lambda: list(counter.items)


def takes_from_a_queue() -> Any:
    queue = deque([1, 2, 3])
    return lambda: queue.popleft(), lambda: queue.popleft()


def uses_a_module() -> Any:
    BOARD.clear()
    return lambda: BOARD.update(a=1), lambda: BOARD.get("a")


def writes_an_array() -> Any:
    array = np.zeros(2)
    return lambda: array.fill(1), lambda: array.sum()


def appends_within() -> Any:
    table: dict[str, list[int]] = {"a": []}
    return lambda: table["a"].append(1), lambda: table["a"].append(2)


SHARED = [
    appends,
    appends_and_reads,
    sets_a_key,
    adds_to_an_attribute,
    reads_an_attribute,
    adds_to_a_slot,
    appends_to_an_attribute,
    takes_from_a_queue,
    uses_a_module,
    writes_an_array,
    appends_within,
]


def script_of(made: Any, how: Any) -> Script:
    async def script(rank: Rank) -> None:
        one, two = made()

        async def first(rank: Rank) -> None:
            await rank.sleep(0, "first")
            one()

        async def second(rank: Rank) -> None:
            await rank.sleep(0, "second")
            two()

        await how(rank, first, second)

    return script


@pytest.mark.parametrize("made", SHARED)
def test_an_access_of_threads_that_no_flag_orders_is_a_race(made: Any) -> None:
    explored = found(script_of(made, side_by_side))
    assert explored.verdict == "violated"
    [finding] = explored.findings
    assert finding.klass == "RACE:THREADS"
    assert "tests/sim/test_shared.py:" in text(finding.details[0])
    assert "tests/sim/test_shared.py:" in text(finding.details[1])
    assert "RACE:THREADS" in explored.report()


@pytest.mark.parametrize("made", SHARED)
def test_an_access_of_threads_that_a_flag_orders_is_proven(made: Any) -> None:
    assert found(script_of(made, in_turn)).verdict == "proven"


# ---- what else orders, and what needs no order


async def own_slots(rank: Rank) -> None:
    """Each thread writes its own item, and the main thread reads the items after both have ended."""
    results, slots = [0, 0], {"one": 0, "two": 0}

    def worker(number: int) -> Script:
        async def works(rank: Rank) -> None:
            await rank.sleep(0, f"work.{number}")
            results[number] += number + 1
            slots[rank.thread] = number

        return works

    await side_by_side(rank, worker(0), worker(1))
    assert results == [1, 2]
    assert sorted(slots.values()) == [0, 1]


async def own_attributes(rank: Rank) -> None:
    counter = Counter()

    async def one(rank: Rank) -> None:
        await rank.sleep(0, "one")
        counter.count += 1

    async def two(rank: Rank) -> None:
        await rank.sleep(0, "two")
        counter.other += 1

    await side_by_side(rank, one, two)
    assert counter.count == counter.other == 1


async def reads_only(rank: Rank) -> None:
    table = {"a": 1}

    async def reads(rank: Rank) -> None:
        await rank.sleep(0, "reads")
        assert table["a"] == 1

    await side_by_side(rank, reads, reads)


async def hands_on(rank: Rank) -> None:
    """The main thread passes a list to both threads, which flags order, and reads it only after both have ended."""
    order: list[int] = []

    def worker(items: list[int], number: int, before: str, after: str) -> Script:
        async def works(rank: Rank) -> None:
            await rank.flag(before).wait("wait")
            items.append(number)
            rank.flag(after).set("set")

        return works

    rank.flag("go").set("go")
    await side_by_side(rank, worker(order, 1, "go", "next"), worker(order, 2, "next", "end"))
    assert order == [1, 2]


async def by_mailbox(rank: Rank) -> None:
    order: list[int] = []

    async def one(rank: Rank) -> None:
        order.append(1)
        rank.send(0, "box", 1, "send")

    async def two(rank: Rank) -> None:
        await rank.mailbox("box").get("get")
        order.append(2)

    await side_by_side(rank, one, two)


async def by_join(rank: Rank) -> None:
    order = [0]

    async def one(rank: Rank) -> None:
        order.append(1)

    await rank.start("one", one).join("join.one")
    await rank.start("one", one, site="again").join("join.two")
    assert order == [0, 1, 1]


async def own_variables(rank: Rank) -> None:
    def worker() -> Script:
        count = 0

        async def works(rank: Rank) -> None:
            nonlocal count
            await rank.sleep(0, "works")
            count += 1

        return works

    await side_by_side(rank, worker(), worker())


def drawing(first: str, second: str, before: bool = False) -> Script:
    """Two threads draw a number from a shared counter. Each then, or first, with `before`, sets a flag; if both set the
    same flag, its calls order them.
    """

    async def script(rank: Rank) -> None:
        counter = Counter()

        def worker(flag: str) -> Script:
            async def works(rank: Rank) -> None:
                await rank.sleep(0, "works")
                if before:
                    counter.count += 1
                rank.flag(flag).set("draws")
                if not before:
                    counter.count += 1

            return works

        await side_by_side(rank, worker(first), worker(second))
        assert counter.count == 2

    return script


@pytest.mark.parametrize(
    "script",
    [
        own_slots,
        own_attributes,
        reads_only,
        hands_on,
        by_mailbox,
        by_join,
        own_variables,
        drawing("tickets", "tickets"),
    ],
)
def test_accesses_that_need_no_flag_are_proven(script: Script) -> None:
    explored = found(script)
    assert explored.verdict == "proven", explored.report()


async def one_variable(rank: Rank) -> None:
    count = 0

    async def works(rank: Rank) -> None:
        nonlocal count
        await rank.sleep(0, "works")
        count += 1

    await side_by_side(rank, works, works)


async def main_looks(rank: Rank) -> None:
    """The main thread reads the list before it joins the other thread."""
    order: list[int] = []

    async def works(rank: Rank) -> None:
        order.append(1)

    thread = rank.start("one", works)
    await rank.sleep(0, "looks")
    if order:
        rank.probe("early")
    await thread.join("join")


async def the_worlds_of_the_issue(rank: Rank) -> None:
    go, order = rank.flag("go"), list[int]()

    def worker(number: int) -> Script:
        async def waits(_: Rank) -> None:
            await go.wait("go")
            order.append(number)

        return waits

    threads = [rank.start(f"worker{number}", worker(number)) for number in range(2)]
    go.set("set")
    for number, thread in enumerate(threads):
        await thread.join(f"join{number}")


@pytest.mark.parametrize(
    "script",
    [
        one_variable,
        main_looks,
        the_worlds_of_the_issue,
        drawing("tickets", "others"),
        drawing("tickets", "tickets", before=True),  # each use comes before the call, so no call orders the uses
    ],
)
def test_further_unordered_accesses_of_threads_are_found(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    explored = found(script)
    assert explored.exploration.failures, explored.summary()
    assert explored.findings[0].klass == "RACE:THREADS"
    monkeypatch.setattr("dpsim.campaign.searches.WATCHED", 0)  # the faulty twin: dpsim watches no run
    assert found(script).verdict == "proven"


def test_a_run_under_a_debugger_is_not_watched() -> None:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert found(the_worlds_of_the_issue).verdict == "proven"
    finally:
        sys.settrace(before)


def test_no_thread_runs_without_a_trace_function_once_it_was_traced() -> None:
    """dpsim traces threads to find shared data. CPython 3.12 crashes if a traced thread resumes within a frame without
    a trace function. So the function stays set after a race, and until the end of a run.
    """
    traced: list[tuple[str, bool]] = []

    async def script(rank: Rank) -> None:
        order: list[int] = []
        never = rank.flag("never")

        async def races(rank: Rank) -> None:
            await rank.sleep(0, "race")
            order.append(1)
            never.clear("resumes")
            traced.append(("after the race", sys.gettrace() is not None))

        async def waits(rank: Rank) -> None:
            try:
                await never.wait("waits")
            finally:
                traced.append(("at the end", sys.gettrace() is not None))

        for number, part in enumerate((races, races, waits)):
            rank.start(f"thread{number}", part)
        await never.wait("forever")

    backend = SimBackend(choose=lambda what, options: 0, sharing=True)
    assert backend.run_program(world_of(1, ["h"]), Promised(script), None).unordered
    assert traced == [("after the race", True), ("after the race", True), ("at the end", True)]


# ---- uses of variables, read from the bytecode


def several(order: Any, table: Any, key: int) -> Any:
    order.append(key)
    table[key] = order
    order.count += 1
    several(order, table, key)
    return len(order), table[key], order == [key]


def test_uses_of_code() -> None:
    uses = [use for found in uses_of(several.__code__).values() for use in found if use.root in ("order", "table")]
    assert uses == [
        Use("order", "fast", ("append",), "load"),
        Use("order", "fast", (), "load"),
        Use("table", "fast", (), "store"),
        Use("order", "fast", (), "set", "count"),
        Use("order", "fast", (), "load"),
        Use("table", "fast", (), "load"),
        Use("order", "fast", (), "whole"),
        Use("table", "fast", (), "item", ("fast", "key")),
        Use("order", "fast", (), "whole"),
    ]
