"""Tests the order of a run: which steps race, compared with the definition, and the description of a class in words."""

import random

import pytest

from dpsim.campaign.units import in_words
from dpsim.contract.schedule import conflict
from dpsim.explore.order import Labels, Order, Step


def by_definition(order: Order, footprint: tuple[tuple[str, str], ...], edges: int) -> list[Step]:
    """Returns the earlier steps that race with a new one. It checks the definition directly: each pair of steps against
    each third step.
    """
    pairs = [
        (one, mode, was)
        for resource, mode in footprint
        for one, was in order._touched.get(resource, ())
        if conflict(mode, was) and not edges & one.bit
    ]
    found = [one for one, *_ in pairs]
    acquires = {one.label for one, mode, was in pairs if mode == was == "a"}
    releases = {one.label for one, mode, was in pairs if (mode, was) == ("a", "l")}

    def between(one: Step) -> bool:
        return any(
            other is not one and other.causes & one.bit and not (one.label in acquires and other.label in releases)
            for other in found
        )

    return [one for one in dict.fromkeys(found) if not between(one)]


def drawn(seed: int, labels: Labels) -> Order:
    """Makes a random order of twelve steps: three actors on two resources, where each step follows the last step of its
    actor. It checks the races of each step against the definition.
    """
    chosen, order, last = random.Random(seed), Order(labels), [0, 0, 0]
    for number in range(12):
        who = chosen.randrange(3)
        footprint = tuple((name, chosen.choice("rwal")) for name in chosen.sample("xy", chosen.randint(1, 2)))
        expected = by_definition(order, footprint, last[who])
        step = order.add(f"rank {who} op[{number}]", footprint, last[who])
        assert step.races == expected
        last[who] = step.causes
    return order


@pytest.mark.parametrize("seed", range(300))
def test_races_are_those_of_the_definition(seed: int) -> None:
    drawn(seed, Labels())


def test_two_classes_have_the_same_words_only_if_they_are_one() -> None:
    labels = Labels()
    keys = {drawn(seed, labels).class_key() for seed in range(300)}
    assert len({in_words(key, labels) for key in keys}) == len(keys) > 290


def test_the_words_do_not_depend_on_what_another_process_saw_first() -> None:
    here, there = Labels(), Labels()
    drawn(7, there)
    keys = [drawn(3, labels).class_key() for labels in (here, there)]
    assert keys[0] != keys[1]
    assert in_words(keys[0], here) == in_words(keys[1], there)


def test_a_long_poll_has_words_in_no_time() -> None:
    """A write follows two thousand polls, each of which is one of its causes. A description that compared all pairs
    would take seconds.
    """
    labels = Labels()
    order, last = Order(labels), 0
    for number in range(2_000):
        last = order.add(f"rank 0 asks at poll[{number}]", (("key", "r"),), last).causes
    step = order.add("rank 1 sets publish[0]", (("key", "w"),), 0)
    assert [one.label for one in step.races] == ["rank 0 asks at poll[1999]"]
    assert len(in_words(order.class_key(), labels)) == 12
