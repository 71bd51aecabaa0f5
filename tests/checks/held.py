"""Compares the certificate of a run with the findings of all checks.

held_against(world, run, "seed 7")      # returns the certified checks; AssertionError if one of them has a finding
"""

from __future__ import annotations

from dpsim.checks.certificate import certified
from dpsim.checks.judge import CHECKS
from dpsim.checks.run_index import RunIndex
from dpsim.contract.world import Run, World

ALL = frozenset(CHECKS)


def found(of: World, run: Run) -> dict[str, list[str]]:
    """Returns the classes that each check finds, whether it is certified or not."""
    index = RunIndex.of(of, run)
    classes = {name: [one.klass for one in check.run(index)] for name, check in CHECKS.items()}
    return {name: one for name, one in classes.items() if one}


def held_against(of: World, run: Run, what: object) -> frozenset[str]:
    """Returns the certified checks. AssertionError if a certified check has a finding and no uncertified one has."""
    passed, wrong = certified(of, run), found(of, run)
    assert not passed & {*wrong} or {*wrong} - passed, f"{what}: certified, and {wrong} found"
    return passed
