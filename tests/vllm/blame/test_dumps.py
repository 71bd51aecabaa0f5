"""Tests whether flight recorder dumps of simulated worlds with one planted fault show the planted rank as culprit.

    python -m tests.vllm.blame.test_dumps pp_tokens 1000 1200     # counts, and what is not right

A dump contains no steps, no roots and no decisions of ranks, so some different faults look alike in it. If all calls in
the dumps are complete and no rank is missing, the dumps show nothing and the world does not count. Each world is also
dumped without its fault, and then no rank may be accused.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from dpsim.contract.world import Fault, Run, World
from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.scenario import scenario_from
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from tests.blame.plants import Planted
from tests.diagnose.dumps.from_runs import write
from tests.vllm.blame.families import FAMILIES
from tests.vllm.blame.plants import plant


class DumpedWorld(NamedTuple):
    """A world, its fault, and the explanation of its dumps without and with the fault."""

    seed: int
    planted: Planted[Fault]
    healthy: Explanation
    found: Explanation

    @property
    def came(self) -> str:
        """The grade: right, undecided or wrong; "nothing" if the dumps show no trouble."""
        if self.found.outcome == "finished":
            return "nothing"
        if self.found.culprit is None:
            return "undecided"
        return "right" if self.found.culprit.ranks == (self.planted.fault.rank,) else "wrong"


def dumped(family: str, seeds: range) -> Iterator[DumpedWorld]:
    """Yields worlds of at least three ranks in which a rank, not a service, has the fault."""
    for seed in seeds:
        random = Random(seed)
        scenario = scenario_from(FAMILIES[family](random))
        program, _, prepared = prepare(scenario)
        told = world(scenario, program, prepared)
        if told.size < 3:
            continue
        healthy = SimBackend().run_program(told, program, prepared)
        planted = plant(random, told, healthy)
        if planted is None or planted.fault.rank >= told.size:
            continue
        run = SimBackend().run_program(replace(told, faults=(planted.fault,)), program, prepared)
        yield DumpedWorld(seed, planted, explained(told, healthy), explained(told, run))


def explained(told: World, run: Run) -> Explanation:
    with tempfile.TemporaryDirectory() as folder:
        write(told, run, Path(folder))
        return judge_dumps(read_dumps(Path(folder)))


class Shares(NamedTuple):
    """Percentages of the worlds whose dumps show trouble.

    `accused`: the number of healthy worlds whose dumps show trouble.
    """

    shown: int
    right: float
    wrong: float
    accused: int

    @staticmethod
    def of(worlds: list[DumpedWorld]) -> Shares:
        counts = Counter(one.came for one in worlds)
        shown = sum(counts.values()) - counts["nothing"]
        accused = sum(one.healthy.outcome != "finished" or one.healthy.culprit is not None for one in worlds)
        return Shares(shown, 100 * counts["right"] / max(shown, 1), 100 * counts["wrong"] / max(shown, 1), accused)


REACHES = {"dp_batch": (97.0, 0.0), "pp_tokens": (80.0, 2.0)}
"""The least share of right culprits and the largest share of wrong ones, in percent."""


def reached(family: str, seeds: range) -> None:
    shares = Shares.of(list(dumped(family, seeds)))
    print(family, shares)
    right, wrong = REACHES[family]
    assert shares.shown > 0
    assert shares.right >= right, shares
    assert shares.wrong <= wrong, shares
    assert shares.accused == 0, shares


@pytest.mark.slow
@pytest.mark.parametrize("family", REACHES)
def test_the_culprit_of_dumps(family: str) -> None:
    reached(family, range(2000, 2100))


@pytest.mark.nightly
@pytest.mark.parametrize("family", REACHES)
def test_the_culprit_of_many_dumps(family: str) -> None:
    reached(family, range(2000, 2400))


def test_a_judge_that_names_another_rank_is_found() -> None:
    """Faulty twin: each explanation names the next rank instead, and the share of wrong culprits must exceed 50 %."""
    worlds = []
    for one in dumped("dp_batch", range(6)):
        culprit = one.found.culprit
        if culprit is not None:
            one = one._replace(found=one.found._replace(culprit=culprit._replace(ranks=(culprit.ranks[0] + 1,))))
        worlds.append(one)
    assert Shares.of(worlds).wrong > 50


def main(words: list[str]) -> None:
    family, low, high = words
    worlds = list(dumped(family, range(int(low), int(high))))
    print(Shares.of(worlds))
    for one in worlds:
        if one.came in ("wrong", "undecided"):
            print(one.seed, one.came, one.planted.kind, one.planted.fault, one.found, sep="  ")


if __name__ == "__main__":
    main(sys.argv[1:])
