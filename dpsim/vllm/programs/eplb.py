"""The program `eplb`: the steps of `dp_batch`, while a thread of each rank moves experts according to their load.

protocol: {name: eplb}
config: {enable_expert_parallel: true, enable_eplb: true, eplb_config: {step_interval: 2}}
"""

from __future__ import annotations

from dpsim.contract.program import Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.programs.dp_batch import DataParallelBatch, DataParallelSetup
from dpsim.vllm.releases import PLACES, Release, there
from dpsim.vllm.releases.protects import says_unprotected, shows_of, unprotected_of


@register_protocol("eplb", forms=PLACES["eplb"].names)
@says_unprotected
class BalancedBatch(DataParallelBatch):
    """Batch agreement of data-parallel ranks, while a thread of each rank moves experts."""

    unprotected = unprotected_of("eplb")
    shows = shows_of("eplb")
    threaded = True
    ordered_by_flags = True
    honours_config_by_rank = True
    probes: tuple[str, ...] = (*DataParallelBatch.probes, "eplb.waits")

    def prepare(self, args: EngineArguments) -> DataParallelSetup:
        setup = super().prepare(args)
        if setup.balance is None:
            raise Unsuitable("config.enable_eplb: the ranks of eplb have threads to move experts in; expected true")
        return setup

    def balance_of(self, release: Release, config: EngineConfig) -> type[ExpertBalance]:
        """Returns the class that moves experts while steps run. Raises Unsuitable if `use_async` is false."""
        if config.eplb_config.use_async is False:
            raise Unsuitable(
                "config.eplb_config.use_async: False; eplb moves experts while steps run: remove it, "
                "or take the protocol dp_batch"
            )
        return there(release.async_balance, f"protocol.form: {release.name}")
