"""Programs that cannot be run are refused where they are defined, and those that keep state between their ranks where
they are run.
"""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.interface import Rank
from dpsim.program import Program, SharedState, refuse_changes, state_of
from dpsim.testing import holds
from tests.programs import world_of

pytestmark = pytest.mark.runs_once  # some of the programs remember


def test_a_program_that_nobody_can_await_is_refused() -> None:
    """Before anything runs: a plain function would do all it does, and only then fail."""
    with pytest.raises(TypeError, match=r"Wrong.run is no coroutine function; write `async def run\("):

        class Wrong(Program[Any]):
            def run(self, rank: Rank, prepared: Any) -> None:  # type: ignore[override]
                pass


class Form:
    """A part of a protocol that ranks share."""

    limit = 3

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.random = random.Random(0)

    @cached_property
    def twice(self) -> int:
        return 2 * self.limit


class Remembers(Program[Any]):
    """Does to what its ranks share what it is told."""

    total = 0

    def __init__(self, what: str) -> None:
        self.what = what
        self.table = {"a": 1}

    async def run(self, rank: Rank, prepared: Any) -> None:
        form = prepared["form"]
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
    said = rf"^Remembers.run changed {changed}\. .*; keep what changes in local variables of run$"
    with pytest.raises(SharedState, match=said):
        explore_subject(Subject(world_of(2, ["h"]), Remembers(what), {"form": Form()}))


@pytest.mark.parametrize("what", ["nothing", "looks"])
def test_what_is_only_looked_at_may_be_shared(what: str) -> None:
    assert holds(Subject(world_of(2, ["h"]), Remembers(what), {"form": Form()})).verdict == "proven"


def test_what_cannot_be_pickled_is_left_alone() -> None:
    program = Remembers("nothing")
    program.table = {"a": lambda: 1}  # type: ignore[dict-item]
    refuse_changes(program, [lambda: 3], state_of(program, [lambda: 2]))
