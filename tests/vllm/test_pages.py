"""Tests docs/pages.md, the rules of vLLM's source pages: each rule names a module and a check that exist."""

from __future__ import annotations

import re
from itertools import groupby

import pytest

from dpsim.scenario.locate import ScenarioNotFound, scenario_path
from dpsim.vllm.releases.protects import KEPT
from tests import ROOT

PAGE = ROOT / "docs" / "pages.md"
VERIFIED = {"answers", "proven", "twin", "drawn", "values"}
COLUMNS = 6


def tables(text: str) -> dict[str, list[list[str]]]:
    """Returns the table rows below each heading, each as a list of cells, without the head of the table."""
    found: dict[str, list[list[str]]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
        found[section.partition("\n")[0]] = rows[2:]
    return found


def exists(name: str) -> bool:
    """Returns whether a test file, a scenario or an exhibit of the museum has this name."""
    if name.endswith(".py"):
        return (ROOT / "tests" / "vllm" / name).is_file()
    try:
        return scenario_path(name).is_file()
    except ScenarioNotFound:
        return False


def wrong(text: str) -> list[str]:
    """Returns names in the rows of rules that do not exist, and rows with missing cells."""
    found = []
    for heading, rows in tables(text).items():
        if not heading.startswith("Page "):
            continue
        for row in rows:
            if len(row) != COLUMNS or not all(row):
                found.append(f"{heading}: {row} has not {COLUMNS} cells")
                continue
            section, _, chapter, module, checks, verified = row
            where = f"{heading}, {section}, {chapter}"
            found += [f"{where}: no module {name}" for name in names(module) if not module_exists(name)]
            found += [f"{where}: nothing is called {name}" for name in names(checks) if not exists(name)]
            found += [f"{where}: not checked"] * (not names(module) or not names(checks))
            found += [f"{where}: verified by {word}" for word in verified.split(", ") if word not in VERIFIED]
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def module_exists(name: str) -> bool:
    return (ROOT / "dpsim" / "vllm" / name).is_file()


def test_all_that_the_tables_name_exists() -> None:
    assert wrong(PAGE.read_text()) == []


def test_each_page_has_a_table_and_each_row_left_out_a_reason() -> None:
    found = tables(PAGE.read_text())
    pages = [heading[len("Page ") :][:3] for heading in found if heading.startswith("Page ")]
    assert pages == ["000", "001", "002", "003", "004"]
    assert all(found.values())
    left_out = found["What is left out"]
    assert {row[0] for row in left_out} <= set(pages)
    assert [len(row) for row in left_out] == [3] * len(left_out)
    assert [key for key, _ in groupby(row[0] for row in left_out)] == sorted({row[0] for row in left_out})


def test_the_places_that_are_kept_are_those_of_the_table() -> None:
    rows = tables(PAGE.read_text())["Where a form protects and no release does"]
    assert rows == [[one.forms, one.what, one.why] for one in KEPT]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("`overlap/baton.py`", "`overlap/batons.py`", "no module overlap/batons.py"),
        ("`museum/m-bt-6`", "`museum/m-bt-66`", "nothing is called museum/m-bt-66"),
        ("`graphs/test_sizes.py`", "`graphs/test_size.py`", "nothing is called graphs/test_size.py"),
        ("| answers, twin |", "| looked at |", "verified by looked at"),
        (" | 4.2, 4.12 |", " |", "has not 6 cells"),
    ],
)
def test_each_wrong_entry_of_the_page_is_found(before: str, after: str, said: str) -> None:
    text = PAGE.read_text()
    assert before in text
    assert any(said in one for one in wrong(text.replace(before, after, 1)))
