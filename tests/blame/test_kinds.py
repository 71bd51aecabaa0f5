"""Tests that the kinds of protocols are correct: no check finds anything, neither in a plain run nor if ops are late.

Their faulty twins are protocols that break one of the duties of a kind (`tests.blame.drawn`).
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.kinds import NAMED
from dpsim.contract.ops import KIND, SITE, WHERE
from dpsim.contract.world import Run
from tests.blame.campaign import HELD, KINDS
from tests.blame.cases import run_of
from tests.blame.drawn import Drawn, Kind, drawn
from tests.blame.plants import slow

EVERY = KINDS | HELD


def trouble(draw: Kind, seed: int) -> str:
    """Returns what is wrong with a protocol without a mistake; empty if nothing is."""
    draws = random.Random(seed)
    protocol = draw(draws)
    healthy = run_of(protocol)
    late = run_of(protocol, delays=slow(draws, protocol.world, healthy))
    for run in (healthy, late):
        if found := judge(protocol.world, run):
            return found[0].klass
    return "" if healthy.finished and late.finished else "a rank does not end"


@pytest.mark.parametrize("kind", EVERY)
def test_a_protocol_of_each_kind_holds_also_if_ops_are_late(kind: str) -> None:
    assert [trouble(EVERY[kind], seed) for seed in range(3)] == [""] * 3


def hasty(draws: random.Random) -> Drawn:
    async def run(rank: Rank) -> None:
        if rank.rank == 0:
            rank.send(1, "box", 1, "early.post")
        else:
            await rank.sleep(10**6, "wait")
            assert await rank.mailbox("box").poll("early.poll"), "the message is late"

    return drawn(2, run)


def test_a_protocol_that_relies_on_time_is_noticed() -> None:
    assert {trouble(hasty, seed) for seed in range(12)} == {"", "CRASH:ASSERTIONERROR"}


def repeats(draw: Kind) -> bool:
    """Returns whether two draws of one seed are one protocol with one run."""
    first, second = draw(random.Random(1)), draw(random.Random(1))
    return (first.text, run_of(first).journals) == (second.text, run_of(second).journals)


@pytest.mark.parametrize("kind", EVERY)
def test_a_seed_means_one_protocol(kind: str) -> None:
    assert repeats(EVERY[kind])


def test_a_kind_that_draws_from_elsewhere_is_noticed() -> None:
    elsewhere = random.Random(2)
    assert not repeats(lambda _: KINDS["ring"](random.Random(elsewhere.random())))


def sites_of_several_lines(run: Run) -> set[str]:
    places = defaultdict(set)
    for own in run.journals:
        for raw in own:
            if raw[KIND] in NAMED and raw[KIND] != "decision":  # its site is a label
                places[raw[SITE]].add(raw[WHERE])
    return {site for site, lines in places.items() if len(lines) > 1}


@pytest.mark.parametrize("kind", EVERY)
def test_each_site_is_in_one_line(kind: str) -> None:
    assert sites_of_several_lines(run_of(EVERY[kind](random.Random(1)))) == set()


def test_a_site_in_two_lines_is_noticed() -> None:
    async def run(rank: Rank) -> None:
        rank.send(0, "box", 1, "any.post")
        rank.send(0, "box", 2, "any.post")

    assert sites_of_several_lines(run_of(drawn(1, run))) == {"any.post"}
