"""Tests the classes of schedules that a sampling strategy counts. It counts waits that end as separate classes, but
sees nothing that DPOR does not see.
"""

from collections.abc import Hashable

import numpy as np
import pytest

from dpsim import Program, Rank
from dpsim.campaign import plans
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.explore import Budget, Exploration, Problem, explore
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import Picker
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.portfolio import Portfolio
from dpsim.explore.strategies.walks import RandomWalk

WORLD = World(2, (CommunicatorSpec("g", "g", "host", (0, 1)),))


class Elects(Program[None]):
    """Twice, the first rank that claims a key becomes the root of a broadcast."""

    async def run(self, rank: Rank, prepared: None) -> None:
        store = await (rank.open_store(5, "open") if rank.rank == 1 else rank.join_store(0, 5, "join"))
        assert store is not None
        for rank.step in range(2):
            owner = await store.compare_set(f"owner {rank.step}", "", rank.rank + 1, "claim")
            assert isinstance(owner, int)
            await rank.host("g").broadcast(np.array([rank.step], np.int32), owner - 1, site="tell")
        await rank.host("g").barrier(site="end")


class Seen:
    """The results under a strategy: the journals, and the classes, by whether a root waited without need."""

    def __init__(self, strategy: Picker, schedules: int) -> None:
        self.journals: set[str] = set()
        self.eager: set[Hashable] = set()
        self.waited: set[Hashable] = set()
        self.strategy = strategy
        self.subject = Subject(WORLD, Elects())
        self.found = explore(self.once, strategy, Budget(schedules), self.note)

    def once(self, asked: Strategy) -> list[Problem]:
        run, findings = self.subject.run(asked)
        assert not findings
        self.journals.add(repr(run.journals))
        return []

    def note(self, so_far: Exploration) -> None:
        order = self.strategy.order
        (self.waited if order.unusual else self.eager).add(order.class_key())


def test_a_random_walk_sees_what_dpor_proves_and_counts_more() -> None:
    labels = Labels()  # both strategies share these labels
    proof, walk = Seen(Dpor(labels), 1000), Seen(RandomWalk(labels), 200)
    assert proof.found.verdict == "proven"
    assert walk.journals == proof.journals
    assert walk.eager <= proof.eager
    assert walk.waited
    assert not proof.waited


def test_a_proof_counts_the_classes_of_dpor() -> None:
    """The portfolio samples beside DPOR. A proof counts only the classes of DPOR."""
    dpor = explore_subject(Subject(WORLD, Elects()), "dpor").exploration
    mixed = explore_subject(Subject(WORLD, Elects()), Portfolio(alone=1)).exploration
    assert (mixed.verdict, mixed.runs > dpor.runs) == ("proven", True)
    assert len(mixed.classes) == len(dpor.classes)


def test_a_proof_in_units_counts_the_classes_of_dpor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "ALONE", 1)
    dpor, mixed = (explore_all([Subject(WORLD, Elects())], one)[0].exploration for one in ("dpor", "portfolio"))
    assert (mixed.verdict, mixed.runs > dpor.runs) == ("proven", True)
    assert len(mixed.classes) == len(dpor.classes)
