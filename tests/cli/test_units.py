"""Tests that each number in the output has a unit or a noun: a count of omitted entries is followed by a noun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.diagnose.fitting import joined
from tests import ROOT

ROOMS = ("cli", "campaign", "diagnose")
BARE = re.compile(r"""\}\s+more(?:\)?["'])""")


def bare(text: str) -> list[str]:
    """Returns the source lines that print a count and "more" without a noun."""
    return [line.strip() for line in text.splitlines() if BARE.search(line)]


@pytest.mark.parametrize("room", ROOMS)
def test_a_count_of_omitted_things_has_a_noun(room: str) -> None:
    found = {str(file): bare(file.read_text()) for file in Path(ROOT, "dpsim", room).rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_count_without_a_noun_is_found() -> None:
    assert bare('lines += [f"and {left} more"]\n')
    assert bare("said = f' (and {left} more)'\n")
    assert not bare('f"as {left} more of it"\n')


def test_parts_of_a_line() -> None:
    parts = [f"rank {number} waits for rank {number + 1} in the step of an agreement" for number in range(9)]
    assert joined(parts, 2, "chain")[-1].endswith("; and 6 more chains")
    assert joined(["a" * 90, "b" * 90, "c" * 90], 2)[-1].endswith("; and 1 more part")
