"""Fuzzes the readers of the model of vLLM with damaged scenarios, workloads, command lines and stored answers.

The framework's readers are fuzzed in the same way (tests/test_readers.py).
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpsim.scenario import parse_scenario
from dpsim.scenario.parameters import MOST_RANKS
from dpsim.scenario.to_world import prepare
from dpsim.vllm.from_vllm import translate
from dpsim.vllm.params.workload.azure_csv import read_azure_csv
from dpsim_engine import check
from dpsim_engine.stored import OWN, SUFFIX, NoAnswers, answers
from tests import ROOT
from tests.fuzz import damaged, fuzzed, seconds

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks into /proc")

CSV = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.03,3,8\r\n"
)
COMMANDS = [
    b"vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel --data-parallel-size-local 4",
    b"VLLM_USE_V1=1 vllm serve 'a model' --tensor-parallel-size=2 -pp 2 \\\n  --max-num-seqs 64",
    b"vllm serve m --compilation-config '{\"level\": 3}'",
]

PATHS = [b"/etc/shadow", b"/etc/hostname", b"../../etc/hostname", b".", b"", b"/dev/zero", b"x.csv", b"~/x"]


def with_file(seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Returns a damaged scenario, or one whose workload is a path of this machine."""
    data = damaged(seeds, draw) if draw.random() < 0.8 else draw.choice([one for one in seeds if b"file:" in one])
    return re.sub(rb"file: [\w.]+", lambda _: b"file: '%b'" % draw.choice(PATHS), data)


@seconds
def test_the_reader_of_engine_scenarios_survives_damaged_files(seconds: float) -> None:
    """Reads damaged scenarios, and prepares those that are small enough or whose workload is a file."""
    texts = [file.read_bytes() for file in sorted((ROOT / "scenarios").glob("*.yaml"))]

    def read(data: bytes, folder: Path) -> None:
        one = parse_scenario(data, "fuzz.yaml", folder)
        if not one.beyond() or (getattr(one, "file", None) is not None and one.size <= MOST_RANKS):
            prepare(one, folder)

    assert fuzzed("scenarios of engines", texts, read, seconds, make=with_file)


@seconds
def test_the_reader_of_workloads_survives_damaged_files(seconds: float) -> None:
    def read(data: bytes, folder: Path) -> None:
        (folder / "x.csv").write_bytes(data)
        read_azure_csv(folder / "x.csv")

    assert fuzzed("workloads", [CSV, CSV + b"2023-11-16 18:17:05,1,1\n" * 50], read, seconds)


@seconds
def test_the_reader_of_command_lines_survives_damaged_text(seconds: float) -> None:
    def read(data: bytes, folder: Path) -> None:
        translate.from_vllm(data.decode("utf-8", "replace")).text()

    assert fuzzed("command lines", COMMANDS, read, seconds)


VALUES: list[Any] = [None, True, -1, 0, 1.5, 10**6, 10**400, "", "x\x1b[31m", [], {}, [1], {"a": 1}, [[[]]]]


def changed(value: Any, draw: random.Random) -> Any:
    """Returns a copy of a row in which a value is missing or replaced."""
    chance = draw.random()
    if isinstance(value, dict | list) and value:
        key = draw.choice([*value] if isinstance(value, dict) else range(len(value)))
        copy: Any = value.copy()
        if chance < 0.2:
            del copy[key]
        else:
            copy[key] = draw.choice(VALUES) if chance < 0.5 else changed(value[key], draw)
        return copy
    return draw.choice(VALUES)


@seconds
def test_the_reader_of_stored_answers_survives_damaged_files(seconds: float) -> None:
    files = sorted(OWN.glob(f"*{SUFFIX}"))
    rows = {file.name: gzip.decompress(file.read_bytes()).splitlines()[:60] for file in files}
    seeds = [f"{name}\n".encode() + b"\n".join(lines[:2]) for name, lines in rows.items()]

    def folder_of(seeds: Sequence[bytes], draw: random.Random) -> bytes:
        name, lines = draw.choice([*rows.items()])
        some = draw.sample(lines, 2)
        some[0] = json.dumps(changed(json.loads(some[0]), draw)).encode()
        if draw.random() < 0.2:
            some[1] = damaged(some, draw)
        return name.encode() + b"\n" + b"\n".join(some)

    def read(data: bytes, folder: Path) -> None:
        name, _, content = data.partition(b"\n")
        for file in folder.iterdir():
            file.unlink()
        (folder / name.decode()).write_bytes(gzip.compress(content, 1))
        check.stored(folder)

    assert fuzzed("stored answers", seeds, read, seconds, make=folder_of)


BOMBS: dict[str, tuple[dict[str, Any], int, int]] = {
    "long rows": ({"pad": "x" * 60_000}, 1_000, 12),
    "short rows": ({"a": []}, 100_000, 25),
}
"""Files that expand to much more memory; 13 MB once took 4.7 GB."""


@pytest.mark.slow
@pytest.mark.parametrize("what", BOMBS)
def test_a_bomb_of_answers(what: str) -> None:
    more, rows, times = BOMBS[what]
    one = gzip.compress((json.dumps({"version": "0.33.0", **more}).encode() + b"\n") * rows, 1)

    def read(data: bytes, folder: Path) -> None:
        (folder / f"decide{SUFFIX}").write_bytes(data)
        with pytest.raises(NoAnswers, match="more than"):
            answers("decide", place=folder)

    assert fuzzed("a bomb", [one * times], read, 0.1, make=lambda seeds, draw: seeds[0])
