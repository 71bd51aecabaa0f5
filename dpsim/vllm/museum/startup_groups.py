"""Variants of the start-up of workers: groups, communicators, warm-up and capture, the mutants of specification 9.5.

"One worker" is the last of them.

    protocol: {name: startup, variant: M-ST-1}
"""

from __future__ import annotations

from dpsim.vllm.museum.startup import mutant
from dpsim.vllm.startup.forwards import Forwards
from dpsim.vllm.startup.groups import Groups, Kind, Kinds, Members
from dpsim.vllm.startup.worker import ALL2ALL, StartupWorker


@mutant("M-ST-1", "DISAGREEMENT:GROUP")
class OwnListsOnly(Groups):
    """A worker creates the groups of which it is a member, and no others."""

    async def create(self, kind: str, members: Members) -> None:
        if self.rank.rank in members:
            await super().create(kind, members)


@mutant("M-ST-2", "DISAGREEMENT:GROUP")
class OtherOrder(Groups):
    """One worker creates the kinds in another order."""

    def in_order(self) -> list[Kind]:
        kinds = super().in_order()
        last = self.rank.rank == self.kinds.topology.world_size - 1
        return kinds[::-1] if last else kinds


@mutant("M-ST-3", "CRASH:NOBODYCAME")
class SiblingsWhereNeeded(Groups):
    """The last stage only sends sampled tokens, and creates no sibling for them."""

    async def create_siblings(self) -> None:
        if self.own["pp"][-1] != self.rank.rank:
            await super().create_siblings()


@mutant("M-ST-4", "CRASH:VALUEERROR")
class RootZero(Groups):
    """The root of a broadcast is a place in the group, although the call takes a global rank."""

    def root(self, members: Members) -> int:
        return 0


@mutant("M-ST-5", "MISMATCH:TRANSFER:COUNT")
class Swapped(Kinds):
    """The axes of stages and of tensor-parallel ranks are swapped in the layout of the world."""

    def in_order(self) -> list[Kind]:
        lists = dict(super().in_order())
        return list({**lists, "tp": lists["pp"], "pp": lists["tp"]}.items())


@mutant("M-ST-7", "CRASH:CAPTUREERROR")
class NotWarmedUp(Groups):
    """Workers do not use their communicators when they make them, so the first use is in a capture."""

    async def warm_up(self, kind: str) -> None:
        return


@mutant("M-ST-8", "HANG:COLLECTIVE:MISSING_RANK")
class SizesByMemory(Forwards):
    """The free memory of a device decides which sizes its worker warms up."""

    def sizes(self) -> tuple[int, ...]:
        sizes = super().sizes()
        last = self.rank.rank == self.topology.world_size - 1
        return sizes[1:] if last else sizes


@mutant("M-ST-9", "HANG:COLLECTIVE:MISSING_RANK")
class SamplerOfOneReplica(Forwards):
    """The last stage of the first replica alone warms up its sampler."""

    def warms_sampler(self) -> bool:
        return super().warms_sampler() and not self.topology.position(self.rank.rank).dp


@mutant("M-ST-10", "CRASH:NOMEMORY")
class SnapshotTooEarly(StartupWorker):
    """A worker measures its memory before it has communicators, and the KV cache then takes their memory as well."""

    async def create_groups(self, groups: Groups) -> int:
        free = self.memory.free - ALL2ALL
        await super().create_groups(groups)
        return free
