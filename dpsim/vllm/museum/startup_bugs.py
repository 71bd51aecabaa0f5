"""Historical bugs of configuration and ports, area 5: bugs of engines, each in ten lines.

protocol: {name: startup, variant: port-toctou}       ports: [{port: 20004, late: true}]
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from dpsim.vllm.config import ParallelConfig
from dpsim.vllm.museum.startup import Refused, mutant
from dpsim.vllm.startup.compared import Compared, ComparedFields, ConfigFields, Fields
from dpsim.vllm.startup.ports import ListedPorts
from dpsim.vllm.startup.worker import StartupWorker


class ComparesNothing(Compared):
    def told(self, config: Any, parallel: ParallelConfig) -> ConfigFields:
        return ConfigFields("", ())


@mutant("eplb-flag-mismatch", "*:COLLECTIVE:*", twin="start-refused")
class NothingIsCompared(Refused):
    """One node logs the balancedness of experts, and it alone makes the all-reduce for that.

    Vllm issue 26187, pull request 26218, which compares a hash in the handshake.
    """

    replaced = MappingProxyType({Compared: ComparesNothing})


@mutant("numa-bind-hash", "CRASH:CONFIGMISMATCH")
class LocalFieldsCompared(ComparedFields):
    """The hash covers fields that differ between healthy nodes: no cluster comes up (vllm pull request 41098)."""

    def hashed(self, parallel: ParallelConfig) -> Fields:
        local = getattr(parallel, "numa_bind_nodes", None)
        return (*super().hashed(parallel), ("numa_bind_nodes", json.dumps(local)))


@mutant("multinode-shape-config", "MISMATCH:COLLECTIVE:COUNT")
class OwnLimits(StartupWorker):
    """A worker on a separate node sizes the memory profile by its own command line.

    Vllm pull request 44718.
    """

    def __init__(self, rank: Any, layout: Any, config: Any, own: Any, *more: Any) -> None:
        super().__init__(rank, layout, own, own, *more)


@mutant("port-toctou", "CRASH:NOBODYCAME")
class FoundThenBound(ListedPorts):
    """A member finds a port free, and binds it when another program may have taken it. It retries with the next.

    Vllm issues 39015 and 28498; pull request 51018 picks the port when it is bound.
    """
