"""The trace digests of some scenarios, as JSON on stdout: what other processes and interpreters must come to as well.

    python -m tests.determinism.digests        # in the root of the repository

Needs dpsim's dependencies, but not dpsim to be installed: it is found where the command is typed, and the simulation is
called directly, not found by its entry point.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dpsim.checks.judge import judge
from dpsim.scenario import Scenario, load_scenario, prepare, scenario_from, world
from dpsim.sim.backend import SimBackend
from dpsim.trace import digest
from tests import ROOT

SCENARIOS = ROOT / "scenarios"
FILES = ("quickstart", "skip_one", "skip_expert", "late_rank", "forced_eager_014", "azure_code_dp2")
LORAS = ("ada", "bea", "cid", None)


def scenarios() -> Iterator[Scenario]:
    """Files of this repository; a variant, adapters (which a rank keeps in sets), a mesh; the conformance program."""
    for name in FILES:
        yield load_scenario(SCENARIOS / f"{name}.yaml")
    yield _made("variant", protocol={"name": "dp_batch", "variant": "M-DP-1"})
    yield _made("conformance", protocol="conformance")
    yield _made("die", faults=[{"kind": "die", "rank": 3, "at": {"site": "dp.agree", "ordinal": 4}}])
    yield _made("adapters", config={"enable_lora": True, "max_num_seqs": 3}, loras=LORAS)


def _made(name: str, loras: tuple[str | None, ...] = (None,), **more: Any) -> Scenario:
    work = [
        {"arrival": f"{5 * i}ms", "prompt_tokens": 3 + i % 7, "output_tokens": 2 + i % 5, "lora": loras[i % len(loras)]}
        for i in range(24)
    ]
    return scenario_from({"name": name, "topology": {"data_parallel_size": 4}, "workload": {"requests": work}} | more)


def digests() -> Mapping[str, str]:
    """By scenario: the digest of the trace and, after a slash, ends, times and findings."""
    found = {}
    for scenario in scenarios():
        program, args, prepared = prepare(scenario, SCENARIOS)
        told = world(scenario, program, prepared)
        run = SimBackend().run(told, scenario.protocol.name, args)
        said = [(finding.klass, finding.message, finding.details) for finding in judge(told, run)]
        found[scenario.name] = f"{digest(run.journals)}/{run.ends}/{run.waited_ns}/{run.elapsed_ns}/{said}"
    return found


if __name__ == "__main__":
    json.dump(digests(), sys.stdout)
