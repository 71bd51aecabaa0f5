"""Tests that a night's file gives back all rows that were written into it, with any text and number."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsim.campaign.nights.rows import Found, NightRow, append, nights
from tests.every_value import KNOWN, every

NIGHT = "2026-11-27"
COUNTS = st.integers(0, 2**70)
ROWS = every(
    NightRow,
    KNOWN | {int: COUNTS},
    schema_version=st.just(1),
    seconds=st.floats(0, allow_nan=False, allow_infinity=False),
)


@settings(max_examples=25)
@given(st.lists(ROWS, max_size=3))
@example([NightRow(part="tests", name="half \ud800", failures=(Found(what="x", message="\udcff.py"),))])
def test_a_night_is_read_as_it_was_written(rows: list[NightRow]) -> None:
    with TemporaryDirectory() as folder:
        for row in rows:
            append(Path(folder) / f"{NIGHT}.jsonl", row)
        assert (nights(Path(folder)) if rows else {NIGHT: []}) == {NIGHT: rows}
