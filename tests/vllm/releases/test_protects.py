"""Tests the table of protections that no release of vLLM has: its forms exist, and runs with and without a protection
differ.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.finding import matches
from dpsim.cli.list_text import as_text, backends, protocols
from dpsim.contract import registry
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from dpsim.vllm.releases.protects import (
    KEPT,
    PROTECTIONS,
    Protection,
    protects_of,
    says_unprotected,
    unprotected_of,
)


def unknown(rows: tuple[Protection, ...]) -> list[tuple[str, str]]:
    """Returns the forms that a row names but its program lacks."""
    return [
        (row.program, form)
        for row in rows
        for form in (*row.protects, *row.leaves)
        if form not in registry.protocol(row.program).forms
    ]


def test_each_form_of_the_table_exists_and_is_on_one_side() -> None:
    assert unknown(PROTECTIONS) == []
    assert not [row for row in PROTECTIONS if set(row.protects) & set(row.leaves)]
    assert unknown((PROTECTIONS[0]._replace(leaves=("0.34",)),)) == [("dbo", "0.34")]


def test_programs_and_the_list_show_the_table() -> None:
    for row in PROTECTIONS:
        program = registry.protocol(row.program).program
        assert (program.protects, program.unprotected) == (protects_of(row.program), unprotected_of(row.program))
    shown = as_text({"scenarios": [], "protocols": protocols(), "variants": [], "backends": backends()})
    for row in PROTECTIONS:
        assert row.what in shown
        assert row.harm in shown
    assert all(row.why for row in KEPT)


def test_programs_say_what_their_forms_leave_unprotected() -> None:
    """A program's docstring lists the harm that its forms leave unprotected.

    The decorator adds the list from the table.
    """
    rows = [row for row in PROTECTIONS if row.harm]
    for row in rows:
        said = registry.protocol(row.program).program.__doc__ or ""
        assert all(f"    {form}: {row.harm}" in said for form in row.leaves)
        assert said.count("Left unprotected, by form:") == 1

    class Bare(registry.protocol("dbo").program):  # type: ignore[misc]
        """A program."""

    assert rows[0].harm not in (Bare.__doc__ or "")
    assert rows[0].harm in (says_unprotected(Bare).__doc__ or "")


def test_each_harm_names_the_classes_in_which_it_shows() -> None:
    """Each row with a harm names classes of findings that reveal it, including the class of its exhibit.

    No row may name a class of races between threads, of deaths or of leftovers.
    """
    rows = [row for row in PROTECTIONS if row.harm]
    assert all(row.shows for row in rows)
    for klass in ("RACE:THREADS", "DEATH:RANK", "LEFTOVER:MESSAGE"):
        assert not [row for row in rows if any(matches(klass, pattern) for pattern in row.shows)]
    for name in ("M-UB-13", "v2-eager-in-graph", "M-BT-12"):
        variant = registry.variant(name)
        shows = [row.shows for row in rows if row.program == variant.protocol]
        assert any(matches(variant.expected or "", pattern) for one in shows for pattern in one), name


DRAFTS: dict[str, Any] = {"max_num_seqs": 1, "num_speculative_tokens": 1, "cudagraph_mode": "NONE"}


def classes(form: str, **config: Any) -> list[str]:
    """Returns the classes of the findings on one request that decodes with a draft on two stages."""
    document = {
        "name": "drafts",
        "protocol": {"name": "pp_tokens", "form": form},
        "topology": {"pipeline_parallel_size": 2},
        "config": DRAFTS | config,
        "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 4}]},
    }
    return [finding.klass for finding in run_scenario(scenario_from(document)).findings]


@pytest.mark.parametrize("form", ["0.33", "0.33-repaired"])
def test_drafts_are_paced_by_the_repaired_form_alone(form: str) -> None:
    """Without asynchronous scheduling only the repaired form runs a request with drafts correctly (vllm issue 52071).

    With asynchronous scheduling both forms do.
    """
    assert classes(form, async_scheduling=True) == []
    assert classes(form, num_speculative_tokens=0) == []
    assert (classes(form) == []) == (form == "0.33-repaired")


@pytest.mark.parametrize("form", ["0.24", "page-002"])
def test_the_page_has_its_own_width(form: str) -> None:
    assert classes(form, async_scheduling=True)[0] == "MISMATCH:COLLECTIVE:COUNT"
    assert classes(form, num_speculative_tokens=0) == []
    assert classes("source-002", async_scheduling=True) == []
