"""Runs many scenarios on gloo, one after the other, on two pools at the same time. Each verdict is right, and no
resource grows.

    python -m pytest -m slow -s tests/real/test_soak.py         # 30 runs
    python -m pytest -m nightly -s tests/real/test_soak.py      # 60, and 600 in a night of size 10

A third of the scenarios fail on purpose, in a random order. A verdict is right if it equals the simulation's. In a
tenth of the runs a rank lacks memory, disk space or descriptors, so these runs are lost.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpsim import runner
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, scenario_from
from real import folder
from real.backend import GlooBackend
from tests.properties import of_night
from tests.protocols import agreed
from tests.real import hit_programs, programs  # noqa: F401  # register the programs
from tests.real.worlds import make_world
from tests.trouble import Left

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.xdist_group("gloo"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc"),
]

LIMITS = {"stall": "1s"}
AT = {"site": "dp.agree", "ordinal": 2}
SIZE = {"ranks": 3, "steps": 5, "tokens": [5, 3, 0]}
HEALTHY = [
    scenario_from({"name": "hit", "protocol": {"name": "real_hit_steps", "params": {"steps": 5}}}),
    agreed(SIZE),
    agreed({**SIZE, "on_device": True}),
    agreed({**SIZE, "ranks": 2}),
]
BROKEN = [
    agreed(SIZE, faults=[{"kind": "skip", "rank": 1, "at": AT}], limits=LIMITS),
    agreed(SIZE, faults=[{"kind": "die", "rank": 2, "at": AT}], limits=LIMITS),
    agreed(SIZE, faults=[{"kind": "raise", "rank": 0, "at": AT}], limits=LIMITS),
]
LACKING = ("memory", "memory in a kernel", "disk", "descriptors", "SIGKILL", "SIGUSR1")


def memory() -> float:
    """Returns the memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def expected(scenario: Scenario) -> str:
    return outcome(scenario, "sim")


def outcome(scenario: Scenario, backend: str) -> str:
    result = run_scenario(scenario, backend)
    return result.primary.klass if result.primary else result.verdict


def turn(backend: str, number: int, right: dict[int, str]) -> str:
    """Runs one scenario. Raises AssertionError if the verdict is wrong."""
    draw = random.Random(number)
    if number % 10 == 0:
        what = draw.choice(LACKING)
        run = runner.find_backend(backend).run(make_world(devices=["dp"]), "real_lacks", {"what": what})
        assert run.lost, (what, run.ends, run.observed)
        return "lost"
    kinds = BROKEN if number % 3 == 0 else HEALTHY
    scenario = draw.choice(kinds)
    found = outcome(scenario, backend)
    assert found == right[id(scenario)], scenario
    return "as simulated, violated" if kinds is BROKEN else "as simulated, held"


@pytest.mark.parametrize(
    "times", [pytest.param(30, marks=pytest.mark.slow), pytest.param(of_night(600), marks=pytest.mark.nightly)]
)
def test_verdicts_stay_right_in_a_long_sequence_of_runs(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(folder, "MEMORY", tmp_path / "none")
    pools = {"first": GlooBackend(), "second": GlooBackend()}
    monkeypatch.setattr(runner, "_backends", {**runner._backends, **pools})
    right = {id(one): expected(one) for one in (*HEALTHY, *BROKEN)}
    assert {right[id(one)] for one in HEALTHY} == {"held"}
    assert "held" not in {right[id(one)] for one in BROKEN}
    outcomes, began = Counter[str](), time.monotonic()

    def soak(name: str, numbers: range) -> Counter[str]:
        return Counter(turn(name, number, right) for number in numbers)

    def both(first: int, last: int) -> None:
        with ThreadPoolExecutor(2) as threads:
            halves = [range(first, (first + last) // 2), range((first + last) // 2, last)]
            for found in threads.map(soak, pools, halves):
                outcomes.update(found)

    try:
        both(0, 12)  # what the first runs keep does not count
        outcomes.clear()
        before, taken = Left.now(tmp_path), memory()
        both(12, 12 + times)
        for backend in pools.values():
            backend.pool.kill()
        after, more = Left.now(tmp_path), memory() - taken
    finally:
        for backend in pools.values():
            backend.close()
    said = ", ".join(f"{what} x {count}" for what, count in sorted(outcomes.items()))
    print(f"\nsoak {times}: {said}; {time.monotonic() - began:.0f} s, {more:+.0f} MB, {after.descriptors} descriptors")
    assert sum(outcomes.values()) == times
    assert after.descriptors <= before.descriptors
    assert after.shared == before.shared
    assert more < 60
    assert list(tmp_path.iterdir()) == []
