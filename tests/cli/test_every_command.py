"""Tests rules that each command follows, also those of other packages. The list of commands comes from the app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from typer.main import get_command

from dpsim.cli.app import app
from dpsim.cli.exit_codes import FIRST
from tests.cli.commands import dpsim_


def every(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the words of each command, and the command."""
    for name, command in group.commands.items():
        words = (*before, name)
        yield words, command
        yield from every(command, words) if hasattr(command, "commands") else ()


COMMANDS = dict(every(get_command(app)))
WITH_JSON = [words for words, command in COMMANDS.items() if any("--json" in one.opts for one in command.params)]


def exit_codes(text: str) -> str:
    """Returns the sentence about exit codes in a help text."""
    return " ".join(text.split()).partition("Exit codes: ")[2]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_all_exit_codes(words: tuple[str, ...]) -> None:
    told = exit_codes(dpsim_(*words, "--help").out)
    first = FIRST.get(words[-1], "0 ")
    assert told.startswith(first)
    for code in ("2 bad input", "3 ", "70 ", "130 ", "141 ", "128 + N"):
        assert code in told
    assert (", 1 " in told) == (", 1 " in first or words in (("scenario",), ("campaign",)))


def test_a_help_without_them_is_seen() -> None:
    """The faulty twin: a help text without exit codes."""
    assert exit_codes("Usage: dpsim run [OPTIONS]") == ""
    assert {*FIRST} - {words[-1] for words in COMMANDS} == set()


BAD: dict[str, tuple[str, ...]] = {
    "run": ("no-such",),
    "compare": ("no-such", "no-such"),
    "list": ("no-such",),
    "show": ("no-such",),
    "explore": ("no-such",),
    "replay": ("no-such",),
    "explain": ("no-such",),
    "museum": ("no-such",),
    "check-engine": ("--as", "no-such"),
    "nightly": ("--part", "no-such"),
    "report": ("no-such",),
}
"""For each command, words that are bad input. A new command with `--json` needs an entry here and in BEGINS."""

BEGINS = {
    "run": "dpsim.cli.run.import_modules",
    "compare": "dpsim.trace.read_trace",
    "list": "dpsim.cli.list.import_modules",
    "show": "dpsim.cli.show.import_modules",
    "explore": "dpsim.cli.explore.import_modules",
    "replay": "dpsim.cli.replay.import_modules",
    "explain": "dpsim.cli.explain.job_of_folder",
    "museum": "dpsim.cli.museum.import_modules",
    "check-engine": "dpsim.cli.console.Progress",
    "nightly": "dpsim.cli.campaign.import_modules",
    "report": "dpsim.campaign.nights.report.report_of",
}
"""For each command, a function that it calls early."""
GIVEN = {"compare": ("a", "b"), "list": (), "check-engine": ("--stored",)}


def error_of(words: tuple[str, ...], code: int) -> str:
    """Returns the error message in the object on stdout."""
    answer = dpsim_(*words)
    assert answer.code == code
    [line] = answer.out.splitlines()
    found = json.loads(line)
    assert (found["schema_version"], found["error"]["exit_code"]) == (2, code)
    return str(found["error"]["message"])


@pytest.mark.parametrize("words", WITH_JSON, ids=" ".join)
def test_each_command_prints_a_json_object_for_bad_input(words: tuple[str, ...]) -> None:
    assert error_of((*words, *BAD[words[-1]], "--json"), 2) != ""
    assert error_of((*words, "--no-such-option", "--json"), 2) == "No such option: --no-such-option"


@pytest.mark.parametrize("words", WITH_JSON, ids=" ".join)
def test_each_command_prints_a_json_object_for_missing_memory(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*_: Any, **__: Any) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(BEGINS[words[-1]], lacks)
    given = (*words, *GIVEN.get(words[-1], ("x",)))
    assert error_of((*given, "--json"), 3) == "no memory"
    assert dpsim_(*given).out == "", "the twin, without the option"
