"""Tests that dpsim rewrites error messages of Python that name a backend's class. The new message names the class of
the contract. All other messages stay.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from dpsim.backend.journal.misuse import FOREIGN, said
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.schedule import Choose
from tests.programs import run, world_of


class Mine:
    """A class of a program."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            AttributeError("'RealRank' object has no attribute 'sned'"),
            "'sned'; did you mean 'send'? A protocol can add",
        ),
        (
            AttributeError("'SimRank' object has no attribute 'a' and no __dict__ for new ones"),
            "'a'. A protocol can add",
        ),
        (AttributeError("'SimEvent' object attribute 'query' is read-only"), "'query' of an Event cannot be replaced"),
        (RuntimeError("no running event loop"), FOREIGN),
    ],
)
def test_words_of_the_contract(error: Exception, words: str) -> None:
    importlib.import_module("real.rank")
    assert words in said(error)


OTHERS = [lambda: Mine().a, lambda: "".a, lambda: setattr(Mine(), "a", 1)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", OTHERS)
def test_other_errors_keep_their_words(wrong: Callable[[], Any]) -> None:
    with pytest.raises(AttributeError) as raised:
        wrong()
    assert said(raised.value) == str(raised.value)


class Foreign:
    """An awaitable that no call of the contract returned."""

    def __await__(self) -> Any:
        yield None


@pytest.mark.parametrize("choose", [None, lambda what, options: 0])
def test_a_rank_that_awaits_something_else_breaks_off_alone(choose: Choose | None) -> None:
    """The rank that awaits such an object ends with an error, and the other rank finishes. An `except Exception` in the
    program does not catch the error.
    """

    async def script(rank: Rank) -> None:
        while rank.rank == 1:
            with suppress(Exception):
                await Foreign()
        await rank.sleep(1, "nap")

    told = run(world_of(2), script, choose=choose)
    assert told.ends == ["finished", "raised"]
    assert [(raw[KIND], raw[SITE]) for raw in told.journals[1]] == [("raised", "ForeignAwait")]


def test_a_program_may_await_an_object_of_its_class() -> None:
    """A program may await an object of a class that it defines, if that object awaits only calls of the contract."""

    class Naps:
        def __init__(self, rank: Rank) -> None:
            self.rank = rank

        def __await__(self) -> Any:
            return self.rank.sleep(1, "nap").__await__()

    async def script(rank: Rank) -> None:
        await Naps(rank)

    assert run(world_of(2), script).finished
