"""Pytest report: the part of a night that pytest ran, such as fuzzers. It reads the file of `pytest --junitxml`.

<testcase classname="tests.test_a" name="test_b[3]" time="1.5"><failure message="..."/></testcase>
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from dpsim.campaign.nights.rows import Found, NightRefused, NightRow

BROKEN = ("failure", "error")
LONGEST = 500


def rows_of_tests(file: Path) -> Iterator[NightRow]:
    """Yields a row for each test. Raises OSError, and NightRefused for a file that pytest did not write."""
    try:
        cases = [*ElementTree.parse(file).getroot().iter("testcase")]
        seconds = [float(case.get("time", "0")) for case in cases]
    except (ElementTree.ParseError, ValueError) as error:
        raise NightRefused(f"{file}: no report of tests ({error}); expected the file of pytest --junitxml") from None
    for case, took in zip(cases, seconds, strict=True):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        broken = [part for part in case if part.tag in BROKEN]
        skipped = next((part.get("message", "") for part in case if part.tag == "skipped"), None)
        says = [(part.get("message", "") or "").partition("\n")[0][:LONGEST] for part in broken]
        yield NightRow(
            part="tests",
            name=name,
            verdict="failed" if broken else "passed" if skipped is None else "skipped",
            seconds=max(took, 0.0),
            failures=tuple(Found(what=part.tag, message=text) for part, text in zip(broken, says, strict=True)),
            left_out=skipped or "",
        )
