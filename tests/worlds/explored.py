"""What DPOR sees of a case, against what brute force does.

missed(case)       # (0, 0, 0): outcomes and classes that it missed, runs that it made twice

An op may wait that need not (a rendezvous). Of such classes DPOR sees those in which the wait lasts, and some in which
it ends; those are no separate outcomes. So only classes are compared in which no op did.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.schedule import CutOff, failing_rank
from dpsim.explore.strategies.dpor import Dpor
from tests.worlds.brute import Order, Outcome, Recorder, enumerate_schedules, outcome_of
from tests.worlds.case import Case, execute


class Follow(Recorder):
    """Repeats a schedule, to write its class down in brute force's way."""

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
    """Classes of the whole runs, and their outcomes."""
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
    """Outcomes and classes that DPOR misses, and runs too many."""
    found = enumerate_schedules(case, limit)
    assert found.complete
    assert not found.torn
    classes, outcomes = explored(case)
    assert outcomes <= {*found.outcomes}
    assert {*classes} <= {*found.classes}
    eager = {order for order in found.classes if not waits(order)}
    return len(found.outcomes) - len(outcomes), len(eager - {*classes}), len(classes) - len({*classes})


def waits(order: Order) -> bool:
    """Whether some op waited that need not: the second option of a draw, by its number."""
    return any(isinstance(one, tuple) and one[1] == 1 and not str(one[0]).startswith("in the end") for one in order)
