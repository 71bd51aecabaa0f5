"""Removes one check of a reader at a time. The fuzzer of that reader must find this within a minute.

    python -m pytest -m nightly tests/test_readers_reverted.py tests/vllm/test_readers_reverted.py

A fuzzer that finds nothing in ten minutes proves little, unless it finds a planted mistake. Two checks have no row: the
depth of a trace, and the digits of its numbers. Without them, Python's own limits end in the same error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign import token
from dpsim.contract import words
from dpsim.diagnose.dumps import reading
from dpsim.scenario.yaml import nodes
from dpsim.trace import form
from tests import test_readers
from tests.test_readers import traces  # noqa: F401  # a fixture

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks into /proc")]

SECONDS = 60.0


def _any_fields(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(token, "_checked", lambda word, fields: fields)


def _any_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nodes._Composer, "_limit", lambda *given: None)


def _any_terminal(patch: pytest.MonkeyPatch) -> None:
    for module in (words, form):
        patch.setattr(module, "printable", lambda text: text)


def _any_opcode(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "plain", pickle.loads)


ROWS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[..., None]]] = {
    "a trace: control characters": (_any_terminal, test_readers.test_the_reader_of_traces_survives_damaged_files),
    "a token: its fields": (_any_fields, test_readers.test_the_reader_of_tokens_survives_damaged_words),
    "a scenario: how much it expands to": (_any_size, test_readers.test_the_reader_of_scenarios_survives_damaged_files),
    "a dump: opcodes": (_any_opcode, test_readers.test_the_reader_of_dumps_survives_damaged_files),
}


@pytest.mark.parametrize("what", ROWS)
def test_the_fuzzer_finds_it(what: str, traces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    revert, fuzz = ROWS[what]
    given: dict[str, Any] = (
        {"traces": traces} if fuzz is test_readers.test_the_reader_of_traces_survives_damaged_files else {}
    )
    revert(monkeypatch)
    with pytest.raises(AssertionError):
        fuzz(**given, seconds=SECONDS)
