"""Variants of configuration and ports at start-up: bugs that engines really had, each in about ten lines."""

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
    def fields_to_send(self, config: Any, parallel: ParallelConfig) -> ConfigFields:
        return ConfigFields("", ())


@mutant("eplb-flag-mismatch", "*:COLLECTIVE:*", twin="start-refused")
class NothingIsCompared(Refused):
    """The front end compares no configuration: one node logs the balance of experts, and only it joins that all-reduce.

    Vllm issue 26187 reports this. Pull request 26218 compares a hash in the handshake.
    """

    replaced = MappingProxyType({Compared: ComparesNothing})


@mutant("numa-bind-hash", "CRASH:CONFIGMISMATCH")
class LocalFieldsCompared(ComparedFields):
    """The hash includes fields that differ between healthy nodes, so no cluster starts (vllm pull request 41098)."""

    def hashed(self, parallel: ParallelConfig) -> Fields:
        local = getattr(parallel, "numa_bind_nodes", None)
        return (*super().hashed(parallel), ("numa_bind_nodes", json.dumps(local)))


@mutant("multinode-shape-config", "MISMATCH:COLLECTIVE:COUNT")
class OwnLimits(StartupWorker):
    """A worker on a separate node sizes the memory profile run by its own command line, and not by the engine's.

    Vllm pull request 44718 repairs this.
    """

    def __init__(self, rank: Any, layout: Any, config: Any, own: Any, *more: Any) -> None:
        super().__init__(rank, layout, own, own, *more)


@mutant("port-toctou", "CRASH:NOBODYCAME")
class FoundThenBound(ListedPorts):
    """A member finds a port free and binds it later, when another program may have taken it; then it retries alone.

    The other members still connect to the first port. Vllm issues 39015 and 28498 report this. Pull request 51018 binds
    the port when it selects it.
    """
