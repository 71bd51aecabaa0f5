"""Tests kills and limits in a scenario, which only the simulation has: their effects, and the errors of other
backends.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.scenario import load_scenario
from dpsim.scenario.to_world import only_simulated
from tests.cli.commands import HEALTHY, dpsim_, write

KILL = "faults: [{{kind: kill, rank: 1{}}}]\n"
DEAD = "HANG:COLLECTIVE:DEAD_RANK"


def scenario(*sections: str) -> Path:
    return write(Path("x.yaml"), HEALTHY + "".join(sections))


def test_a_rank_is_killed_at_a_time() -> None:
    answer = dpsim_(
        "run", scenario(KILL.format(", time: 300us"), f"expect: {{class: {DEAD}, culprit: {{rank: 1}}}}\n"), "--full"
    )
    assert answer.code == 0, answer.out
    assert "VIOLATED  HANG:COLLECTIVE  " in answer.out
    assert ": kill" in answer.out


def test_a_rank_is_killed_from_an_op_on() -> None:
    at = ", at: {site: dp.agree, ordinal: 2}"
    answer = dpsim_("run", scenario(KILL.format(at), f"expect: {{class: {DEAD}}}\n"), "--full")
    assert answer.code == 0, answer.out
    assert "which never joins (died)" in answer.out
    assert "rank 1 dp.agree[2]: kill" in answer.out


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (", time: 1h", "kill: rank 1 had ended before it died"),
        (
            ", at: {site: dp.agree, ordinal: 99}",
            "kill: rank 1 never reached dp.agree[99]; its last visit was dp.agree[5]",
        ),
        (", at: {site: dp.agre, ordinal: 0}", "kill: rank 1 never reached dp.agre[0]; did you mean dp.agree?"),
        (
            ", at: {communicator: world_cpu, seq: 99}",
            "kill: rank 1 never reached world_cpu #99; it made 6 collectives on world_cpu",
        ),
    ],
)
def test_a_kill_without_a_victim_is_not_met(more: str, why: str) -> None:
    answer = dpsim_("run", scenario(KILL.format(more)))
    assert (answer.code, answer.out.splitlines()[-1]) == (1, f"expected: held; NOT met: never applied: {why}")


@pytest.mark.parametrize("at", ["", ", at: {site: dp.agree, ordinal: 4}", ", at: {communicator: world_cpu, seq: 4}"])
def test_exploring_kills_at_any_point_from_there_on(at: str) -> None:
    answer = dpsim_("explore", scenario(KILL.format(at), "expect: {class: DEATH}\n"), "--strategy", "dpor", "--full")
    assert answer.code == 0, answer.out
    assert "  kill rank 1" in answer.out


def test_exploring_notices_a_kill_without_a_victim() -> None:
    answer = dpsim_("explore", scenario(KILL.format(", at: {site: dp.agree, ordinal: 99}")))
    assert (answer.code, "never applied: kill: rank 1 never reached dp.agree[99]" in answer.out) == (1, True)


def test_a_verdict_names_what_it_assumes() -> None:
    plain = (
        "assumes: no rank dies; unlimited residency; communicators are connected; unlimited launch queue; "
        "no allocation waits; no other effect of hardware"
    )
    assert plain in dpsim_("explore", scenario()).out.splitlines()
    limited = scenario("limits: {residency: 2, launch_queue: 64, alloc_synchronises: true}\n")
    left = [
        "no rank dies",
        "communicators are connected",
        "allocations wait where this layout takes new memory",
        "no other effect of hardware",
    ]
    assert f"assumes: {'; '.join(left)}" in dpsim_("explore", limited).out.splitlines()
    (row,) = dpsim_("explore", limited, "--json").json["scenarios"]
    assert row["assumes"] == left
    whole = dpsim_("explore", scenario(), "--all-up-to", "ranks=2,steps=1")
    checked = " ranks share no Python object: checked in [01] of 2 worlds;"  # a clock decides how many
    assert re.sub(checked, "", whole.out.splitlines()[1]) == plain


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize(
    ("section", "said"),
    [
        (KILL.format(""), "faults[0]: the {} backend cannot kill a rank between two ops"),
        ("limits: {residency: 1}\n", "limits.residency: the {} backend has no such limit"),
        ("limits: {launch_queue: 1024}\n", "limits.launch_queue: the {} backend has no such limit"),
        ("limits: {progress: 9}\n", "limits.progress: the {} backend has no such limit"),
        ("limits: {alloc_synchronises: true}\n", "limits.alloc_synchronises: the {} backend has no such limit"),
        (
            "ports: [{port: 5}, {port: 6, late: true}]\n",
            "ports[1].late: the {} backend starts no other program in the midst of a run",
        ),
    ],
)
def test_other_backends_refuse_sections_that_only_the_simulation_has(backend: str, section: str, said: str) -> None:
    answer = dpsim_("run", scenario(section), "--backend", backend)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"three: {said.format(backend)}; run it on the simulation (--backend sim), or " in answer.err


def test_other_backends_accept_ports_in_use_and_lazy_communicators() -> None:
    asked = "ports: [{port: 29555}]\nlimits: {lazy_communicators: true, stall: 2s}\n"
    assert only_simulated(load_scenario(scenario(asked)), "gloo") is None
