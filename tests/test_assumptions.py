"""Tests that docs/assumptions.md equals the table of assumptions, and that it names each existing option of a world and
no other.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import get_args

from dpsim.campaign.assumptions.table import document
from dpsim.contract.world import Kill, World
from dpsim.scenario import KillSpec, Limits
from dpsim.scenario.faults import AnyFault
from tests import ROOT

TEXT = (ROOT / "docs" / "assumptions.md").read_text()
WORLD = {field.name for field in fields(World)} - {"size", "communicators", "own_settings", "times", "pauses"}
KINDS = {get_args(kind.model_fields["kind"].annotation)[0] for kind in get_args(get_args(AnyFault)[0])}
ROWS = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| ")]


def named(what: str) -> set[str]:
    """Returns the names that follow `what.` in the document."""
    return set(re.findall(rf"`{what}\.(\w+)`", TEXT))


def test_every_option_of_a_world_is_named_and_no_other() -> None:
    assert named("World") == WORLD
    assert named("Kill") == {*Kill._fields}
    assert named("limits") == {*Limits.model_fields}


def test_every_kind_of_fault_is_named_and_no_other() -> None:
    lists = re.findall(r"of the kinds? ((?:`\w+`(?:, )?)+)", TEXT)
    assert {kind for words in lists for kind in re.findall(r"\w+", words)} == KINDS


def test_every_key_of_a_kill_is_named() -> None:
    assert {key for key in KillSpec.model_fields if f"`{key}`" in TEXT or f"`{key}: true`" in TEXT} >= {
        "at",
        "time",
        "partial",
        "loses_mail",
    }


def test_the_document_is_that_of_the_table() -> None:
    """Compares the document with the output of `python -m dpsim.campaign.assumptions`, which writes it."""
    assert document() == TEXT


def test_each_row_says_what_the_simulation_does() -> None:
    header = "hardware may"
    rows = [row for row in ROWS if row[0].strip() != header]
    assert len(rows) > 25
    for what, does, how, _ in rows:
        word = re.split(r"[^a-z]", does.strip())[0]
        assert word in ("always", "option", "no", "each"), what
        assert word != "option" or how.strip(), f"how to ask for it: {what}"
