"""Tests that a program is refused if it changes state that its ranks share. On real backends each rank is a process, so
its changes would not reach the others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache, cached_property
from threading import Lock
from typing import Any

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.rules.shared_state import SharedState, refuse_changes, state_of
from dpsim.testing import holds
from tests.programs import touch, world_of

pytestmark = pytest.mark.runs_once  # some of the programs keep state between runs, so a second run would differ


class Form:
    """An object that a program's ranks share, such as the result of `prepare`."""

    limit = 3

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.random = random.Random(0)

    @cached_property
    def twice(self) -> int:
        return 2 * self.limit


class Remembers(Program[Any]):
    """A program that changes, or only reads, what its ranks share; `what` selects how."""

    total = 0

    def __init__(self, what: str) -> None:
        self.what = what
        self.table = {"a": 1}

    async def run(self, rank: Rank, prepared: Any) -> None:
        form = prepared["form"]
        rank.stream("main").launch("touch", touch)
        match self.what:
            case "assigns":
                self.count = rank.rank
            case "assigns to the class":
                type(self).total += 1
            case "changes a table":
                self.table["b"] = 2
            case "changes a form":
                form.seen.append(rank.rank)
            case "draws":
                form.random.random()
            case "looks":
                assert form.twice == 6
        rank.decide("done", True, "h")


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("assigns", "self.count"),
        ("assigns to the class", "self.total"),
        ("changes a table", "self.table"),
        ("changes a form", "prepared"),
        ("draws", "prepared"),
    ],
)
def test_state_that_ranks_share_is_named(what: str, changed: str) -> None:
    line = f"tests/contract/test_shared_state.py:{Remembers.run.__code__.co_firstlineno}"
    said = rf"^Remembers.run \({line}\) changed {changed}\. .*; keep what changes in local variables of run$"
    with pytest.raises(SharedState, match=said):
        explore_subject(Subject(world_of(2, ["h"]), Remembers(what), {"form": Form()}))


@pytest.mark.parametrize("what", ["nothing", "looks"])
def test_state_that_ranks_only_read_may_be_shared(what: str) -> None:
    assert holds(Subject(world_of(2, ["h"]), Remembers(what), {"form": Form()})).verdict == "proven"


class Refuses:
    """An object that defines how it is pickled, with a method that raises."""

    def __reduce__(self) -> Any:
        raise LookupError


class Within(Program[Any]):
    """A program that stores a number beside an object that cannot be pickled. With `changes`, its ranks change the
    number.
    """

    def __init__(self, beside: Any, changes: bool) -> None:
        self.changes = changes
        self.parts: dict[str, Any] = {"beside": [beside, beside], "seen": [0], "form": Form()}

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.stream("main").launch("touch", touch)
        if self.changes:
            self.parts["seen"][0] += 1
        assert self.parts["form"].twice == 6
        rank.decide("done", True, "h")


class Local:
    """An object that contains an instance of a class which pickle cannot find by its name."""

    def __init__(self) -> None:
        class Own:
            def __init__(self) -> None:
                self.numbers = [1]

        self.own = Own()


BESIDE: dict[str, Callable[[], Any]] = {
    "lambda": lambda: lambda: 1,
    "lock": Lock,
    "generator": lambda: (number for number in range(3)),
    "object that refuses": Refuses,
    "class in a function": Local,
    "function with a cache": lambda: cache(lambda: 1),
    "module": lambda: random,
    "pattern, a method and a type": lambda: (re.compile("a"), [].append, int, Refuses),
}


@pytest.mark.parametrize("beside", BESIDE)
def test_state_beside_an_unpicklable_object_is_compared(beside: str) -> None:
    world = world_of(2, ["h"])
    assert holds(Subject(world, Within(BESIDE[beside](), False))).verdict == "proven"
    with pytest.raises(SharedState, match=r"Within.run .* changed self.parts"):
        explore_subject(Subject(world, Within(BESIDE[beside](), True)))


def test_state_inside_an_object_of_a_local_class_is_compared() -> None:
    part = Local()
    program = Within(part, False)
    before = state_of(program, None)
    refuse_changes(program, None, before)
    part.own.numbers.append(2)
    with pytest.raises(SharedState):
        refuse_changes(program, None, before)


def test_an_unpicklable_object_is_compared_by_its_type() -> None:
    program = Remembers("nothing")
    program.table = {"a": lambda: 1}  # type: ignore[dict-item]
    before = state_of(program, [lambda: 2])
    refuse_changes(program, [lambda: 3], before)
    with pytest.raises(SharedState, match="changed prepared"):
        refuse_changes(program, [Lock()], before)


def test_the_usual_state_is_pickled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.contract.rules.shared_state._ByName.__init__", None)  # the slow way, by name
    assert "self.table" in state_of(Remembers("nothing"), None)
