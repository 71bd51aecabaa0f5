"""Tests that the generated pages are up to date, and contain each class, command and exit code once."""

from __future__ import annotations

import re

import pytest

from dpsim.checks.classes import CLASSES, Class, class_and_detail
from dpsim.cli.exit_codes import CODES
from dpsim.scenario.schema import schema
from tests import ROOT
from tests.house.words import findings
from tests.vllm.reference import commands, finding_classes, scenario_keys
from tests.vllm.reference.pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_fresh_and_plain(name: str) -> None:
    text = (ROOT / name).read_text()
    assert PAGES[name]() == text, "write it anew: python -m tests.vllm.reference"
    assert [str(one) for one in findings(name, text)] == []


@pytest.mark.parametrize("name", ["HANG:STORE:ZZ_NEW", "ZZ_STEP:BACKWARDS"])
def test_a_class_more_is_in_the_page(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A row more of the table of classes is a line of the page, in the section of its family."""
    old = finding_classes.page()
    monkeypatch.setitem(CLASSES, name, Class(name, "what happened", "What to do."))
    page = finding_classes.page()
    klass, detail = class_and_detail(name)
    cells = f"| `{klass}` | {detail and f'`{detail}`'} | what happened | What to do. |"
    assert cells in page.partition(f"\n## {name.partition(':')[0]}\n")[2]
    new = {line for line in page.splitlines() if line not in old.splitlines()}
    assert all(name.partition(":")[0] in line for line in new), new


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
