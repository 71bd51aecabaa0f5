"""The communicators of a topology: which groups of ranks exist, and what they are called.

    dp        device (NCCL), one for each group of data-parallel peers
    dp_cpu    host (gloo), the same groups
    ep        device, one for each pipeline stage: the ranks among which experts are spread

and, where there is more than one stage, for each pipeline

    pp            device: hidden states from stage to stage
    pp_cpu        host: what they are, before they come
    pp_broadcast  device, a sibling of pp: sampled tokens on their way back

A group is called by its kind where it is the only one of its kind, else `dp.0`, `dp.1`, ...; scenarios address
collectives by these names.

    >>> [spec.name for spec in communicators(Topology(data_parallel_size=2, tensor_parallel_size=2))]
    ['dp.0', 'dp.1', 'dp_cpu.0', 'dp_cpu.1', 'ep']

    >>> [spec.name for spec in communicators(Topology(pipeline_parallel_size=2))][4:]
    ['ep.0', 'ep.1', 'pp', 'pp_cpu', 'pp_broadcast']

Sources: specification chapters 9.2 and 6.6.
"""

from __future__ import annotations

from dpsim.config import Topology
from dpsim.ops import Domain
from dpsim.world import CommunicatorSpec


def communicators(topology: Topology) -> tuple[CommunicatorSpec, ...]:
    """All communicators, by kind, then by the lowest rank. Groups of one rank exist too."""
    pipelines = pipeline_groups(topology) if topology.pipeline_parallel_size > 1 else []
    kinds: tuple[tuple[str, Domain, list[tuple[int, ...]]], ...] = (
        ("dp", "device", topology.dp_groups()),
        ("dp_cpu", "host", topology.dp_groups()),
        ("ep", "device", topology.expert_groups()),
        ("pp", "device", pipelines),
        ("pp_cpu", "host", pipelines),
        ("pp_broadcast", "device", pipelines),
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
