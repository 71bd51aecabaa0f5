"""Tests `dpsim explore --coverage`: what it prints after the verdict, and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.campaign.coverage import KINDS
from tests.cli.commands import dpsim_, write

MODULE = ("--module", "tests.campaign.covered_programs")
FILE = "name: covered\nprotocol: {name: t_covered, variant: VARIANT}\n"


def test_explore_prints_coverage_after_the_verdict() -> None:
    write_file("T-COVERED-WAITS")
    answer = dpsim_("explore", "covered.yaml", *MODULE, "--coverage")
    verdict, _, coverage = answer.out.partition("\n\nnever reached by 1 world:\n")
    assert "expected: held; met" in verdict
    assert coverage.splitlines()[0].split() == ["probes", "t_covered:", "late"]
    assert coverage.splitlines()[-1].startswith("reached  probes 1 of 2, modes 1 of 2, branches ")
    assert "never reached by" not in dpsim_("explore", "covered.yaml", *MODULE).out


@pytest.mark.parametrize("variant", ["null", "T-COVERED-WAITS"])
def test_explore_prints_coverage_as_json(variant: str) -> None:
    write_file(variant)
    found = dpsim_("explore", "covered.yaml", *MODULE, "--coverage", "--json").json["coverage"]
    assert set(found) == {"worlds", *KINDS}
    assert found["probes"]["never"] == ["t_covered: late"] * (variant != "null")
    assert found["modes"] == {"never": ["t_covered: large"], "reached": {"t_covered: small": 1}}
    assert "coverage" not in dpsim_("explore", "covered.yaml", *MODULE, "--json").json


def test_small_worlds_together_reach_each_mode() -> None:
    """With the worlds of both loads, each mode and each row of a load is reached. One world, as in the test above, has
    one load.
    """
    write_file("null")
    found = dpsim_("explore", "covered.yaml", *MODULE, "--coverage", "--all-up-to", "load=2", "--json").json["coverage"]
    assert (found["worlds"], found["modes"]["never"]) == (2, [])
    assert found["rows"]["never"] == ["t_covered: form newer", "t_covered: piece kind long"]


def test_a_search_that_stopped_says_so_first() -> None:
    """If the search stopped at a failure, the coverage says so first. It does not if the search continued after the
    failure, or found none.
    """
    stopped = "\n\nthe search stopped at the first failure; --keep-going continues it\nnever reached by 1 world:\n"
    write_file("T-COVERED-BREAKS")
    answer = dpsim_("explore", "covered.yaml", *MODULE, "--coverage")
    assert (answer.code, stopped in answer.out) == (1, True)
    assert "search stopped" not in dpsim_("explore", "covered.yaml", *MODULE, "--coverage", "--keep-going").out
    write_file("null")
    assert "search stopped" not in dpsim_("explore", "covered.yaml", *MODULE, "--coverage").out


def test_small_worlds_stop_at_the_first_world_that_fails() -> None:
    said = "\n\nthe search stopped at the first world that failed\nnever reached by "
    for variant in ("T-COVERED-BREAKS", "null"):
        write_file(variant)
        answer = dpsim_("explore", "covered.yaml", *MODULE, "--coverage", "--all-up-to", "load=2")
        assert (said in answer.out) == (variant != "null")


def write_file(variant: str) -> None:
    write(Path("covered.yaml"), FILE.replace("VARIANT", variant))
