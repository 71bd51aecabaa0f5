"""Settings of single ranks: a node starts with other flags than the first node, and vLLM does not notice.

    vllm serve m -dp 2 -dpn 0 --speculative-config.method mtp ...
    vllm serve m -dp 2 -dpn 1                                           # no drafter: rank 0 waits for it without end

vLLM compares a hash of some settings at start; differences in the others become settings of ranks. Source:
specification chapter 8.4 (hash).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.contract.words import ranks_text
from dpsim.scenario.errors import ScenarioError
from dpsim.vllm.config import EngineConfig, Surroundings, Topology, differing
from dpsim.vllm.from_vllm.nodes import difference, differing_settings, replicas_of
from dpsim.vllm.from_vllm.read import Settings


def by_rank(
    every: Sequence[Settings], configs: Sequence[Mapping[str, Any]], topology: Topology
) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Returns the section `config_by_rank`, and a remark for each setting in which a command differs from the first.

    Raises ScenarioError for a difference that vLLM notices, and if one replica runs on several nodes.
    """
    first = EngineConfig.model_validate(configs[0])
    found: dict[int, dict[str, Any]] = {}
    remarks: list[str] = []
    for number, (settings, config) in enumerate(zip(every, configs, strict=True), 1):
        other = EngineConfig.model_validate(config)
        own = {name: value for name, value in other if value != getattr(first, name)}
        if not own:
            continue
        differences = [difference(every[0], settings, name, number) for name in differing_settings(every[0], settings)]
        around = Surroundings.of_rank()
        noticed = differing(first.parallel_config(topology, around), other.parallel_config(topology, around))
        if noticed:
            raise ScenarioError(f"{differences[0]}; vLLM refuses to start, as {noticed[0]} is not the same")
        if settings.get("nnodes", 1) > 1 or topology.pipeline_parallel_size > 1:
            raise ScenarioError(
                f"{differences[0]}; dpsim models different settings only for whole replicas of dp_batch"
            )
        ranks = [
            replica * topology.replica_size + rank
            for replica in sorted(replicas_of(settings, topology.data_parallel_size))
            for rank in range(topology.replica_size)
        ]
        found |= dict.fromkeys(ranks, other.model_dump(mode="json", include=set(own)))
        remarks += [
            f"{line}: so {ranks_text(ranks)} have different settings; vLLM does not notice" for line in differences
        ]
    return found, remarks
