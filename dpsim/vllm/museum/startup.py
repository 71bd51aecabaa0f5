"""Variants of the start-up of an engine group: each class is the healthy program with one planted mistake.

The mistakes are mutants of the engine's specification, sections 8.7 and 9.5 (keys such as M-CF-4; see docs/keys.md).
Mutants of the configuration check need a start that the front end refuses. A refused start is no hang, so their twin is
a program in which each participant reports the reason and exits without an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from dpsim.contract.interface import Rank, Store
from dpsim.contract.registry import register_variant
from dpsim.vllm.config import InitPorts, ParallelConfig, Surroundings
from dpsim.vllm.config.kv_memory import UNKNOWN
from dpsim.vllm.programs.startup import Startup, StartupSetup
from dpsim.vllm.startup.compared import Compared, ComparedFields, Fields
from dpsim.vllm.startup.conversation import Child
from dpsim.vllm.startup.coordinator import Coordinator
from dpsim.vllm.startup.engine import EngineCore
from dpsim.vllm.startup.errors import StartupError
from dpsim.vllm.startup.ports import ListedPorts

HEALTHY = "healthy: the program with additional code, the twin of"


def mutant(
    name: str, expected: str | None, form: str = "0.33", reason: str = "", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="startup", form=form, expected=expected, reason=reason, twin=twin)


# ---- the comparison of configurations


@mutant("start-refused", None, reason=f"{HEALTHY} M-CF-2, M-CF-3, M-CF-14 and eplb-flag-mismatch")
class Refused(Startup):
    """After a refused start, each participant reports the reason and exits without an exception."""

    probes = ()
    replaced = MappingProxyType({Compared: ComparedFields})

    async def run(self, rank: Rank, prepared: StartupSetup) -> None:
        with suppress(StartupError):
            await super().run(rank, prepared)

    async def serve(self, rank: Rank, prepared: StartupSetup) -> None:
        with suppress(StartupError):
            await super().serve(rank, prepared)


@mutant("M-CF-1", "CRASH:CONFIGMISMATCH")
class HashesTheRank(Compared):
    """The configuration hash includes the data-parallel rank, so no two engines have the same hash."""

    def hash(self, parallel: ParallelConfig) -> str:
        return f"{super().hash(parallel)} {parallel.data_parallel_rank}"


class Forgetful(ComparedFields):
    """A comparison that omits the fields in `forgotten`."""

    forgotten: tuple[str, ...] = ()

    def hash(self, parallel: ParallelConfig) -> str:
        return ""

    def hashed(self, parallel: ParallelConfig) -> Fields:
        return tuple(field for field in super().hashed(parallel) if field[0] not in self.forgotten)


class ForgetsSync(Forgetful):
    forgotten = ("disable_nccl_for_dp_synchronization",)


@mutant("M-CF-2", "HANG:COLLECTIVE", twin="start-refused")
class SyncNotCompared(Refused):
    """The front end does not compare whether ranks agree over gloo or NCCL, so the first agreement hangs."""

    replaced = MappingProxyType({Compared: ForgetsSync})


class ForgetsBalancedness(Forgetful):
    forgotten = ("eplb_config.log_balancedness",)


@mutant("M-CF-3", "*:COLLECTIVE:*", twin="start-refused")
class BalancednessNotCompared(Refused):
    """The front end does not compare whether engines log the balance of their experts, which needs a collective."""

    replaced = MappingProxyType({Compared: ForgetsBalancedness})


class ForgetsShapes(ComparedFields):
    def shaping(self, config: Any) -> Fields:
        return ()


@mutant("M-CF-14", "*:COLLECTIVE:*", twin="start-refused")
class ShapesNotCompared(Refused):
    """The front end does not compare graph sizes, and no hash includes them.

    An engine with fewer sizes captures fewer graphs, and the others hang.
    """

    replaced = MappingProxyType({Compared: ForgetsShapes})


# ---- ports


@mutant("M-CF-4", "CRASH:NOBODYCAME", form="0.14")
class FirstInFirstOut(EngineCore):
    """One engine takes its ports from the front of the list, the others from the end."""

    def own_ports(self) -> InitPorts:
        ports = super().own_ports()
        if self.engine == self.layout.engines - 1:
            ports.ports.reverse()
        return ports


@mutant("M-CF-5", "CRASH:NOBODYCAME")
class RetriesAlone(ListedPorts):
    """The first member of a group binds the next port if one is taken, and the others do not learn the new port."""


@mutant("M-CF-12", "CRASH:NOBODYCAME", form="0.14")
class CompletedTwice(EngineCore):
    """One engine completes its parallel configuration once more after INIT, and this takes a port from the list."""

    def written(self, *init: Any) -> None:
        super().written(*init)
        if self.engine == self.layout.engines - 1:
            self.parallel = self.parallel.post_init(Surroundings())


@mutant("M-ST-6", "CRASH:NOBODYCAME", form="0.14")
class WorkersFirst(EngineCore):
    """An engine starts its workers before it creates the engine DP group, so the workers take the group's port."""

    async def start(self, ports: InitPorts, workers: Store) -> None:
        self.spawn(ports.copy(), workers)
        await self.make_group(ports)


@mutant("M-ST-14", "CRASH:NOBODYCAME", form="0.14")
class PopsOnceMore(EngineCore):
    """On one node an engine takes one port too many from the list before it copies the list for its workers."""

    def spawn(self, ports: InitPorts, workers: Store) -> None:
        if self.rank.node:
            ports.get_next_dp_init_port()
        super().spawn(ports, workers)


# ---- the agreement on KV cache memory


@mutant("M-CF-6", "CRASH:NOMEMORY")
class Largest(EngineCore):
    """All replicas take the number of KV cache blocks of the largest replica."""

    def reduced(self, offers: list[int]) -> int:
        return max(offers)


@mutant("M-CF-7", "CRASH:ASSERTIONERROR")
class SendsMinusOne(EngineCore):
    """A replica that elastic scaling adds sends -1 as its memory, which is the smallest of all values."""

    def offer(self, own: int) -> int:
        return UNKNOWN if self.rank.node else own


@mutant("M-CF-9", "HANG:COLLECTIVE:MISSING_RANK")
class SyncsAlone(EngineCore):
    """Only one replica joins the agreement on KV cache memory."""

    def syncs(self) -> bool:
        return super().syncs() and not self.engine


# ---- READY


@mutant("M-ST-11", "HANG:MAILBOX:NO_MESSAGE")
class ReadyTooEarly(EngineCore):
    """An engine reports READY before its subscription to the coordinator is complete, and may miss the first START."""

    async def be_ready(self, head: Child) -> None:
        self.send_ready(head)
        await self.subscribe()
        await head.obey("serve")


@mutant("M-ST-12", "HANG:MAILBOX:NO_MESSAGE")
class CountsOneLess(Coordinator):
    """The coordinator reports READY when it still expects one subscription."""

    def expected(self) -> int:
        return super().expected() - 1


@mutant("M-ST-13", "CRASH:SAMESEEDS")
class SeedOfRank(EngineCore):
    """The random seed is the data-parallel rank, which each replica of a dense model has reset to 0."""

    def seed(self) -> int:
        return self.parallel.independent().data_parallel_rank
