"""Tests that the text of an event and the event say the same, for all verbs and all parts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.contract import events
from dpsim.contract.events import CALLS, FAILING, KILL, OLD, OPTIONS, VERBS, ScheduleEvent

NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,6}", fullmatch=True).filter(lambda name: name not in VERBS)
COUNTS = st.integers(0, 10**6)
ACTORS = st.one_of(COUNTS.map("rank {}".format), st.builds("rank {}/{}".format, COUNTS, NAMES))
WORDS = st.sampled_from(sorted(VERBS - {CALLS}))

NONE, NO_WORD, ONE = st.none(), st.just(""), st.just(1)


def drawn(actor: Any, verb: Any, site: Any, ordinal: Any = NONE, number: Any = NONE, look: Any = ONE) -> Any:
    return st.tuples(actor, verb, site, ordinal, number, look, st.sampled_from(["", *OPTIONS])).map(ScheduleEvent._make)


CALLED = drawn(ACTORS, NO_WORD, NAMES, COUNTS) | drawn(ACTORS, WORDS, NAMES, COUNTS, NONE, st.sampled_from([1, 2, 11]))
NUMBERED = drawn(ACTORS, WORDS, NAMES | NO_WORD, NONE, COUNTS) | drawn(ACTORS, NO_WORD, NAMES, NONE, COUNTS)
OF_ALL = drawn(NAMES, NO_WORD, st.builds("{}>{}".format, COUNTS, COUNTS) | NO_WORD, NONE, COUNTS)
ONCE = drawn(ACTORS, WORDS, NAMES | NO_WORD)
KILLED = drawn(st.just(KILL), NO_WORD, COUNTS.map("rank {}".format))
EVENTS = CALLED | NUMBERED | OF_ALL | ONCE | KILLED


@given(EVENTS)
def test_an_event_is_read_from_its_text(event: ScheduleEvent) -> None:
    assert ScheduleEvent.read(str(event)) == event


@given(EVENTS)
def test_the_functions_without_an_event_read_the_same(event: ScheduleEvent) -> None:
    label = str(event._replace(option=""))
    assert events.actor(label) == event.actor
    assert events.is_delivery(label) == event.verb.startswith("delivers")
    assert events.failing_rank(label) == (event.rank if label.endswith(f" {FAILING}") else None)


@pytest.mark.parametrize("old", OLD)
def test_an_old_verb_is_read_as_the_present_one(old: str) -> None:
    event = ScheduleEvent.read(f"rank 0/u1 {old} handoff[0]")
    assert event == ScheduleEvent("rank 0/u1", OLD[old], "handoff", 0)


@pytest.mark.parametrize(
    "text", ["", "rank 1", "rank x poll[0]", "kill 3", "dp_cpu 0-1", "dp #", "rank 1 poll[]", "rank 1 hops to box[2]"]
)
def test_a_text_that_is_no_event_is_refused(text: str) -> None:
    assert ScheduleEvent.read(text) is None
