"""The communicators of a topology: which groups of ranks exist, and what they are called.

    tp            device (NCCL), one for each stage of a replica that has more than one tensor-parallel rank
    pp            device, where there is more than one stage, one for each pipeline: hidden states from stage to stage
    pp_cpu        host (gloo), the same groups: what they are, before they come
    dp            device, one for each group of data-parallel peers
    dp_cpu        host, the same groups
    ep            device, one for each pipeline stage: the ranks among which experts are spread
    pp_broadcast  device, siblings of pp: sampled tokens on their way back

A group is called by its kind where it is the only one of its kind, else `dp.0`, `dp.1`, ...; scenarios address
collectives by these names.

    >>> [spec.name for spec in communicators(Topology(data_parallel_size=2, tensor_parallel_size=2))]
    ['tp.0', 'tp.1', 'dp.0', 'dp.1', 'dp_cpu.0', 'dp_cpu.1', 'ep']

    >>> [spec.name for spec in communicators(Topology(pipeline_parallel_size=2)) if spec.kind != "dp_cpu"]
    ['pp', 'pp_cpu', 'dp.0', 'dp.1', 'ep.0', 'ep.1', 'pp_broadcast']

Sources: specification chapters 9.2 and 6.6.
"""

from __future__ import annotations

from dpsim.config import Topology
from dpsim.ops import Domain
from dpsim.world import CommunicatorSpec


def communicators(topology: Topology) -> tuple[CommunicatorSpec, ...]:
    """All communicators, in the order in which they are made: by kind, then by the lowest rank. Groups of one rank
    exist too, but not of `tp` and `pp`.
    """
    pipelines = pipeline_groups(topology) if topology.pipeline_parallel_size > 1 else []
    tensor_parallel = tensor_parallel_groups(topology) if topology.tensor_parallel_size > 1 else []
    kinds: tuple[tuple[str, Domain, list[tuple[int, ...]]], ...] = (
        ("tp", "device", tensor_parallel),
        ("pp", "device", pipelines),
        ("pp_cpu", "host", pipelines),
        ("dp", "device", topology.dp_groups()),
        ("dp_cpu", "host", topology.dp_groups()),
        ("ep", "device", topology.expert_groups()),
        ("pp_broadcast", "device", pipelines),  # comes with the handler of sampled tokens, after all others
    )
    return tuple(
        CommunicatorSpec(kind, kind if len(groups) == 1 else f"{kind}.{index}", domain, ranks)
        for kind, domain, groups in kinds
        for index, ranks in enumerate(groups)
    )


def pipeline_groups(topology: Topology) -> list[tuple[int, ...]]:
    """The pipelines: one for each (DP, TP) position, members in order of their stage."""
    dp, tp = range(topology.data_parallel_size), range(topology.tensor_parallel_size)
    stages = range(topology.pipeline_parallel_size)
    return [tuple(topology.rank(one, stage, other) for stage in stages) for one in dp for other in tp]


def tensor_parallel_groups(topology: Topology) -> list[tuple[int, ...]]:
    """One for each (DP, PP) position, members in order of their TP position."""
    dp, stages = range(topology.data_parallel_size), range(topology.pipeline_parallel_size)
    tp = range(topology.tensor_parallel_size)
    return [tuple(topology.rank(one, stage, other) for other in tp) for one in dp for stage in stages]
