"""Tests what docs/programs/batch-variants.md states about the table of an agreement, and about small sets."""

from __future__ import annotations

import re

import pytest

from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, Release014, Source000
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2, PaddingV2017
from dpsim.vllm.params.small import count, scope
from tests import ROOT

PAGE = (ROOT / "docs" / "programs" / "batch-variants.md").read_text()
LOCAL = LocalBatch(7, 8, True, False, RuntimeMode.FULL)
WORDS = {"tokens": 7, "tokens of the rank's own graph": 8, "whether it wants padding": 0, "graph mode": 2}


def rows_of(form: str, page: str = PAGE) -> list[str]:
    """Returns the cells that a page lists for a form in its table of rows."""
    table = page.partition("| form | rows, from row 0 |")[2].partition("\n\n")[0]
    [cells] = [line.split(" | ")[1] for line in table.splitlines() if f"`{form}`" in line]
    return cells.removesuffix(" |").split("; ")


@pytest.mark.parametrize(
    ("form", "rows"),
    [
        ("source-000", Source000.rows),
        ("0.14", Release014.rows),
        ("v2-0.33", AgreementV2.rows),
        ("v2-0.17", PaddingV2017.rows),
    ],
)
def test_the_page_lists_each_row_of_a_form(form: str, rows: int) -> None:
    assert len(rows_of(form)) == rows
    assert len(rows_of(form, PAGE.replace("tokens; ", ""))) < rows  # a page without a row is found


@pytest.mark.parametrize(("form", "rules"), [("source-000", Source000()), ("0.14", Release014())])
def test_the_rows_have_the_order_of_the_wire(form: str, rules: Source000 | Release014) -> None:
    named = [WORDS.get(row, 1) for row in rows_of(form)]
    assert tuple(named) == rules.column(LOCAL)


def test_the_page_counts_the_worlds_of_its_sizes() -> None:
    """The page advises more requests than ranks, and names the number of worlds of two such sets."""
    found = re.findall(r"`(ranks=\d,requests=\d,steps=1)` allow ([\d,]+)", " ".join(PAGE.split()))
    assert len(found) == 2
    assert [f"{count(scope(sizes)):,}" for sizes, _ in found] == [worlds.rstrip(",") for _, worlds in found]
    assert all(scope(sizes).requests > (scope(sizes).ranks or 0) for sizes, _ in found)
