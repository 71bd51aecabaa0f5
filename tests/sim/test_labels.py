"""Tests the labels of events. The simulation writes some of them without the functions of `dpsim.contract.schedule`.
Each label still has a form of that module's grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract.schedule import draw_word, kill_label, numbered_label, own_label, transfer_label, visit_label
from dpsim.explore.strategies.walks import RandomWalk
from tests.worlds.cases import CASES

VERBS = "delivers|issues|is late for|comes[ ]to|passes"
HOST = r"(\d+(?:/[^ ]+)?)"
"""A pattern for a rank, or for one of its host threads."""
DRAWN = r"(rank .*): (eager|rendezvous)"


def of_a_transfer(name: str, sender: int, receiver: int, number: int) -> str:
    return numbered_label(transfer_label(name, sender, receiver), number)


FORMS: list[tuple[str, Callable[..., str]]] = [
    (rf"rank {HOST} (?:({VERBS}) )?([^\[]+)\[(\d+)\]", lambda r, verb, site, n: visit_label(r, site, n, verb or "")),
    (
        rf"rank {HOST} (starts|goes on|gets through|\S+ joins|(?:starts|leaves|is served by \d+ in) \S+) #(\d+)",
        lambda r, what, n: numbered_label(what, n, r),
    ),
    (r"rank (\d+) (event \d+ passes|starts)", own_label),
    (r"kill rank (\d+)", kill_label),
    (r"(\S+) #(\d+)", numbered_label),
    (r"(\S+) (\d+)>(\d+) #(\d+)", of_a_transfer),
    (r"rank (\d+) (gives )?(\S+) #(\d+)", lambda r, gives, c, n: own_label(r, (gives or "") + numbered_label(c, n))),
    (
        r"rank (\d+) (gives )?(\S+) (\d+)>(\d+) #(\d+)",
        lambda r, gives, *transfer: own_label(r, (gives or "") + of_a_transfer(*transfer)),
    ),
    (DRAWN, draw_word),
]


def is_label(word: str) -> bool:
    """Whether a function of `FORMS` writes this label, given its parts."""
    for form, write in FORMS:
        parts = re.fullmatch(form, word)
        if parts is not None and write(*parts.groups()) == word:
            return form != DRAWN or is_label(parts[1])
    return False


def words(subject: Subject, runs: int = 3) -> set[str]:
    found: set[str] = set()
    walk = RandomWalk()
    for _ in range(runs):
        walk.begin()
        subject.run(walk)
        found |= {*walk.schedule}
    return found


@pytest.mark.parametrize("name", CASES)
def test_all_labels_of_all_worlds_are_valid(name: str) -> None:
    case = CASES[name]
    found = words(Subject(case.world, case.program, case.args, ("RACE",), name))
    assert [word for word in found if not is_label(word)] == []


@pytest.mark.parametrize("word", ["", "rank 1", "rank x poll[0]", "kill 3", "dp_cpu 0-1 #2", "dp #", "rank 1 poll[]"])
def test_a_word_that_is_no_label_is_refused(word: str) -> None:
    assert not is_label(word)
