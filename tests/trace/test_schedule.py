"""Tests of the schedule in a trace: writing, reading, and that the reader rejects a changed one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.trace import Schedule

WORDS = st.lists(st.text(max_size=6), max_size=6)


def line(schedule: Schedule) -> bytes:
    return json.dumps({"section": "schedule", "schedule": schedule.content()}).encode()


@given(st.text(max_size=5), WORDS)
def test_a_schedule_is_read_as_it_was_written(strategy: str, steps: list[str]) -> None:
    schedule = Schedule(strategy, tuple(steps))
    assert Schedule.parse(line(schedule)) == schedule


@given(WORDS, WORDS)
def test_other_steps_have_another_digest(one: list[str], other: list[str]) -> None:
    digests = Schedule("", tuple(one)).digest, Schedule("", tuple(other)).digest
    assert (digests[0] == digests[1]) == (one == other)


def test_where_a_word_ends_is_part_of_the_digest() -> None:
    """The twin: two lists of steps that are equal when they are joined by line breaks have different digests."""
    assert Schedule("", ("a\nb",)).digest != Schedule("", ("a", "b")).digest


def test_a_digest_stays() -> None:
    """Checks that a digest never changes, so that later versions read today's traces."""
    schedule = Schedule("dpor", ("rank 0 poll[0]", "rank 1 delivers wake[0]"))
    assert schedule.digest[:16] == Schedule("other", schedule.steps).digest[:16] == "b9acfbdf1a00a61d"


def changed(**more: object) -> bytes:
    content = Schedule("dpor", ("a", "b")).content()
    return json.dumps({"section": "schedule", "schedule": content | more}).encode()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[]",
        b"{}",
        b'{"section": "schedule"}',
        b'{"section": "schedule", "schedule": []}',
        line(Schedule("dpor", ("a",)))[:-3],
        changed(steps="ab"),
        changed(steps=["a", 1]),
        changed(strategy=None),
        changed(more=1),
        b"[" * 100_000,
    ],
    ids=range(11),
)
def test_a_schedule_in_another_form_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match="has a form that dpsim does not write, or was cut off"):
        Schedule.parse(broken)


@pytest.mark.parametrize("more", [{"steps": ["a"]}, {"steps": ["b", "a"]}, {"digest": "0" * 64}, {"digest": None}])
def test_a_schedule_that_was_changed(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"the schedule was changed after it was written: its SHA-256 is [0-9a-f]{16}"):
        Schedule.parse(changed(**more))
