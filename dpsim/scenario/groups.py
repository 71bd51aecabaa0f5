"""The communicators of a topology: which groups of ranks exist, and what they are called.

    dp        device (NCCL), one for each group of data-parallel peers
    dp_cpu    host (gloo), the same groups
    ep        device, one for each pipeline stage: the ranks among which experts are spread

A group is called by its kind where it is the only one of its kind, else `dp.0`, `dp.1`, ...; scenarios address
collectives by these names.

    >>> [spec.name for spec in communicators(Topology(data_parallel_size=2, tensor_parallel_size=2))]
    ['dp.0', 'dp.1', 'dp_cpu.0', 'dp_cpu.1', 'ep']

Source: specification chapter 9.2.
"""

from __future__ import annotations

from dpsim.config import Topology
from dpsim.ops import Domain
from dpsim.world import CommunicatorSpec


def communicators(topology: Topology) -> tuple[CommunicatorSpec, ...]:
    """All communicators, by kind, then by the lowest rank. Groups of one rank exist too."""
    kinds: tuple[tuple[str, Domain, list[tuple[int, ...]]], ...] = (
        ("dp", "device", topology.dp_groups()),
        ("dp_cpu", "host", topology.dp_groups()),
        ("ep", "device", topology.expert_groups()),
    )
    return tuple(
        CommunicatorSpec(kind, kind if len(groups) == 1 else f"{kind}.{index}", domain, ranks)
        for kind, domain, groups in kinds
        for index, ranks in enumerate(groups)
    )
