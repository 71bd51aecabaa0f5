"""Tests that docs/keys.md explains each key, such as I-EL-7, that pages, messages and docstrings contain."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.cli.commands import dpsim_
from tests.vllm.reference.keys import KEY, chapters_unknown, files, unexplained

PAGE = (ROOT / "docs" / "keys.md").read_text()


def test_each_key_of_the_tree_has_an_entry() -> None:
    assert len(KEY.findall("\n".join(files().values()))) > 500
    assert list(unexplained(files())) == []


@pytest.mark.parametrize("command", ["list variants", "museum M-EL-7", "run museum/m-dp-1 --full"])
def test_each_key_that_a_command_prints_has_an_entry(command: str) -> None:
    printed = dpsim_(*command.split(), *["--no-results"] * command.startswith("run")).out
    assert KEY.search(printed)
    assert list(unexplained({command: printed})) == []


def test_each_section_that_is_named_as_one_exists() -> None:
    assert {name: found for name, text in files().items() if (found := chapters_unknown(text))} == {}


def test_each_source_page_has_an_entry() -> None:
    assert [number for number in range(5) if f"| `source-00{number}` |" not in PAGE] == []


def test_a_command_explains_a_key() -> None:
    assert "meaning  If an engine that is not paused accepts a request" in dpsim_("show", "I-EL-7").out


def test_an_unknown_key_is_found() -> None:
    """The faulty twins: the test notices an invariant, a mutant, an example and a section that do not exist."""
    text = "I-EL-7, I-EL-99, M-EL-7 and M-EL-98 in A-77, chapter 2.99"
    assert list(unexplained({"page": text})) == ["page: I-EL-99", "page: M-EL-98", "page: A-77"]
    assert (chapters_unknown(text), chapters_unknown("chapter 2.12")) == (["2.99"], [])
