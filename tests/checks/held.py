"""What is certified, held against what all checks find.

held_against(world, run, "seed 7")      # the checks that are certified; AssertionError if one of them finds something
"""

from __future__ import annotations

from dpsim.checks.certificate import certified
from dpsim.checks.judge import CHECKS
from dpsim.checks.run_index import RunIndex
from dpsim.contract.world import Run, World

ALL = frozenset(CHECKS)


def found(of: World, run: Run) -> dict[str, list[str]]:
    """The classes that each check finds, whatever is certified."""
    index = RunIndex.of(of, run)
    classes = {name: [one.klass for one in check.run(index)] for name, check in CHECKS.items()}
    return {name: one for name, one in classes.items() if one}


def held_against(of: World, run: Run, what: object) -> frozenset[str]:
    """What is certified; it passes all checks, if nothing is found by those that are not."""
    passed, wrong = certified(of, run), found(of, run)
    assert not passed & {*wrong} or {*wrong} - passed, f"{what}: certified, and {wrong} found"
    return passed
