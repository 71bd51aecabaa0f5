"""Prints the trace digests of scenarios of vLLM's protocols as JSON, like `tests/determinism/digests.py`.

python -m tests.vllm.determinism.digests        # in the root of the repository
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from dpsim.scenario import Scenario, load_scenario, scenario_from
from tests import ROOT
from tests.determinism.digests import digests

SCENARIOS = ROOT / "scenarios"
FILES = ("quickstart", "skip_one", "skip_expert", "late_rank", "forced_eager_014", "azure_code_dp2")
LORAS = ("ada", "bea", "cid", None)


def scenarios() -> Iterator[Scenario]:
    """Yields the repository's files, a variant, the conformance program, a death, and adapters, which a rank keeps in
    sets.
    """
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


if __name__ == "__main__":
    json.dump(digests(scenarios()), sys.stdout)
