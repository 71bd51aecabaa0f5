"""Reverts each repair of a reader, and tests that its fuzzer finds the bug (compare tests/test_readers_reverted.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsim.contract import words
from dpsim.vllm.from_vllm import read
from dpsim.vllm.params.workload import requests
from dpsim_engine import stored
from tests.vllm import test_readers

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks into /proc")]

SECONDS = 60.0


def _any_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(requests, "find_file", lambda name, base: Path(base or ".") / name)


def _any_terminal(patch: pytest.MonkeyPatch) -> None:
    for module in (words, read):
        patch.setattr(module, "printable", lambda text: text)


def _any_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored, "_row", json.loads)


def _any_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored, "MOST_BYTES", 1 << 40)
    patch.setattr(stored, "MOST_ROWS", 1 << 40)


ROWS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[..., None]]] = {
    "a scenario: its files": (_any_file, test_readers.test_the_reader_of_engine_scenarios_survives_damaged_files),
    "a command line: control characters": (
        _any_terminal,
        test_readers.test_the_reader_of_command_lines_survives_damaged_text,
    ),
    "answers: their rows": (_any_row, test_readers.test_the_reader_of_stored_answers_survives_damaged_files),
    "answers: their size": (_any_size, lambda seconds: test_readers.test_a_bomb_of_answers("short rows")),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_fuzzer_finds_it(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    revert, fuzz = ROWS[what]
    revert(monkeypatch)
    with pytest.raises(AssertionError):
        fuzz(seconds=SECONDS)
