"""Tests that ranks which answer each other's messages without end are a livelock, and that an exchange with an end is
none. An exchange that ends has a counter somewhere, and each twin hides it in another place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.interface import Rank
from dpsim.contract.world import Kill, World
from dpsim.diagnose.words import text
from dpsim.sim.hosts import recurrence
from tests.programs import Script, explored, judged, world_of

PAIR = world_of(2, hosts=["h"])
ROUNDS = 400


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the bound, so that the tests are fast. Each exchange that ends is still longer than several looks."""
    monkeypatch.setattr(recurrence, "FIRST", 1)


def exchange(answers: Callable[[Rank, Any], bool], ranks: int = 2) -> Script:
    """Returns a program in which each rank sends a message on to the next one, as long as `answers` returns True."""

    async def script(rank: Rank) -> None:
        box = rank.mailbox("box")
        if rank.rank == 0:
            rank.send(1, "box", "ball", "serve")
        while True:
            got = await box.get("wait", idle=True)
            if not answers(rank, got):
                return
            rank.send((rank.rank + 1) % ranks, "box", got, "answer")

    return script


async def naps(rank: Rank) -> None:
    """Each round has further calls: a decision, a collective, a sleep and two messages."""
    peer = 1 - rank.rank
    for turn in itertools.cycle("ab"):
        rank.send(peer, "box", turn, "send")
        await rank.mailbox("box").get("get")
        rank.decide("turn", turn, "h")
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")
        await rank.sleep(1_000, "nap")


def always(rank: Rank, got: Any) -> bool:
    return True


def livelocks(found: Sequence[Finding]) -> list[str]:
    return [one.klass for one in found if one.klass.startswith("LIVELOCK")]


@pytest.mark.parametrize(("script", "ranks"), [(exchange(always), 2), (exchange(always, 3), 3), (naps, 2)])
def test_an_exchange_of_the_same_messages_is_a_livelock(script: Script, ranks: int) -> None:
    world = world_of(ranks, hosts=["h"])
    for findings in (judged(world, script), explored(world, script).findings):
        [finding] = findings
        assert (finding.klass, finding.culprit) == ("LIVELOCK:MESSAGES", None)
        assert "tests/sim/test_recurrence.py:" in text(finding.message)


def test_a_rank_that_may_die_does_not_end_the_exchange() -> None:
    world = world_of(2, hosts=["h"], kills=(Kill(1),))
    found = explored(world, exchange(always)).findings
    assert {one.klass for one in found} & {"LIVELOCK:MESSAGES", "HANG:MAILBOX:DEAD_RANK", "DEATH:RANK"}


# ---- exchanges that end


class Counted:
    """Counts the rounds of each rank in an attribute."""

    def __init__(self) -> None:
        self.rounds = [0, 0]

    def __call__(self, rank: Rank, got: Any) -> bool:
        self.rounds[rank.rank] += 1
        return self.rounds[rank.rank] % ROUNDS != 0


def in_a_closure() -> Callable[[Rank, Any], bool]:
    rounds = 0

    def answers(rank: Rank, got: Any) -> bool:
        nonlocal rounds
        rounds += 1
        return rounds % (2 * ROUNDS) < 2 * ROUNDS - 2

    return answers


def in_a_generator() -> Callable[[Rank, Any], bool]:
    def counts() -> Iterator[bool]:
        while True:
            yield from (True for _ in range(ROUNDS - 1))
            yield False

    left = {0: counts(), 1: counts()}
    return lambda rank, got: next(left[rank.rank])


def on_the_stack(rounds: Callable[[], Iterator[Any]]) -> Script:
    """Returns a program whose loop counts on the stack of its coroutine; its variables never change."""

    async def script(rank: Rank) -> None:
        box, peer = rank.mailbox("box"), 1 - rank.rank
        for _ in rounds():
            rank.send(peer, "box", "ball", "answer")
            await box.get("wait")

    return script


async def grows(rank: Rank) -> None:
    """The message itself counts the rounds."""
    box = rank.mailbox("box")
    if rank.rank == 0:
        rank.send(1, "box", 0, "serve")
    while (got := cast("int", await box.get("wait", idle=True))) < 2 * ROUNDS:
        rank.send(1 - rank.rank, "box", got + 1, "answer")


async def is_told_to_end(rank: Rank) -> None:
    """Rank 0 has sent all messages before rank 1 answers the first, and the last one differs."""
    if rank.rank == 0:
        for number in range(ROUNDS):
            rank.send(1, "box", "end" if number == ROUNDS - 1 else "ball", "serve")
        return
    while await rank.mailbox("box").get("wait") != "end":
        rank.send(1, "own", "ball", "note")
        await rank.mailbox("own").get("own")


ENDING = [
    exchange(Counted()),
    exchange(in_a_closure()),
    exchange(in_a_generator()),
    on_the_stack(lambda: itertools.repeat(None, ROUNDS)),
    on_the_stack(lambda: (None for _ in range(ROUNDS))),
    grows,
    is_told_to_end,
]


@pytest.mark.parametrize("script", ENDING)
def test_an_exchange_that_ends_is_no_livelock(script: Script) -> None:
    assert livelocks(judged(PAIR, script)) == []


@pytest.mark.parametrize("script", [on_the_stack(lambda: itertools.repeat(None, ROUNDS)), grows])
def test_an_exchange_that_ends_is_proven(script: Script) -> None:
    assert explored(PAIR, script).verdict == "proven"


class Blind:
    """A faulty twin: it sees no values of programs, as the watch of records."""

    def __call__(self, coroutines: Any) -> bytes:
        return b""


def test_without_the_values_of_programs_a_counted_exchange_is_taken_for_endless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = on_the_stack(lambda: itertools.repeat(None, ROUNDS))
    monkeypatch.setattr(recurrence, "state_of", Blind())
    assert livelocks(judged(PAIR, script)) == ["LIVELOCK:MESSAGES"]


def test_a_message_that_a_schedule_holds_back_may_end_the_exchange() -> None:
    """Rank 2 tells both others to end. If its messages are late, the exchange goes on, and this is no livelock."""

    async def script(rank: Rank) -> None:
        if rank.rank == 2:
            for peer in (0, 1):
                rank.send(peer, "box", "end", "tell")
            return
        await exchange(lambda _, got: got != "end")(rank)

    world: World = world_of(3, hosts=["h"])
    assert livelocks(list(explored(world, script, "random", 5).findings)) == []
