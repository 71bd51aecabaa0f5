"""Checks the pages of docs/design. Each package needs a page, each decision needs a reason, and no page may name a
missing file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.house.tree import MODULES, ROOMS
from tests.house.words import findings

INDEX = ROOT / "docs" / "design.md"
PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))

LABELS = ("Decision", "Because", "Rejected", "Known limits")
"""The parts of a topic, in this order. The first two are required."""

NO_ROOM = {"__init__", "__main__", "mark", "version"}
"""Modules without design decisions."""


def rooms_of(index: str) -> dict[str, list[str]]:
    """Returns the pages of each package, from the table of the index."""
    rows = [line.split("|") for line in index.splitlines() if line.startswith("| `")]
    return {
        room: re.findall(r"\]\(design/([\w-]+\.md)\)", row[3])
        for row in rows
        for room in re.findall(r"`(\w+)`", row[1])
    }


def unlike(page: str) -> Iterator[str]:
    """Yields the topics of a page whose parts are missing or in another order."""
    for topic in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^\*\*([\w ]+)\.\*\*", topic, re.MULTILINE)
        if found[:2] != ["Decision", "Because"] or found != [label for label in LABELS if label in found]:
            yield topic.partition("\n")[0]


def gone(page: str, root: Path) -> list[str]:
    """Returns the paths of the page that do not exist in the tree."""
    paths = re.findall(r"`((?:dpsim|tests|real|benchmarks)/[\w/.-]+)`", page)
    return [path for path in paths if not (root / path).exists()]


def test_each_room_has_a_page() -> None:
    table = rooms_of(INDEX.read_text())
    assert set(table) == ({*ROOMS, *MODULES} - NO_ROOM) | {"real"}
    linked = {name for pages in table.values() for name in pages}
    assert linked | {"house.md", "speed.md"} == {page.name for page in PAGES}
    assert INDEX.read_text().count("\n") <= 45, "the index has one screen"


def test_each_decision_has_its_reason() -> None:
    assert {page.name: [*unlike(page.read_text())] for page in PAGES if [*unlike(page.read_text())]} == {}
    assert sum(page.read_text().count("\n## ") for page in PAGES) > 150


def test_no_page_names_a_file_that_is_gone() -> None:
    assert {page.name: gone(page.read_text(), ROOT) for page in PAGES if gone(page.read_text(), ROOT)} == {}


def test_the_pages_are_plain() -> None:
    assert [str(one) for page in PAGES for one in findings(page.name, page.read_text())] == []


def test_each_fault_of_a_design_page_is_found() -> None:
    """The checks find a topic without a reason, parts in another order, and a missing file."""
    healthy = "# Design\n\n## One\n\n**Decision.** A `dpsim/cli` holds.\n\n**Because.** It does.\n"
    assert (list(unlike(healthy)), gone(healthy, ROOT)) == ([], [])
    assert list(unlike(healthy.replace("**Because.**", "Because"))) == ["One"]
    assert list(unlike(healthy.replace("**Because.**", "**Known limits.** None.\n\n**Because.**"))) == ["One"]
    assert gone(healthy.replace("dpsim/cli", "dpsim/gone.py"), ROOT) == ["dpsim/gone.py"]
