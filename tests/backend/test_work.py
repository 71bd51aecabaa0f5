"""Tests that a program which uses a host call's result without await gets an error that asks whether it forgot the
await.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpsim.backend.hosts.work import Work
from dpsim.backend.journal.journal import RankJournal
from dpsim.contract.world import World


def made() -> Any:
    def outcome() -> Any:
        return np.ones(1)
        yield

    journal = RankJournal(0, World(1, ()), list[Any]().append).thread()
    journal.site, journal.ordinal = "agree", 2
    return Work(journal, outcome)


@pytest.mark.parametrize(
    "use",
    [
        lambda work: work.max(),
        lambda work: work.shape,
        lambda work: work[0],
        lambda work: work == 1,
        lambda work: work != 1,
        lambda work: work > 1,
        lambda work: work + 1,
        lambda work: 1 + work,
        lambda work: np.ones(1) * work,
        lambda work: np.asarray(work),
        lambda work: np.add(work, 1),
        lambda work: bool(work),
        lambda work: int(work),
        lambda work: range(work),
        lambda work: len(work),
        lambda work: list(work),
        lambda work: 1 in work,
        lambda work: abs(-work),
    ],
)
def test_a_work_is_no_result(use: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError), match=r"agree\[2\]: did you forget await\?"):
        use(made())


def test_a_work_can_be_kept_and_distinguished() -> None:
    one, other = made(), made()
    assert one == one
    assert one != other
    assert other in [one, other]
    assert {one: 1}[one] == 1
    assert str(one)
