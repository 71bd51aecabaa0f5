"""Tests `own_order.outline`: two ranks with the same outline have the same answer of `in_order`, whatever else their
journals contain.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from dpsim.checks.memory import own_order
from dpsim.checks.memory.own_order import all_in_order, in_order, outline
from dpsim.contract.ops import COMMUNICATOR, KIND, STEP, WHERE, RawRecord
from tests.checks.painted import painted
from tests.checks.twins import TWINS
from tests.properties import slow_but

PROGRAMS = range(300)


def journals() -> list[list[RawRecord]]:
    """Returns journals of healthy and faulty twins, and of random programs."""
    made = [twin.made(wrong=wrong) for twin in TWINS.values() for wrong in (False, True)]
    made += [one for one in map(painted, PROGRAMS) if one is not None]
    return [journal for one in made for journal in one.run().journals if journal]


def with_a_field_changed(rng: random.Random, journal: list[RawRecord], kind: str = "") -> list[RawRecord]:
    """Replaces one field of a record, of kind `kind` if given, by that of another record of its kind, or drops the
    record.
    """
    at = rng.choice([at for at, raw in enumerate(journal) if kind in ("", raw[KIND])])
    if rng.random() < 0.1:
        return journal[:at] + journal[at + 1 :]
    other = rng.choice([raw for raw in journal if raw[KIND] == journal[at][KIND]])
    field = rng.randrange(STEP, len(other))
    return [*journal[:at], (*journal[at][:field], other[field], *journal[at][field + 1 :]), *journal[at + 1 :]]


def answer(journal: list[RawRecord]) -> Any:
    try:
        return in_order(journal)
    except (KeyError, IndexError, ValueError) as error:  # no backend writes this journal
        return type(error)


def disagreeing(kind: str = "") -> int:
    """Returns how many changed journals keep their outline but change their answer."""
    rng, wrong = random.Random(7), 0
    for journal in journals():
        if not any(kind in ("", raw[KIND]) for raw in journal):
            continue
        before, shape = answer(journal), outline(journal)
        for _ in range(10):
            changed = with_a_field_changed(rng, journal, kind)
            wrong += outline(changed) == shape and answer(changed) != before
    return wrong


def test_the_same_outline_is_the_same_answer() -> None:
    assert disagreeing() == 0


@pytest.mark.parametrize(
    "kind", slow_but(["launch", "wait", "mark", "read", "alloc", "free"], ("wait", "free").__contains__)
)
def test_an_outline_without_a_kind_is_not_enough(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(own_order.OUTLINED, kind, lambda raw: raw[KIND])
    assert disagreeing(kind) > 0


def test_names_steps_and_places_do_not_change_an_outline() -> None:
    for journal in journals():
        renamed = [
            tuple(
                f"{field}'"
                if (at == COMMUNICATOR and raw[KIND] in ("collective", "transfer")) or at == WHERE
                else field
                for at, field in enumerate(raw)
            )
            for raw in journal
        ]
        assert outline(renamed) == outline(journal)


def test_a_record_of_another_kind_counts_as_a_whole() -> None:
    one, other = [("kept", 1, "main", "a", 0, "")], [("kept", 2, "main", "a", 0, "")]
    assert outline(one) != outline(other)


def test_long_journals_of_ranks_that_do_the_same_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[list[RawRecord]] = []
    monkeypatch.setattr(own_order, "LONG", 1)

    def look(journal: list[RawRecord]) -> bool:
        looked.append(journal)
        return True

    monkeypatch.setattr(own_order, "in_order", look)
    ((mine, *_), *_) = (one.run().journals for one in map(painted, PROGRAMS) if one is not None)
    later = [(raw[KIND], raw[STEP] + 1, *raw[STEP + 1 :]) for raw in mine]
    less = mine[:-1] if mine[-1][KIND] not in own_order.BESIDE else mine[: len(mine) // 2]
    assert all_in_order([mine, later, less, later])
    assert looked == [mine, less]


def test_a_faulty_rank_among_many_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_order, "LONG", 1)
    healthy, faulty = (TWINS["reads after writes"].made(wrong=wrong).run().journals for wrong in (False, True))
    assert all_in_order([*healthy, *healthy])
    assert not all_in_order([*healthy, *faulty])
    assert not all_in_order([*faulty, *healthy])
