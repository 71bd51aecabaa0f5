"""Tests which answers are equal, which are a named departure and which differ, and which rows are no question."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim_engine.comparison import Comparison, Ours, Row, UnreadableRow, compare

ROWS: list[Row] = [
    {"version": "1.0.0", "batch": 0, "number": 1, "answer": {"sum": 2, "parts": [{"own": 1}]}},
    {"version": "1.0.0", "batch": 1, "number": 2, "answer": {"sum": 3, "parts": [{"own": 2}]}},
    {"version": "1.0.0", "batch": 2, "number": 0, "answer": {"raises": "ValueError", "message": "zero"}},
]


def once(number: int) -> int:
    return number


def twice(number: int) -> int:
    return 2 * number


def answered(row: Row, own: Callable[[int], int]) -> Row:
    if not row["number"]:
        raise ValueError("in other words")
    return {"sum": row["number"] + 1, "parts": [{"own": own(row["number"])}]}


KIND: Comparison[Callable[[int], int]] = Comparison(
    "sums", "sums", "vllm.sums", (Ours("1.0.0", once), Ours("2.0.0", twice)), answered, lambda row: row["answer"]
)


def test_equal_answers_and_equal_refusals_are_counted() -> None:
    """Two refusals are equal if they raise the same class, even with different messages."""
    found = compare(KIND, Ours("1.0.0", once), ROWS)
    assert (found.rows, found.equal, found.departed, found.differing, found.first) == (3, 3, 0, 0, None)


def test_a_named_departure_is_counted_apart() -> None:
    """A departure excuses a difference in the field that it names. The result lists only departures that occur."""
    ours = Ours("1.0.0", twice, departures={"own": "twice as much", "sum": "never"})
    found = compare(KIND, ours, ROWS)
    assert (found.equal, found.departed, found.differing) == (1, 2, 0)
    assert found.reasons == {"own": "twice as much"}


def test_a_departure_excuses_no_other_field() -> None:
    found = compare(KIND, Ours("1.0.0", twice, departures={"sum": "another field"}), ROWS)
    assert (found.equal, found.departed, found.differing) == (1, 0, 2)
    assert found.first is not None
    assert (found.first.row, found.first.fields) == ("batch 0", ("own",))
    assert found.first.question == {"version": "1.0.0", "batch": 0, "number": 1}
    assert (found.first.engine, found.first.dpsim) == (ROWS[0]["answer"], {"sum": 2, "parts": [{"own": 2}]})


def test_a_refusal_is_another_answer() -> None:
    rows = [{**ROWS[0], "number": 0}, {**ROWS[2], "answer": {"raises": "AssertionError", "message": "zero"}}]
    assert compare(KIND, Ours("1.0.0", once), rows).differing == 2


def test_an_answer_that_has_other_fields() -> None:
    rows = [{**ROWS[0], "answer": {"sum": 2}}]
    found = compare(KIND, Ours("1.0.0", once, departures={"own": "excused", "parts": "excused"}), rows)
    assert found.first is not None
    assert found.first.fields == ("answer",)


def test_a_row_that_is_no_question_is_refused() -> None:
    with pytest.raises(UnreadableRow, match=r"sums: batch 7 is no question of the kind sums \(.*KeyError: .*number"):
        compare(KIND, Ours("1.0.0", once), [{"version": "1.0.0", "batch": 7, "answer": {}}])


@pytest.mark.parametrize(
    ("release", "last", "expected"),
    [
        ("1.0.0", "", once),
        ("1.9.0", "", once),
        ("2.0.3", "", twice),
        ("3.1", "", twice),
        ("0.9", "", None),
        ("3.1", "2.0", None),
    ],
)
def test_the_newest_older_function_answers_for_a_release(
    release: str, last: str, expected: Callable[[int], int] | None
) -> None:
    """The newest function that is not newer than the release answers for it.

    No function answers for a release before the first one, or after the `last` one that has the function.
    """
    kind = Comparison(KIND.name, KIND.file, KIND.asks, KIND.ours, answered, KIND.expected, last=last)
    assert [one.answers for one in kind.of_release(release)] == ([expected] if expected else [])
