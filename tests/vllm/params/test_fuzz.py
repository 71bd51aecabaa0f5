"""Tests that the reader turns any file into a scenario or a readable error, and raises no other exception."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.workload.azure_csv import read_azure_csv
from tests import ROOT

SCENARIOS = ROOT / "scenarios"
TEXTS = [file.read_text() for file in sorted(SCENARIOS.glob("*.yaml"))]
SNIPPETS = [
    "*a", "&a ", "!!python/name:os.system ", "<<: *a", "\t", "...", "---\n", "? ", "|\n", ">-\n", "[", "{", "]", "}",
    "'", '"', "#", "%YAML 1.1\n", "null", "~", "on", "1e999", ".nan", "-.inf", "0x10", "9" * 400, "-1", "1:30",
    "2001-01-01", "\u2028", "\x85", "\ufeff", "\0", "{}", "[]", ": ", "- ", "kind: die", "rank: 99",
]  # fmt: skip


def outcome(content: str | bytes) -> Scenario | str:
    """Returns the scenario or the text of the error. Other exceptions fail the test."""
    try:
        return parse_scenario(content, "fuzz.yaml")
    except ScenarioError as error:
        return str(error)


def check(content: str | bytes) -> None:
    found = outcome(content)
    if isinstance(found, Scenario):
        assert parse_scenario(dump_scenario(found)) == found
    else:
        lines = found.split("\n")
        assert 1 <= len(lines) <= 11
        assert all(line.startswith("fuzz.yaml:") for line in lines[:10])
        assert len(found) < 8000


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draws a scenario file with a few lines deleted, doubled or exchanged, and a few snippets inserted."""
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        action = draw(st.sampled_from(["delete", "double", "swap", "snippet", "text", "indent", "cut"]))
        if action == "delete" and len(lines) > 1:
            del lines[at]
        elif action == "double":
            lines.insert(draw(st.integers(0, len(lines))), lines[at])
        elif action == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif action == "indent":
            lines[at] = draw(st.sampled_from(["  ", " ", "\t", "- "])) + lines[at]
        else:
            cut = draw(st.integers(0, len(lines[at])))
            put = draw(st.sampled_from(SNIPPETS) if action == "snippet" else st.text(max_size=8))
            rest = cut if action != "cut" else min(cut + 3, len(lines[at]))
            lines[at] = lines[at][:cut] + put + lines[at][rest:]
    return "\n".join(lines)


@pytest.mark.slow
@settings(max_examples=400)
@given(mutated())
def test_a_mutated_scenario_file_is_read_or_refused(text: str) -> None:
    check(text)


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from([*SNIPPETS, "\n", "  ", "name", "faults"]), max_size=30).map("".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    check(text)


@given(st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b"\xef\xbb\xbf")
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    check(content)


# ---- CSV

HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens"
ROW = b"2023-11-16 18:17:03.9799600,4808,10"
PIECES = [
    HEADER, ROW, b"2023-11-16 18:17:03,1,1", b",", b"\r\n", b"\n", b"\r", b'"', b"\0", b"-1", b"0", b"1e9", b"\xff",
    b"9" * 30, b"2023-13-01 00:00:00", b" ", b"\xef\xbb\xbf", b"x" * 2000, b"0001-01-01 00:00:00,1,1", b"",
]  # fmt: skip


def csv_outcome(file: Path, limit: int | None) -> list[Request] | str:
    try:
        return read_azure_csv(file, limit)
    except ScenarioError as error:
        return str(error)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=12), st.booleans(), st.none() | st.integers(1, 3)
)
def test_any_csv_is_read_or_refused(pieces: list[bytes], begins_well: bool, limit: int | None) -> None:
    content = b"".join(([HEADER, b"\n", ROW, b"\n"] if begins_well else []) + pieces)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fuzz.csv"
        file.write_bytes(content)
        found = csv_outcome(file, limit)
        if isinstance(found, str):
            assert found.startswith(f"{file}:")
            assert "; expected " in found
            assert "\n" not in found
        else:
            assert 1 <= len(found) <= (limit or len(content))
            assert min(request.arrival_ns for request in found) == 0
