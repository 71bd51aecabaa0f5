"""Adds one data-parallel rank to a scenario: the new rank receives copies of the last rank's requests.

    requests of 2 ranks, in turn     a b | c d | e
    requests of 3 ranks, in turn     a b b | c d d | e

vLLM distributes requests to data-parallel ranks in turn, by arrival. So this module duplicates each request of the last
rank, and the other ranks keep theirs. A front end that balances by load may distribute the requests in another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dpsim.vllm.config import PartialConfig, Topology
from dpsim.vllm.params.workload.model import RequestSpec

C = TypeVar("C", bound=PartialConfig)


def topology(before: Topology) -> Topology:
    """Returns the topology with one more data-parallel rank."""
    return before.model_copy(update={"data_parallel_size": before.data_parallel_size + 1})


def requests(before: Topology, own: Sequence[RequestSpec]) -> tuple[RequestSpec, ...]:
    """Returns the requests `own`, and those of the last data-parallel rank of `before` twice."""
    ranks, spread = before.data_parallel_size, list[RequestSpec]()
    for place, request in enumerate(sorted(own, key=lambda one: one.arrival)):
        spread += [request] * (2 if place % ranks == ranks - 1 else 1)
    return tuple(spread)


def settings(before: Topology, own: Mapping[int, C]) -> dict[int, C]:
    """Returns the settings of single ranks, and those of the last data-parallel rank a second time for the new rank."""
    each = before.world_size // before.data_parallel_size
    return {**own, **{rank + each: one for rank, one in own.items() if rank >= before.world_size - each}}
