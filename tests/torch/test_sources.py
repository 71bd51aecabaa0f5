"""Each source of time and entropy in Python's library, numpy and torch: ranks differ as processes on gloo do.

A program that depends on entropy fails, or would fail in another process. A program that reads a clock is named by its
lines, because dpsim tries one order of times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpsim.torch.program import TorchProgram
from dpsim.torch.times import RankTimes
from tests.torch.programs.hashes import HASHES
from tests.torch.programs.sources import CLOCKS, ENTROPY, SECONDS
from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")

QUICK = ("random", "torch", "uuid4")
SOURCES = [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in ENTROPY]


def outside(program: str, kind: str) -> set[int]:
    """Returns the lines of a program that holds whose reads are facts of its runs."""
    found = explored(program, 2)
    assert found.verdict == "proven", found.report()
    return {int(one.where.rpartition(":")[2]) for one in found.facts.outside if one.what == kind}


@pytest.mark.parametrize("name", SOURCES)
def test_ranks_draw_differently(name: str) -> None:
    assert blamed(explored("sources.py:draws", 2, args=[name]))[0] == "CRASH:ASSERTIONERROR"


def test_seeds_of_the_program_make_ranks_equal() -> None:
    """The control: with them, the same comparison holds, and a proof names no place, also none of dpsim's own."""
    found = explored("sources.py:seeded", 2)
    assert (found.verdict, found.facts.outside) == ("proven", [])


def test_a_draw_of_torch_is_named_by_the_next_call() -> None:
    lines = (PROGRAMS / "sources.py").read_text().splitlines()
    call = next(number for number, line in enumerate(lines) if "missing = " in line) + 2
    assert outside("sources.py:draws_rarely", "entropy") == {call}


def test_each_clock_is_named_by_its_line() -> None:
    lines = (PROGRAMS / "sources.py").read_text().splitlines()
    reads = {number for number, line in enumerate(lines, 1) for name in CLOCKS | SECONDS if f'    "{name}": ' in line}
    assert outside("sources.py:reads", "clock") == reads


def test_a_rank_that_waits_for_another_one_learns_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explored("sources.py:meets", 2).verdict == "proven"
    monkeypatch.setattr(RankTimes, "meets", lambda *_: None)  # the faulty twin
    assert explored("sources.py:meets", 2).verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("name", HASHES)
def test_hashes_differ_between_ranks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert blamed(explored("hashes.py:counts", 2, args=[name]))[0] == "NONDETERMINISM:REPEAT"
    monkeypatch.setattr(TorchProgram, "elsewhere", lambda *_: ())  # the faulty twin: no run has other hashes
    assert explored("hashes.py:counts", 2, args=[name]).verdict == "proven"


@pytest.mark.slow
def test_one_bit_of_a_hash_is_enough_and_a_sorted_set_is_none() -> None:
    found = explored("hashes.py:one_bit", 2)
    assert blamed(found)[0] == "NONDETERMINISM:REPEAT"
    assert "hashes.py:" in found.report()
    assert explored("hashes.py:set_only", 2).verdict == "proven"


@pytest.mark.slow
def test_processes_on_gloo_differ_in_each_source(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "sources_on_gloo.py"), str(tmp_path)]
    with subprocess.Popen([*command, "1"]) as other:
        said = subprocess.run([*command, "0"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert other.returncode == 0
    assert set(json.loads(said)) == {*ENTROPY, *CLOCKS, *HASHES}


BOUND = """
import builtins, datetime, json, os, random, secrets, sys, threading, time, uuid, _thread, numpy.random
of_class = lambda one: getattr(type("Kind", (), {"found": one})(), "found", None)
names = "builtins datetime os random secrets threading time uuid _thread numpy.random".split()
print(json.dumps([(m, n) for m in names for n, one in vars(sys.modules[m]).items() if of_class(one) is one]))
"""


def test_no_function_that_replaces_a_builtin_binds() -> None:
    """What no class binds in Python itself, no class binds in a rank, with and without a second thread."""
    names = subprocess.run([sys.executable, "-c", BOUND], capture_output=True, text=True, check=True).stdout
    assert '["time", "monotonic"]' in names
    assert explored("sources.py:binds", 2, args=[names]).verdict == "proven"
