"""The program `dp_survivors`: after one rank dies, the other ranks continue on groups without it.

    main      agree ... all_to_all, read ... Aborted | meet the others that live, on groups without the dead: step again
    monitor   get .................... ("gone", 2): abort the groups of all

In a step of this program, the ranks agree on the host, and then make an all-to-all on the device, as expert parallelism
does. If a rank dies, the monitor thread of each rank aborts the communicators. The survivors use groups without the
dead rank, from the first step that some of them has not completed.

In the agreement, survivors have to ignore the column of the dead rank, whose zeros would change the decision.

The program survives one death and raises an error at a second. A rank that has completed all steps waits for all
others, sends LEFT (all ranks have completed all steps), and ends.

    protocol: dp_survivors
    faults: [{kind: die, rank: 2, at: {site: survivors.all_to_all, ordinal: 0}}]

Sources: vLLM issue 39942 and pull request 44428.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.interface import NO_STEP, Aborted, HostArray, Rank
from dpsim.contract.ops import Domain
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import Topology
from dpsim.vllm.engine.deaths import DEATHS, EngineDeadError
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.params.estimate import estimate_of

MODE = 2
"""The mode that every living rank sends. An empty column contains 0, which means eager mode."""


class Groups:
    """The communicators of all ranks, or those without the dead one, with their own stream and buffers.

    The reason: work on the old stream may never complete, or may still write to the old buffers.
    """

    def __init__(self, rank: Rank, dead: int | None) -> None:
        self.dead = dead
        self.host = rank.host(kind("dp_cpu", dead))
        self.device = rank.device(kind("ep", dead))
        self.stream = rank.stream(kind("main", dead))
        size = self.device.size
        self.own, self.got = (self.stream.alloc(size, "int32", f"survivors.{name}") for name in ("own", "got"))
        self.stream.launch("survivors.fill", fill, writes=[self.own], args=(rank.rank,))


class Outcome:
    """Why a monitor aborts one set. `dead`: the rank that died. `over`: all steps are complete. `lost`: two are dead.

    One for each set, because a later notice may arrive while the main thread still reads the first. The monitor writes
    it before the abort, and the main thread reads it after the abort.
    """

    def __init__(self) -> None:
        self.dead: int | None = None
        self.over = self.lost = False


class Breaking:
    """How a monitor frees the main thread: it aborts the communicators that the main thread uses."""

    def abort(self, rank: Rank, dead: int | None) -> None:
        rank.host(kind("dp_cpu", dead)).abort(site="survivors.abort_host")
        self.abort_device(rank, dead)

    def abort_device(self, rank: Rank, dead: int | None) -> None:
        """Abort the device communicator, so that the device stops waiting."""
        rank.device(kind("ep", dead)).abort(site="survivors.abort_device")


class Agreement:
    """The decision from the reduced table. Each column has the mode and the tokens of one rank."""

    def columns(self, table: HostArray, living: Sequence[int]) -> HostArray:
        """The columns of the living ranks."""
        return table[:, list(living)]

    def decided(self, table: HostArray, living: Sequence[int]) -> tuple[int, bool, int]:
        """The smallest mode, whether all ranks have equally many tokens, and the largest number of tokens."""
        modes, tokens = self.columns(table, living)
        return int(modes.min()), len(set(tokens.tolist())) == 1, int(tokens.max())


class SurvivorsSetup(NamedTuple):
    """What all ranks share: the number of ranks and of steps, and the classes that a variant may replace."""

    size: int
    steps: int
    pieces: Mapping[type[Any], type[Any]]


@register_protocol("dp_survivors")
class Survivors(Program[SurvivorsSetup]):
    """Ranks that survive the death of one: they continue on groups without it, and ignore its column."""

    threaded = True
    aborts = True
    heeds = ()
    ordered_by_flags = True

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args)

    def prepare(self, args: EngineArguments) -> SurvivorsSetup:
        topology = Topology.model_validate(args.topology)
        if topology.replica_size > 1 or topology.data_parallel_size == 1:
            raise Unsuitable("topology: expected data-parallel ranks alone, two or more")
        pieces = with_variant(self, args, {Breaking: Breaking, Agreement: Agreement})
        return SurvivorsSetup(topology.world_size, max(one.output_tokens for one in args.requests), pieces)

    def groups(self, prepared: SurvivorsSetup) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        made: list[tuple[str, Domain, Sequence[tuple[int, ...]]]] = []
        for dead in (None, *range(prepared.size)):
            living = [tuple(rank for rank in range(prepared.size) if rank != dead)]
            made += [(kind("dp_cpu", dead), "host", living), (kind("ep", dead), "device", living)]
        return made

    async def run(self, rank: Rank, prepared: SurvivorsSetup) -> None:
        await Survivor(rank, prepared).run()


class Survivor:
    """One rank. `outcomes`: by the dead rank, why the monitor aborts the set of communicators without it."""

    def __init__(self, rank: Rank, setup: SurvivorsSetup) -> None:
        self.rank = rank
        self.setup = setup
        self.outcomes: dict[int | None, Outcome] = {dead: Outcome() for dead in (None, *range(setup.size))}
        self.using = Groups(rank, None)
        self.agreement = setup.pieces[Agreement]()
        self.made = 0

    async def run(self) -> None:
        others = [other for other in range(self.setup.size) if other != self.rank.rank]
        for other in others:
            self.rank.watch(other, DEATHS, "survivors.watch")
        monitor = self.rank.start("monitor", self.monitor)
        while not await self.continues():
            outcome = self.outcomes[self.using.dead]
            self.using = Groups(self.rank, outcome.dead)
        for one in (*others, self.rank.rank):
            self.rank.send(one, DEATHS, ("LEFT", self.rank.rank), "survivors.left")
        await monitor.join("survivors.join")

    async def continues(self) -> bool:
        """Run steps. Returns True at the end of all steps, and False if a rank died."""
        try:
            if self.using.dead is not None:
                self.made = await self.least(self.made)
            while self.made < self.setup.steps:
                self.rank.step = self.made
                await self.step()
                self.made += 1
            await self.using.host.barrier(site="survivors.end")
        except Aborted:
            outcome = self.outcomes[self.using.dead]
            if outcome.lost:
                raise EngineDeadError("two ranks are gone") from None
            assert outcome.over or outcome.dead is not None, "no other rank died"
            return outcome.over
        return True

    async def least(self, made: int) -> int:
        sent = np.array([made], np.int32)
        self.rank.step = NO_STEP  # the abort ended ranks in different steps
        return int((await self.using.host.all_reduce(sent, op="min", site="survivors.meet"))[0])

    async def step(self) -> None:
        """One step of the living ranks. AssertionError: they agree on something wrong, or a message is missing."""
        living = self.using.host.ranks
        table = np.zeros((2, self.setup.size), np.int32)
        table[:, self.rank.rank] = MODE, self.made + 1
        table = await self.using.host.all_reduce(table, site="survivors.agree")
        decided = self.agreement.decided(table, living)
        assert decided == (MODE, True, self.made + 1), f"ranks {living} agree on {decided}"
        using = self.using
        using.device.all_to_all(using.got, using.own, using.stream, site="survivors.all_to_all")
        received = await using.got.read("survivors.read")
        assert tuple(received) == living, f"ranks {living} sent {received}"

    async def monitor(self, rank: Rank) -> None:
        """The program of the monitor thread: it receives the notices of deaths."""
        notices, breaking = rank.mailbox(DEATHS), self.setup.pieces[Breaking]()
        dead: int | None = None
        while True:
            outcome = self.outcomes[dead]
            match await notices.get("survivors.notice", idle=True):
                case "LEFT", int(other):
                    outcome.over = True
                    if other != rank.rank:
                        breaking.abort(rank, dead)
                    return
                case "gone", int(other):
                    outcome.dead, outcome.lost = other, dead is not None
                    breaking.abort(rank, dead)
                    dead = other


def kind(name: str, dead: int | None) -> str:
    """The name of a group: of all ranks, or of all but `dead`."""
    return name if dead is None else f"{name}_without_{dead}"


def fill(own: Any, value: int) -> None:
    """Kernel: write one value into all elements."""
    own[:] = value
