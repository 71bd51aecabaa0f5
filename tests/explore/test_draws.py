"""Tests how DPOR chooses between eager and rendezvous sends.

By default an op that may wait for its peers does not wait. DPOR lets it wait only if a run showed that the wait may
last without end. The verdict on each program here depends on such a choice. For some rules, a faulty variant of the
machine or of DPOR proves a program that can hang.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.schedule import OptionalWait
from dpsim.explore.strategies import dpor
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.early_ends import EarlyEnds
from tests.programs import explored, world_of


async def passes_on(rank: Rank) -> None:
    """Rank 0 sends eight messages of different sizes to rank 1, which passes each one on to rank 2."""
    for size in range(1, 9):
        if rank.rank:
            await rank.host("h").recv(size, "int32", rank.rank - 1)
        if rank.rank < 2:
            await rank.host("h").send(np.ones(size, np.int32), rank.rank + 1)


def test_a_program_without_lasting_waits_is_proven_in_one_run() -> None:
    found = explored(world_of(3, ["h"]), passes_on)
    assert (found.verdict, found.exploration.runs) == ("proven", 1)


async def both_send_first(rank: Rank) -> None:
    await rank.host("h").send(np.ones(1, np.int32), 1 - rank.rank)
    await rank.host("h").recv(1, "int32", 1 - rank.rank)


def test_a_program_that_needs_eager_sends_is_violated_in_two_runs() -> None:
    found = explored(world_of(2, ["h"]), both_send_first)
    assert (found.verdict, found.exploration.runs) == ("violated", 2)


async def only_if_eager(rank: Rank) -> None:
    """An assertion of rank 2 fails only if the send of rank 0 ends before rank 1 receives. If the send always waits for
    its receiver, the program is right.
    """
    host = rank.host("h")
    if rank.rank == 0:
        await host.send(np.ones(1, np.int32), 1)
        rank.send(2, "in", "sent", "tell")
    elif rank.rank == 1:
        await rank.mailbox("in").get("go")
        await host.recv(1, "int32", 0)
    else:
        heard = await rank.mailbox("in").poll("poll")
        rank.send(1, "in", "go on", "go")
        assert heard is None


def test_a_program_that_needs_a_waiting_send_is_violated() -> None:
    found = explored(world_of(3, ["h"]), only_if_eager)
    assert found.verdict == "violated"


# ---- the sends of one rank: some eager, and then some that wait


async def waits_in_the_second(rank: Rank) -> None:
    """If rank 1 has learned that the first send has ended, it receives nothing until it learns the same of the second
    send.
    """
    host, box = rank.host("h"), rank.mailbox("in")
    if rank.rank == 0:
        for _ in range(2):
            await host.send(np.ones(1, np.int32), 1)
            rank.send(1, "in", "sent", "tell")
        return
    if await box.poll("poll") is not None:
        await box.get("second")
    for _ in range(2):
        await host.recv(1, "int32", 0)


def once_for_all(self: EarlyEnds, label: str, end: Op, all_came: Op, knew: int) -> tuple[bool, int]:
    """A faulty variant of `EarlyEnds.next`: all sends of a rank take the outcome of the first draw."""
    if self not in drawn_first:
        drawn_first[self] = NEXT(self, label, end, all_came, knew)
    return drawn_first[self]


NEXT = EarlyEnds.next
drawn_first: dict[EarlyEnds, tuple[bool, int]] = {}


def test_the_first_send_may_be_eager_and_the_second_not() -> None:
    assert explored(world_of(2, ["h"]), waits_in_the_second).verdict == "violated"


def test_a_twin_that_draws_once_for_all_sends_misses_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EarlyEnds, "next", once_for_all)
    assert explored(world_of(2, ["h"]), waits_in_the_second).verdict == "proven"


# ---- which waits may last without end


async def passes_round(rank: Rank) -> None:
    """In a ring of six ranks, each rank sends before it receives. The ring hangs only if all sends wait for their
    receivers.
    """
    following, before = (rank.rank + 1) % 6, (rank.rank - 1) % 6
    await rank.host("h").send(np.ones(1, np.int32), following)
    await rank.host("h").recv(1, "int32", before)


def test_a_ring_that_waits_as_one_is_found_at_once() -> None:
    found = explored(world_of(6, ["h"]), passes_round)
    assert (found.verdict, found.exploration.runs) == ("violated", 2)


def by_itself(waits: Sequence[OptionalWait]) -> list[OptionalWait]:
    """A faulty variant of `lasting`: it returns only waits that would last even if no other op waited."""
    return [wait for wait in waits if wait.ended and (wait.met is None or wait.met & wait.bit)]


def test_a_twin_that_looks_at_each_wait_alone_calls_the_ring_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpor, "lasting", by_itself)
    assert explored(world_of(6, ["h"]), passes_round).verdict == "proven"


def never_came(waits: Sequence[OptionalWait]) -> list[OptionalWait]:
    """A faulty variant of `lasting`: it returns only waits whose last peer never arrived."""
    return [wait for wait in waits if wait.ended and wait.met is None]


async def receives_after_a_message(rank: Rank) -> None:
    """Rank 1 receives only after a message of rank 0, which rank 0 sends when its send has ended. So the program hangs
    if the send waits.
    """
    host = rank.host("h")
    if rank.rank == 0:
        await host.send(np.ones(1, np.int32), 1)
        rank.send(1, "in", "sent", "tell")
    else:
        await rank.mailbox("in").get("told")
        await host.recv(1, "int32", 0)


def test_a_wait_is_not_lasting_if_the_op_itself_brings_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explored(world_of(2, ["h"]), receives_after_a_message).verdict == "violated"
    monkeypatch.setattr(dpor, "lasting", by_itself)
    assert explored(world_of(2, ["h"]), receives_after_a_message).verdict == "violated"
    monkeypatch.setattr(dpor, "lasting", never_came)
    assert explored(world_of(2, ["h"]), receives_after_a_message).verdict == "proven"
