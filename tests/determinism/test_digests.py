"""Tests that a scenario gives the same trace in any process, under any hash seed, and on any supported Python.

The tests look for python3.11 to python3.14 on the path, and in the environment variable DPSIM_PYTHONS, a list of paths.
The interpreters need dpsim's dependencies, but not dpsim.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests import ROOT
from tests.determinism.digests import digests, scenarios

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LACKING = "import sys; print('%d.%d' % sys.version_info[:2]); import numpy, pydantic, simpy, typer, yaml"


@functools.cache
def here() -> Mapping[str, str]:
    return digests()


def elsewhere(python: str, seed: str = "random", module: str = "tests.determinism.digests") -> Mapping[str, str]:
    done = subprocess.run(
        [python, "-m", module],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: Mapping[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_digests_are_equal_twice_in_one_process() -> None:
    assert digests() == here()


def test_digests_of_different_scenarios_differ() -> None:
    """Checks that the digests of different scenarios differ. Otherwise equal digests would prove little."""
    names = [scenario.name for scenario in scenarios()]
    assert list(here()) == names
    assert len({said.partition("/")[0] for said in here().values()}) == len(names)
    assert sum("finished" in said for said in here().values()) > len(names) // 2


@pytest.mark.parametrize("seed", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_digests_are_equal_in_a_process_with_another_hash_seed(seed: str) -> None:
    assert elsewhere(sys.executable, seed) == here()


@pytest.mark.slow
def test_a_program_that_follows_the_order_of_a_set_is_caught() -> None:
    """The faulty twin: a program decides in the order of a set of words, so its trace depends on the hash seed."""
    assert digest_of_a_set("1") == digest_of_a_set("1") != digest_of_a_set("2")


FAULTY = """
from dpsim.contract.program import Program
from dpsim.sim.backend import SimBackend
from dpsim.trace import digest
from dpsim.contract.world import CommunicatorSpec, World

class Faulty(Program):
    async def run(self, rank, prepared):
        for word in {"wave", "step", "seat", "slot", "lane"}:
            rank.decide("word", word, "dp_cpu")

world = World(1, (CommunicatorSpec("dp_cpu", "dp_cpu", "host", (0,)),))
print(digest(SimBackend().run_program(world, Faulty(), None).journals))
"""


def digest_of_a_set(seed: str) -> str:
    told = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", FAULTY], cwd=ROOT, env=told, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.slow
def test_digests_are_equal_on_another_python(version: str) -> None:
    assert elsewhere(interpreter(version)) == here()


def interpreter(version: str) -> str:
    """Returns an interpreter of that version with the dependencies. Skips the test with the reason if there is none."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    given = [path for path in os.environ.get("DPSIM_PYTHONS", "").split(os.pathsep) if path]
    reasons = []
    for python in [*given, shutil.which(f"python{version}")]:
        if python is None:
            reasons.append(f"no python{version} on the path")
            continue
        try:
            asked = subprocess.run([python, "-c", LACKING], capture_output=True, text=True, check=False, timeout=60)
        except OSError as error:
            reasons.append(f"{python} cannot be started: {error.strerror}")
            continue
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return python
        if asked.stdout.strip() == version:
            reasons.append(f"python{version} lacks dependencies ({asked.stderr.strip().splitlines()[-1]})")
        elif python not in given:
            reasons.append(f"python{version} on the path does not start")
    pytest.skip("; ".join(reasons))


def test_a_version_that_is_not_there_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSIM_PYTHONS", os.pathsep.join([sys.executable, "/nowhere/python"]))
    with pytest.raises(pytest.skip.Exception) as skipped:
        interpreter("3.99")
    assert str(skipped.value).startswith("/nowhere/python cannot be started: ")
    assert str(skipped.value).endswith("; no python3.99 on the path")
