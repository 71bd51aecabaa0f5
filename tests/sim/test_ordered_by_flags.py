"""Tests `Program.ordered_by_flags`: a program declares that its threads order all shared data by flags. Then turns of
two threads conflict only if their calls use the same object, and DPOR finds the same outcomes in fewer schedules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, THREAD
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Run, World
from dpsim.explore import search
from dpsim.explore.explorer import Budget, explore
from dpsim.sim.hosts.turns import TOUCHED

FLAGS = ("f", "g")
ALONE = World(1, ())
Calls = tuple[tuple[str, str], ...]


class Flags(Program[tuple[Calls, ...]]):
    """Each thread makes its calls on flags. The threads share no Python data, and record what their queries
    returned.
    """

    threaded = True

    async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
        threads = [rank.start(f"t{number}", self.thread(calls)) for number, calls in enumerate(prepared[1:])]
        await self.thread(prepared[0])(rank)
        for thread in threads:
            await thread.join("join")

    def thread(self, calls: Calls) -> Callable[[Rank], Coroutine[Any, Any, None]]:
        async def run(rank: Rank) -> None:
            for what, name in calls:
                flag = rank.flag(name)
                if what == "set":
                    flag.set("set")
                elif what == "clear":
                    flag.clear("clear")
                elif what == "wait":
                    await flag.wait("wait")
                else:
                    await flag.query("query")

        return run


class Ordered(Flags):
    ordered_by_flags = True


def outcomes(
    program: Program[Any], threads: tuple[Any, ...], by_itself: bool = False, world: World = ALONE
) -> tuple[set[Any], int]:
    """Returns all outcomes of the program: for each thread, what it learned in order, and whether it finished. With
    `by_itself`, an outcome is what the queries returned, and how the rank ended. Also returns the number of runs.
    """
    seen: set[Any] = set()
    subject = Subject(world, program, threads, repeats=False)

    def once(asked: Any) -> list[Any]:
        run, _ = subject.run(asked)
        seen.add((queried(run), tuple(run.ends)) if by_itself else told(run))
        return []

    result = explore(once, search("dpor"), Budget(schedules=5000))
    assert result.verdict in ("proven", "vacuous"), result.verdict
    return seen, result.runs


def told(run: Run) -> tuple[Any, ...]:
    by_thread: dict[str, list[Any]] = {}
    for raw in run.journals[0]:
        if raw[KIND] in ("learned", "ended", "finished"):
            by_thread.setdefault(raw[THREAD], []).append((raw[KIND], *raw[3:5], raw[6:]))
    return tuple(sorted((name, tuple(map(str, records))) for name, records in by_thread.items()))


def queried(run: Run) -> tuple[Any, ...]:
    learned = [raw for raw in run.journals[0] if raw[KIND] == "learned"]
    return tuple(sorted((*raw[2:4], raw[LEARNED_OUTCOME]) for raw in learned if type(raw[LEARNED_OUTCOME]) is bool))


# ---- what threads share beyond flags and Python data: names, deaths, exceptions


class Split(Flags):
    """A thread issues a wait and a query, and awaits them after another call."""

    async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
        f, g, h = (rank.flag(name) for name in "fgh")

        async def thread(rank: Rank) -> None:
            await h.wait("h.wait")
            f.set("f.set")
            f.clear("f.clear")
            f.set("f.set")

        rank.start("t", thread)
        asked, waits = f.query("f.query"), f.wait("f.wait")
        h.set("h.set")
        g.set("g.set")
        await asked
        await waits


class SplitOrdered(Split):
    ordered_by_flags = True


class TakesName(Flags):
    """The name of a thread is free again when a third thread has returned from its join."""

    async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
        async def ends(rank: Rank) -> None:
            pass

        async def joins(rank: Rank) -> None:
            await thread.join("join")

        thread = rank.start("t", ends)
        rank.start("joins", joins)
        try:
            rank.start("t", ends)
        except RuntimeError:
            await rank.flag("refused").query("refused")


class TakesNameOrdered(TakesName):
    ordered_by_flags = True


class Raises(Flags):
    """The main thread raises, which cuts off the other thread."""

    async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
        rank.start("t", self.thread((("set", "f"), ("set", "g"), ("query", "g"))))
        await rank.flag("f").wait("wait")
        raise ValueError


class RaisesOrdered(Raises):
    ordered_by_flags = True


class Naps(Flags):
    """The main thread may die in its sleep, which also ends the other thread."""

    async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
        rank.start("t", self.thread((("set", "f"), ("query", "f"))))
        await rank.sleep(1, "nap")


class NapsOrdered(Naps):
    ordered_by_flags = True


def test_a_death_is_ordered_against_everything() -> None:
    dying = World(1, (), faults=(Fault("die", 0, At("nap", 0)),))
    everything, _ = outcomes(Naps(), (), by_itself=True, world=dying)
    assert len(everything) == 2
    assert outcomes(NapsOrdered(), (), by_itself=True, world=dying)[0] == everything


def test_an_exception_of_main_may_come_before_or_after_ops_of_threads() -> None:
    """When the main thread raises, other threads may run before or after that, even if it raises directly after their
    start.
    """

    class AtOnce(Flags):
        async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
            rank.start("t", self.thread((("query", "f"),)))
            raise ValueError

    assert len(outcomes(AtOnce(), (), by_itself=True)[0]) == 2


@pytest.mark.parametrize(
    ("full", "ordered", "number"),
    [(Split, SplitOrdered, 1), (TakesName, TakesNameOrdered, 2), (Raises, RaisesOrdered, 2)],
)
def test_the_flags_promise_hides_no_race_outside_python_code(
    full: type[Flags], ordered: type[Flags], number: int
) -> None:
    everything, _ = outcomes(full(), (), by_itself=True)
    assert len(everything) == number
    assert outcomes(ordered(), (), by_itself=True)[0] == everything


class Draws(Flags):
    """The faulty program: its threads share a list that no flag orders."""

    async def run(self, rank: Rank, prepared: tuple[Calls, ...]) -> None:
        drawn: list[str] = []

        async def thread(rank: Rank) -> None:
            drawn.append(rank.thread)

        threads = [rank.start(name, thread) for name in ("a", "b")]
        for one in threads:
            await one.join("join")
        await rank.flag(drawn[0]).query(f"first.{drawn[0]}")


class DrawsOrdered(Draws):
    ordered_by_flags = True


def test_a_broken_promise_hides_the_race_that_it_was_about() -> None:
    assert len(outcomes(Draws(), ())[0]) == 2
    assert len(outcomes(DrawsOrdered(), ())[0]) == 1


def test_a_wait_and_a_clear_do_not_commute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait and a clear of one flag conflict. In the faulty twin they do not, so DPOR misses a wait that continues or
    one that never returns.
    """
    threads: tuple[Calls, ...] = ((("set", "f"), ("clear", "f")), (("wait", "f"),))
    everything, _ = outcomes(Flags(), threads)
    assert outcomes(Ordered(), threads)[0] == everything
    monkeypatch.setitem(TOUCHED, "clear", (("state", "w"),))
    assert outcomes(Ordered(), threads)[0] < everything


@pytest.mark.parametrize("seed", range(8))
def test_same_outcomes_in_fewer_schedules(seed: int) -> None:
    draw = random.Random(seed)
    calls = ("set", "set", "clear", "wait", "query")
    threads = tuple(tuple((draw.choice(calls), draw.choice(FLAGS)) for _ in range(3)) for _ in range(2))
    everything, many = outcomes(Flags(), threads)
    ordered, few = outcomes(Ordered(), threads)
    assert ordered == everything
    assert few <= many
