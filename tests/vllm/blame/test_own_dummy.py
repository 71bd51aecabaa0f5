"""Idle ranks that ignore the agreed plan are no majority: the rank that follows the plan is not blamed."""

from __future__ import annotations

import pytest

from dpsim.contract import registry
from dpsim.contract.interface import HostArray
from dpsim.contract.registry import register_variant
from dpsim.diagnose.words import text
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch


class OwnDummy(DataParallelStep):
    """A rank without tokens pads its dummy batch, and runs it in its own mode."""

    dummy = False

    async def step(self, batch: Batch) -> None:
        self.dummy = not batch.num_tokens
        await super().step(batch)

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        plan = super().plan(table, local)
        padded = self.form.padded_tokens(table[1].tolist(), True)
        return plan._replace(mode=local.mode, num_tokens=padded) if self.dummy else plan


@pytest.mark.parametrize("on_host", [True, False])
def test_the_rank_that_follows_the_plan_is_not_blamed(monkeypatch: pytest.MonkeyPatch, on_host: bool) -> None:
    monkeypatch.setattr(registry, "_variants", dict(registry._variants))
    register_variant("OWN-DUMMY", protocol="dp_batch", form="source-000", expected="DISAGREEMENT:PLAN")(OwnDummy)
    request = {"arrival": "0ms", "prompt_tokens": 3, "output_tokens": 2, "force_eager": True}
    scenario = scenario_from(
        {
            "name": "own-dummy",
            "protocol": {"name": "dp_batch", "variant": "OWN-DUMMY"},
            "topology": {"data_parallel_size": 3},
            "config": {"disable_nccl_for_dp_synchronization": on_host},
            "workload": {"requests": [request]},
        }
    )
    findings = run_scenario(scenario).findings
    accused = [one.culprit.ranks or (one.culprit.rank,) for one in findings if one.culprit is not None]
    assert findings[0].klass == "DISAGREEMENT:PLAN"
    assert "rank 0 decided (False, (3, 1, 1), 0); ranks 1, 2 decided" in text(findings[0].message)
    assert accused == [(1, 2)], "only the ranks that raise are blamed"
