"""Variants of the start-up of workers: groups, communicators, warm-up and capture, each with one planted mistake.

The mistakes are mutants of the engine's specification, section 9.5 (keys such as M-ST-1; see docs/keys.md).
"""

from __future__ import annotations

from dpsim.vllm.museum.startup import mutant
from dpsim.vllm.startup.forwards import Forwards
from dpsim.vllm.startup.groups import Groups, Kind, Kinds, Members
from dpsim.vllm.startup.worker import ALL2ALL, StartupWorker


@mutant("M-ST-1", "DISAGREEMENT:GROUP")
class OwnListsOnly(Groups):
    """A worker creates only the groups of which it is a member, although all workers must create all groups."""

    async def create(self, kind: str, members: Members) -> None:
        if self.rank.rank in members:
            await super().create(kind, members)


@mutant("M-ST-2", "DISAGREEMENT:GROUP")
class OtherOrder(Groups):
    """One worker creates the kinds of groups in another order than the others."""

    def in_order(self) -> list[Kind]:
        kinds = super().in_order()
        last = self.rank.rank == self.kinds.topology.world_size - 1
        return kinds[::-1] if last else kinds


@mutant("M-ST-3", "CRASH:NOBODYCAME")
class SiblingsWhereNeeded(Groups):
    """A worker of the last stage does not create the separate communicator of sampled tokens, because it only sends."""

    async def create_siblings(self) -> None:
        if self.own["pp"][-1] != self.rank.rank:
            await super().create_siblings()


@mutant("M-ST-4", "CRASH:VALUEERROR")
class RootZero(Groups):
    """A worker passes an index within the group as the root of a broadcast, although the call takes a global rank."""

    def root(self, members: Members) -> int:
        return 0


@mutant("M-ST-5", "MISMATCH:TRANSFER:COUNT")
class Swapped(Kinds):
    """The pipeline axis and the tensor-parallel axis change places in the layout of the world."""

    def in_order(self) -> list[Kind]:
        lists = dict(super().in_order())
        return list({**lists, "tp": lists["pp"], "pp": lists["tp"]}.items())


@mutant("M-ST-7", "CRASH:CAPTUREERROR")
class NotWarmedUp(Groups):
    """A worker does not use a communicator when it creates it, so the first use happens in a CUDA graph capture."""

    async def warm_up(self, kind: str) -> None:
        return


@mutant("M-ST-8", "HANG:COLLECTIVE:MISSING_RANK")
class SizesByMemory(Forwards):
    """A worker selects the sizes for its warm-up by the free memory of its device, so workers warm up differently."""

    def sizes(self) -> tuple[int, ...]:
        sizes = super().sizes()
        last = self.rank.rank == self.topology.world_size - 1
        return sizes[1:] if last else sizes


@mutant("M-ST-9", "HANG:COLLECTIVE:MISSING_RANK")
class SamplerOfOneReplica(Forwards):
    """The last stage warms up its sampler in the first replica only."""

    def warms_sampler(self) -> bool:
        return super().warms_sampler() and not self.topology.position(self.rank.rank).dp


@mutant("M-ST-10", "CRASH:NOMEMORY")
class SnapshotTooEarly(StartupWorker):
    """A worker measures free memory before it creates its communicators, so the KV cache also claims their memory."""

    async def create_groups(self, groups: Groups) -> int:
        free = self.memory.free - ALL2ALL
        await super().create_groups(groups)
        return free
