"""Tests of durations: exact parsing and writing, and a message that explains how to write one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.scenario.duration import MAX_NS, UNITS, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0ms", 0),
        ("1ns", 1),
        ("750us", 750_000),
        ("1.5ms", 1_500_000),
        ("20ms", 20_000_000),
        ("20 ms", 20_000_000),
        ("3s", 3_000_000_000),
        ("0.000000001s", 1),
        ("2m", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("007ms", 7_000_000),
    ],
)
def test_parse_duration_reads_each_unit(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (20, "add a unit, e.g. 20ms"),
        (1.5, "add a unit"),
        (0, "add a unit"),
        ("20", "add a unit"),
        ("1e3", "add a unit"),
        (True, "expected a duration"),
        (None, "expected a duration"),
        (["1ms"], "expected a duration"),
        ("", "not a duration"),
        ("ms", "not a duration"),
        ("1ms 2us", "not a duration"),
        ("1,5ms", "not a duration"),
        ("-1ms", "negative"),
        ("1.5ns", "whole number of nanoseconds"),
        ("0.0000000001s", "whole number of nanoseconds"),
        ("1 d", "unknown unit 'd'"),
        ("1MS", "did you mean 1ms?"),
        ("1µs", "did you mean 1us?"),
        ("99999h", "too long"),
        ("9" * 5000 + "s", "not a duration"),
        ("\u0661ms", "not a duration"),
    ],
)
def test_parse_duration_refuses_other_values(value: object, says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is checked
        parse_duration(value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (100_000_000, "100ms"),
        (90_000_000_000, "90s"),
        (60_000_000_000, "1m"),
        (1_001_000, "1001us"),
    ],
)
def test_a_duration_is_written_in_its_shortest_form(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@given(
    st.integers(0, MAX_NS) | st.integers(0, 1000).flatmap(lambda n: st.sampled_from([n * u for u in UNITS.values()]))
)
def test_a_written_duration_is_read_exactly(nanoseconds: int) -> None:
    text = format_duration(nanoseconds)
    assert parse_duration(text) == nanoseconds
    whole = [f"{nanoseconds // size}{unit}" for unit, size in UNITS.items() if nanoseconds % size == 0]
    assert len(text) <= min(map(len, whole))


@given(st.text(max_size=12) | st.from_regex(r"\A[0-9.]{1,6} ?[nums]{0,2}\Z"))
def test_any_text_is_a_duration_or_a_message(text: str) -> None:
    try:
        nanoseconds = parse_duration(text)
    except ValueError:
        return
    assert 0 <= nanoseconds <= MAX_NS
