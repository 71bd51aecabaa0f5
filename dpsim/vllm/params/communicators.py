"""The communicators of a topology: its groups of ranks, and their names.

    tp            device (NCCL), one for each stage of a replica that has more than one tensor-parallel rank
    dcp           device, where decode context parallelism is on: the ranks that share the KV cache of a decode
    pcp           device, where prefill context parallelism is on: the ranks that share the tokens of a prompt
    pp            device, where there is more than one stage, one for each pipeline: hidden states from stage to stage
    pp_cpu        host (gloo), the same groups: sizes of the hidden states
    dp            device, one for each group of data-parallel peers
    dp_cpu        host, the same groups
    ep            device, one for each pipeline stage: the ranks among which experts are spread
    eplb          device, where experts move by their load: the groups of ep once more
    eplb_cpu      host, the same groups
    pp_broadcast  device, siblings of pp: sampled tokens on their way back

A group that is the only one of its kind has the name of the kind. Others are `dp.0`, `dp.1`, and so on. Scenarios
address collectives by these names.

    >>> [spec.name for spec in communicators(Topology(data_parallel_size=2, tensor_parallel_size=2))]
    ['tp.0', 'tp.1', 'dp.0', 'dp.1', 'dp_cpu.0', 'dp_cpu.1', 'ep']

    >>> [spec.name for spec in communicators(Topology(tensor_parallel_size=2, prefill_context_parallel_size=2))][:4]
    ['tp.0', 'tp.1', 'pcp.0', 'pcp.1']

    >>> [spec.name for spec in communicators(Topology(pipeline_parallel_size=2)) if spec.kind != "dp_cpu"]
    ['pp', 'pp_cpu', 'dp.0', 'dp.1', 'ep.0', 'ep.1', 'pp_broadcast']

Sources: specification chapters 9.2 and 6.6.
"""

from __future__ import annotations

from dpsim.contract.ops import Domain
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario.parameters import named
from dpsim.vllm.config import Topology


def communicators(topology: Topology, eplb: bool = False) -> tuple[CommunicatorSpec, ...]:
    """All communicators, in the order of their creation: by kind, then by the lowest rank. Groups of one rank
    exist, too, but only of `dp` and the experts' kinds. `eplb`: whether experts move by their load.
    """
    balanced = topology.expert_groups() if eplb else []
    pipelines = topology.groups("pp") if topology.pipeline_parallel_size > 1 else []
    tensor_parallel = topology.groups("tp") if topology.tensor_parallel_size > 1 else []
    decode_context = topology.decode_context_groups() if topology.decode_context_parallel_size > 1 else []
    prefill_context = topology.groups("pcp") if topology.prefill_context_parallel_size > 1 else []
    kinds: tuple[tuple[str, Domain, list[tuple[int, ...]]], ...] = (
        ("tp", "device", tensor_parallel),
        ("dcp", "device", decode_context),
        ("pcp", "device", prefill_context),
        ("pp", "device", pipelines),
        ("pp_cpu", "host", pipelines),
        ("dp", "device", topology.dp_groups()),
        ("dp_cpu", "host", topology.dp_groups()),
        ("ep", "device", topology.expert_groups()),
        ("eplb", "device", balanced),
        ("eplb_cpu", "host", balanced),
        ("pp_broadcast", "device", pipelines),  # comes with the handler of sampled tokens, after all others
    )
    return named(kinds)
