"""docs/assumptions.md names each option of a world and each assumption of a verdict, and its keys exist."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import get_args

import pytest

from dpsim.campaign.explored import assumed
from dpsim.contract.world import Kill, World
from dpsim.scenario import KillSpec, Limits
from dpsim.scenario.faults import Alter, Die, Hang, Raise, Repeat, Skip
from tests import ROOT

TEXT = (ROOT / "docs" / "assumptions.md").read_text()
WORLD = {field.name for field in fields(World)} - {"size", "communicators"}
KINDS = {
    get_args(kind.model_fields["kind"].annotation)[0] for kind in (Skip, Repeat, Alter, Die, Raise, Hang, KillSpec)
}
ROWS = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| ")]


def named(what: str) -> set[str]:
    """The names that follow `what.` in the document."""
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


@pytest.mark.parametrize("world", [World(3, ()), World(3, (), kills=(Kill(1),))])
def test_every_assumption_of_a_verdict_is_named(world: World) -> None:
    said = [what.replace("only rank 1 dies", "only the named ranks die") for what in assumed(world, True, True)]
    assert [what for what in said if what not in TEXT] == []


def test_each_row_says_what_the_simulation_does() -> None:
    header = "hardware may"
    rows = [row for row in ROWS if row[0].strip() != header]
    assert len(rows) > 25
    for what, does, how in rows:
        word = re.split(r"[^a-z]", does.strip())[0]
        assert word in ("always", "option", "no", "each"), what
        assert word != "option" or how.strip(), f"how to ask for it: {what}"
