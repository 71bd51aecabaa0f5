"""Compares what DPOR sees of a case with what brute force sees.

    missed(case)       # (0, 0, 0): outcomes and classes that DPOR missed, and runs that repeat a class

An op may wait though the contract does not require it, as a sender may wait for its receiver. The strategy draws
whether such an op waits. DPOR runs all classes of schedules in which the wait lasts to the end, and some in which it
ends. The classes that DPOR omits have no further outcomes. So `missed` compares only classes in which no op waits
without need.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.events import failing_rank
from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.dpor import Dpor
from tests.worlds.brute import Order, Outcome, Recorder, enumerate_schedules, outcome_of
from tests.worlds.case import Case, execute


class Follow(Recorder):
    """Repeats a schedule, to compute its class as brute force does."""

    def __init__(self, schedule: list[str]) -> None:
        super().__init__()
        ranks = {word: failing_rank(word) for word in schedule}
        self.known_to_fail |= {rank for rank in ranks.values() if rank is not None}
        self.left_over = [word for word in schedule if ranks[word] is None]

    def choose(self, labels: Any) -> int:
        return list(labels).index(self.left_over.pop(0))

    def answer(self, label: str, options: Any) -> int:
        return [f"{label}: {option}" for option in options].index(self.left_over.pop(0))


def explored(case: Case, limit: int = 3_000) -> tuple[list[Order], set[Outcome]]:
    """Returns the classes of all complete runs of DPOR, and their outcomes."""
    strategy = Dpor()
    classes, outcomes = [], set()
    for _ in range(limit):
        if not strategy.begin():
            break
        try:
            outcome = outcome_of(execute(case, strategy))
        except CutOff:
            strategy.end(whole=False)
            continue
        follow = Follow(strategy.schedule)
        assert outcome_of(execute(case, follow)) == outcome
        classes.append(follow.order())
        outcomes.add(outcome)
        strategy.end(whole=True)
    assert strategy.exhausted
    return classes[strategy.left_out :], outcomes


def missed(case: Case, limit: int = 20_000) -> tuple[int, int, int]:
    """Returns the numbers of outcomes and of classes that DPOR misses, and the number of runs that repeat a class."""
    found = enumerate_schedules(case, limit)
    assert found.complete
    assert not found.torn
    classes, outcomes = explored(case)
    assert outcomes <= {*found.outcomes}
    assert {*classes} <= {*found.classes}
    eager = {order for order in found.classes if not waits(order)}
    return len(found.outcomes) - len(outcomes), len(eager - {*classes}), len(classes) - len({*classes})


def waits(order: Order) -> bool:
    """Returns whether some op waits without need: the second option of a draw, by its number, says that it waits."""
    return any(isinstance(one, tuple) and one[1] == 1 and not str(one[0]).startswith("in the end") for one in order)
