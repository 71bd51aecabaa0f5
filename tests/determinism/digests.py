"""Prints the trace digests of some scenarios as JSON. Other processes and interpreters must print the same digests.

    python -m tests.determinism.digests        # in the root of the repository

The command needs dpsim's dependencies, but dpsim need not be installed. Python finds dpsim in the current folder, and
this module calls the simulation directly rather than by its entry point.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping

from dpsim.checks.judge import judge
from dpsim.scenario import Scenario, prepare, world
from dpsim.sim.backend import SimBackend
from dpsim.trace import digest
from tests import ROOT
from tests.protocols import agreed, served

BROKEN = [{"kind": "die", "rank": 3, "at": {"site": "dp.agree", "ordinal": 4}}]
SKIPPED = [{"kind": "skip", "rank": 1, "at": {"site": "experts.combine", "ordinal": 2}}]
LATE = [{"rank": 1, "by": "3ms", "at": {"site": "dp.agree"}}]


def scenarios() -> Iterator[Scenario]:
    """Yields scenarios of the tests' protocols: healthy, with delays, with a death or a skipped op, with a variant, on
    devices, and with services.
    """
    work = {"ranks": 4, "steps": 8, "tokens": [3, 0, 5, 7, 1]}
    yield agreed(work, name="healthy")
    yield agreed({**work, "on_device": True, "experts": 2}, name="device")
    yield agreed(work, "T-SKIPS", name="variant")
    yield agreed({**work, "tokens": [3, 1]}, name="late", delays=LATE)
    yield agreed({**work, "tokens": [4]}, name="die", faults=BROKEN)
    yield agreed({**work, "tokens": [6]}, name="skip", faults=SKIPPED)
    yield served(3, name="services")
    yield agreed({"ranks": 3, "steps": 3, "tokens": [2, 9]}, name="three")


def digests(of: Iterable[Scenario] | None = None) -> Mapping[str, str]:
    """Returns for each scenario the digest of its trace and, after a slash, its ends, times and findings."""
    found = {}
    for scenario in scenarios() if of is None else of:
        program, args, prepared = prepare(scenario, ROOT / "scenarios")
        told = world(scenario, program, prepared)
        run = SimBackend().run(told, scenario.protocol.name, args)
        said = [(finding.klass, finding.message, finding.details) for finding in judge(told, run)]
        found[scenario.name] = f"{digest(run.journals)}/{run.ends}/{run.waited_ns}/{run.elapsed_ns}/{said}"
    return found


if __name__ == "__main__":
    json.dump(digests(), sys.stdout)
