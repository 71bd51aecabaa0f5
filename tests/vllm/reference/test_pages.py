"""Tests that the generated pages are up to date, and contain each class, command and exit code once."""

from __future__ import annotations

import re

import pytest

from dpsim.checks.finding import CLASSES
from dpsim.cli.exit_codes import CODES
from dpsim.diagnose.class_cures import CURES, class_cure
from dpsim.scenario.schema import schema
from tests import ROOT
from tests.house.words import findings
from tests.vllm.reference import commands, scenario_keys
from tests.vllm.reference.pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_fresh_and_plain(name: str) -> None:
    text = (ROOT / name).read_text()
    assert PAGES[name]() == text, "write it anew: python -m tests.vllm.reference"
    assert [str(one) for one in findings(name, text)] == []


def test_each_class_has_its_cure() -> None:
    assert list(CURES) == list(CLASSES)
    assert class_cure("CRASH:KEYERROR") == CURES["CRASH:<EXCEPTION>"]
    assert class_cure("DISAGREEMENT:MODE") == CURES["DISAGREEMENT:<LABEL>"]
    assert class_cure("STRANGE") == ""


def test_each_code_of_the_help_is_in_the_table() -> None:
    """Each code in the epilog of `dpsim --help` is in the table of exit codes."""
    from dpsim.cli.app import app

    named = {int(code) for code in re.findall(r"\b\d+\b", str(app.info.epilog))}
    assert named - {128} <= set(CODES)


def test_a_new_option_makes_the_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: an option whose help changes makes the page differ from the file."""
    option = next(one for one in commands.get_command(commands.app).commands["run"].params if one.name == "trace")  # type: ignore[attr-defined]
    assert "| `--trace` | `FILE` |" in commands.page()
    monkeypatch.setattr(commands, "row", lambda one: ("", "", "") if one.name == option.name else ("x", "", ""))
    assert commands.page() != (ROOT / "docs" / "commands.md").read_text()


def test_a_key_without_words_is_found() -> None:
    """Each row of the page of keys has a meaning. The faulty twin is a schema without a description."""

    def silent(text: str) -> list[str]:
        return re.findall(r"^\| \**`([^`]+)`.*\|  \|$", text, re.MULTILINE)

    assert silent(scenario_keys.page()) == []
    found = schema()
    del found["properties"]["name"]["description"]
    assert silent(scenario_keys.keys(found, found["definitions"])) == ["name"]
