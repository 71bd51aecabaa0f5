"""The communicators of a topology: which groups of ranks have one, and its name.

    kind          backend         groups
    tp            device (NCCL)   the tensor-parallel ranks of each stage, where there is more than one
    dcp           device          the ranks that share the KV cache of a decode, where decode context parallelism is on
    pcp           device          the ranks that share the tokens of a prompt, where prefill context parallelism is on
    pp            device          the stages of each pipeline, where there is more than one: transfers hidden states
    pp_cpu        host (gloo)     the same groups: transfers sizes of the hidden states
    dp            device          the data-parallel peers
    dp_cpu        host            the same groups
    ep            device          the ranks of each pipeline stage, among which the experts are spread
    eplb          device          the groups of ep, where ranks move experts according to their load
    eplb_cpu      host            the same groups
    pp_broadcast  device          the groups of pp: broadcasts sampled tokens

If a kind has one group only, the communicator has the name of the kind. Otherwise the names are `dp.0`, `dp.1`, and so
on.

    >>> [spec.name for spec in communicators(Topology(data_parallel_size=2, tensor_parallel_size=2))]
    ['tp.0', 'tp.1', 'dp.0', 'dp.1', 'dp_cpu.0', 'dp_cpu.1', 'ep']
    >>> [spec.name for spec in communicators(Topology(tensor_parallel_size=2, prefill_context_parallel_size=2))][:4]
    ['tp.0', 'tp.1', 'pcp.0', 'pcp.1']
    >>> [spec.name for spec in communicators(Topology(pipeline_parallel_size=2)) if spec.kind != "dp_cpu"]
    ['pp', 'pp_cpu', 'dp.0', 'dp.1', 'ep.0', 'ep.1', 'pp_broadcast']

Sources: the engine's specification, chapters 9.2 (order of the groups) and 6.6 (token broadcast).
"""

from __future__ import annotations

from dpsim.contract.ops import Domain
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario.parameters import named
from dpsim.vllm.config import Topology


def communicators(topology: Topology, eplb: bool = False) -> tuple[CommunicatorSpec, ...]:
    """All, in the order in which ranks create them: by kind, then by the lowest rank. `eplb`: experts move.

    Only `dp` and the kinds of experts also have communicators of a single rank.
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
        ("pp_broadcast", "device", pipelines),  # a rank creates it last, with the handler of sampled tokens
    )
    return named(kinds)
