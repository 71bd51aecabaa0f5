"""Tests gates: which gates dpsim makes from a simulated run, so that a real run waits at them; and which orders no gate
can force.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign.gates import gates_of, stalled, unforced
from dpsim.checks.finding import Finding
from dpsim.contract.gates import EARLY, Gate, Turn
from dpsim.contract.ops import SITE
from dpsim.contract.world import End, Run
from dpsim.runner import run_scenario
from tests.cli import protocols  # noqa: F401  # registers t_two_streams
from tests.protocols import sized
from tests.real.forced_worlds import WORLDS
from tests.real.test_forced import failing


def test_each_world_has_the_gate_of_its_race() -> None:
    """From the failing run of each world, dpsim makes the gate that forces its race. From the same run without its
    records it makes no such gate.
    """
    expected: dict[str, Any] = {
        "get_before_set": lambda gate: isinstance(gate, Gate) and gate.learns == (None,),
        "tickets": lambda gate: isinstance(gate, Turn) and gate.of == "store",
        "event": lambda gate: isinstance(gate, Gate) and gate.at[2] == "record",
        "send": lambda gate: isinstance(gate, Gate) and gate.learns == (EARLY,),
        "threads": lambda gate: isinstance(gate, Turn) and gate.of == "thread",
        "any_source": lambda gate: isinstance(gate, Gate) and gate.at[2] == "first",
    }
    for name, wanted in expected.items():
        gated, run, _ = failing(name)
        assert any(map(wanted, gated.gates)), name
        bare = replace(run, journals=[[] for _ in run.journals], order=[], early=[])  # type: ignore[call-arg]
        assert not any(map(wanted, gates_of(bare)))
    assert expected.keys() < WORLDS.keys()


def cut(run: Run, rank: int, site: str, end: End = "blocked") -> Run:
    """Returns the run as if a rank had stopped before a site, and the other ranks had not finished."""
    journal = run.journals[rank]
    at = next(at for at, raw in enumerate(journal) if raw[SITE] == site)
    journals = [journal[:at] if one == rank else other for one, other in enumerate(run.journals)]
    return replace(run, journals=journals, ends=[end] * len(run.ends))


def test_a_gate_names_the_ranks_that_it_waits_for() -> None:
    gated, run, _ = failing("threads")
    assert stalled(gated.gates, run) == []
    said = stalled(gated.gates, cut(run, 0, "adder.start"))
    assert "rank 0: it waits before added[0] until rank 0 issues adder.start[0], which never happened" in said
    assert stalled(gated.gates, cut(run, 0, "adder.start", "finished")) == []


@pytest.mark.parametrize(
    ("off", "found", "words", "said"),
    [
        ([], [], (), None),
        (["RACE:BUFFER"], [], (), "the gloo backend cannot force the order in which two streams use memory: "),
        ([], ["RACE:REUSED_IN_FLIGHT"], (), "cannot force which memory an allocator gives out again: "),
        ([], [], ("rank 1 has kernels that raise",), "cannot force what the device of rank 1 does before its kernel"),
    ],
)
def test_dpsim_refuses_a_schedule_that_no_gate_can_force(
    off: list[str], found: list[str], words: Any, said: str | None
) -> None:
    scenario = sized("t_two_streams", checks={"switched_off": off})
    run = run_scenario(scenario).run
    refused = unforced(scenario, run, [Finding("race", one, "", None, (0, 0)) for one in found], words, "gloo")
    assert (refused is None) == (said is None)
    assert said is None or said in str(refused)
