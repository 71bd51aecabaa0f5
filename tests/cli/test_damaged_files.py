"""Tests that a command which reads a file ends with one error for a damaged one, and with exit code 2.

Each file is cut off at several places, or has other bytes. `tests/test_readers.py`
tries many more bytes at the readers themselves.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsim.campaign.nights.rows import NightRow, append
from tests.cli.commands import HEALTHY, MODULE, dpsim_, write
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.recordings.made import MadeJob as MadeRecordings


def a_trace() -> tuple[Path, list[list[str]]]:
    dpsim_("run", write(Path("three.yaml"), HEALTHY), "--trace", "good.jsonl")
    shutil.copy("good.jsonl", "x.jsonl")
    commands = [["replay", "x.jsonl"], ["compare", "x.jsonl", "good.jsonl"], ["explain", "x.jsonl"]]
    return Path("x.jsonl"), [*commands, ["export", "x.jsonl", "-o", "x.html"]]


def a_scenario() -> tuple[Path, list[list[str]]]:
    file = write(
        Path("three.yaml"), f'description: "{"a" * 9 * len(HEALTHY)}"\n{HEALTHY}'
    )  # a cut is within the quotes
    return file, [["run", "three.yaml"], ["explore", "three.yaml"]]


def a_night() -> tuple[Path, list[list[str]]]:
    file = Path("n", "2026-11-27.jsonl")
    append(file, NightRow(part="tests", name="x", verdict="passed"))
    return file, [["campaign", "report", "n"]]


def a_head() -> tuple[Path, list[list[str]]]:
    write(Path("three.yaml"), HEALTHY)
    dpsim_("explore", "three.yaml", *MODULE, "--work", "w")
    return Path("w", "work.json"), [["explore", "three.yaml", *MODULE, "--resume", "w"]]


def a_dump() -> tuple[Path, list[list[str]]]:
    job = MadeJob(2)
    job.call([0, 1])
    Path("dumps").mkdir()
    job.write(Path("dumps"))
    return Path("dumps", "nccl_rank_0"), [["explain", "dumps"], ["import", "dumps", "-o", "x.yaml"]]


def a_recording() -> tuple[Path, list[list[str]]]:
    job = MadeRecordings(Path("made"), 2)
    job.all("all_reduce")
    return sorted(job.gathered().glob("*.recording"))[0], [
        ["explain", "made/job"],
        ["import", "made/job", "-o", "x.yaml"],
    ]


KINDS: dict[str, Callable[[], tuple[Path, list[list[str]]]]] = {
    one.__name__: one for one in (a_trace, a_scenario, a_night, a_head, a_dump, a_recording)
}


def damages(whole: bytes) -> list[bytes]:
    cut = [whole[: len(whole) * part // 8 - 1] for part in (1, 4, 7)]
    return [*cut, b"\0" * 9, b"\xff\xfe" + whole, b"[" * 5_000, b'{"format":', b"null\n"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_one_error(kind: str) -> None:
    file, commands = KINDS[kind]()
    whole = file.read_bytes()
    for words in commands:
        file.write_bytes(whole)
        assert dpsim_(*words).code != 2, "the twin: the whole file"
        for data in damages(whole):
            file.write_bytes(data)
            answer = dpsim_(*words)
            assert (answer.code, answer.err.count("Traceback")) == (2, 0), (words, data[:60], answer.err)
            assert answer.err
