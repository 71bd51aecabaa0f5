"""Forces the order of a simulated run on real processes, by gates that delay racing calls.

Ten failures that are rare on real processes show in each run with gates. The faulty twin runs the same world without
gates. `python -m tests.real.test_forced` writes the table of docs/stepping.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.gates import gates_of
from dpsim.campaign.subject import Subject
from dpsim.checks.judge import judge
from dpsim.contract.registry import prepared
from dpsim.contract.world import Run, World
from dpsim.sim.backend import SimBackend
from dpsim.trace import Trace, compare
from real.backend import TorchBackend
from tests import ROOT
from tests.real.forced_worlds import WORLDS
from tests.real.worlds import NCCL

RUNS = 40
ON_GPUS = ("event", "threads", "tickets", "poll", "abort")
gloo = pytest.mark.xdist_group("gloo")


def failing(name: str) -> tuple[World, Run, str]:
    """Returns a failing simulated run of a world: the world with the gates of the run, the run, and the class of the
    failure.
    """
    world, (program, made) = WORLDS[name], prepared(f"forced_{name}", {})
    shown = explore_subject(Subject(world, program, made), "dpor", schedules=2_000).shown
    run, klass = next((one.run, one.findings[0].klass) for one in shown if one.run is not None)
    return replace(world, gates=gates_of(run), stall_ns=500_000_000), run, klass


def shows(backend: TorchBackend, world: World, name: str, klass: str) -> bool:
    """Returns whether a run has this failure."""
    return klass in [one.klass for one in judge(world, backend.run(world, f"forced_{name}", {}))]


def counts(backend: TorchBackend, name: str, runs: int) -> tuple[int, int]:
    """Returns how often the failure shows without gates, and how often with them."""
    gated, _, klass = failing(name)
    free = sum(shows(backend, WORLDS[name], name, klass) for _ in range(runs))
    return free, sum(shows(backend, gated, name, klass) for _ in range(runs))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_the_simulation_finds_each_forced_failure(name: str) -> None:
    gated, run, klass = failing(name)
    assert klass == "CRASH:ASSERTIONERROR"
    assert gated.gates
    assert [one.klass for one in judge(gated, run)][:1] == [klass]
    in_time = SimBackend().run(WORLDS[name], f"forced_{name}", {})
    assert bool(judge(WORLDS[name], in_time)) == (name == "send"), "only an eager send fails in time as well"


def forced(backend: TorchBackend, name: str, runs: int) -> None:
    gated, run, klass = failing(name)
    for _ in range(runs):
        real = backend.run(gated, f"forced_{name}", {})
        assert [one.klass for one in judge(gated, real)][:1] == [klass]
        assert compare(Trace.of(run, "sim"), Trace.of(real, backend.name)) is None


@pytest.mark.slow
@gloo
@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
@pytest.mark.parametrize("name", ["send", "event"])
def test_gates_force_the_failure_on_gloo(backend: TorchBackend, name: str) -> None:
    forced(backend, name, 5)


@pytest.mark.nightly
@gloo
@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
@pytest.mark.parametrize("name", WORLDS)
def test_rare_without_gates_and_forced_at_them(backend: TorchBackend, name: str) -> None:
    free, at_gates = counts(backend, name, RUNS)
    assert at_gates == RUNS
    assert free <= RUNS // 20


@pytest.mark.parametrize("backend", [NCCL], indirect=True)
@pytest.mark.parametrize("name", ON_GPUS)
def test_gates_force_the_failure_on_gpus(backend: TorchBackend, name: str) -> None:
    """The faulty twin, without gates, does not fail in each of as many runs."""
    forced(backend, name, 10)
    assert counts(backend, name, 10)[0] < 10


def test_the_page_has_each_world_once() -> None:
    page = (ROOT / "docs" / "stepping.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .* \| (\d+) of 40 \| 40 of 40 \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == list(WORLDS)
    assert all(int(free) <= RUNS // 20 for _, free in rows)


def main(say: Callable[[str], None] = print) -> None:
    """Prints the rows of the table."""
    from real.backend import GlooBackend

    backend = GlooBackend()
    try:
        for name in WORLDS:
            free, at_gates = counts(backend, name, RUNS)
            says = (prepared(f"forced_{name}", {})[0].__doc__ or "").strip()
            say(f"| `{name}` | {says} | {free} of {RUNS} | {at_gates} of {RUNS} |")
    finally:
        backend.close()


if __name__ == "__main__":
    main()
