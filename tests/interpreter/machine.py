"""The same script on dpsim, in all schedules.

seen = explore_script(script, schedules=500)
seen.outcomes       # as the interpreter writes them
seen.bad            # classes of findings about races and memory, in any schedule
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpsim.checks.finding import matches
from dpsim.checks.judge import judge
from dpsim.contract.interface import Buffer, DeviceCommunicator, Event, HostArray, HostCommunicator, Rank, Stream
from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.program import Program
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import CommunicatorSpec, Kill, Run, World
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.backend import SimBackend
from tests.interpreter import meeting
from tests.interpreter.interpreter import Outcome, told
from tests.interpreter.language import GONE, MODULUS, Instruction, Script, Shape, View, learned
from tests.programs import OWN, copy, set_to


class Told(Exception):
    """What a script raises."""


@dataclass
class Seen:
    """`complete`: all schedules were run."""

    outcomes: set[Outcome] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    runs: int = 0
    complete: bool = False


def explore_script(script: Script, schedules: int = 1_000) -> Seen:
    """What all schedules show, or the first ones."""
    seen, strategy, world = Seen(), Dpor(), world_of_script(script)
    while seen.runs < schedules:
        if not strategy.begin():
            seen.complete = strategy.exhausted
            break
        try:
            run = SimBackend(choose=strategy, memory=False).run_program(world, Interpreted(), script)
        except CutOff:
            strategy.end(whole=False)
            continue
        finally:
            seen.runs += 1
        seen.outcomes.add(outcome_of(run, script))
        seen.bad |= {finding.klass for finding in judge(world, run) if _about_memory(finding.klass)}
        strategy.end(whole=True)
    return seen


def _about_memory(klass: str) -> bool:
    return matches(klass, "RACE") or matches(klass, "STALE")


def world_of_script(script: Script) -> World:
    specs = [CommunicatorSpec(kind, kind, "host", members) for kind, members in script.hosts]
    specs += [CommunicatorSpec(kind, kind, "device", members) for kind, members in script.devices]
    specs += [CommunicatorSpec(OWN, f"{OWN}{rank}", "host", (rank,)) for rank in range(script.size)]
    kills = tuple(Kill(rank, 0) for rank in script.mortal)
    return World(script.size, tuple(specs), kills=kills, residency=script.residency)


def outcome_of(run: Run, script: Script) -> Outcome:
    noted = [
        tuple(record[DECISION_VALUE] for record in journal if record[KIND] == "decision") for journal in run.journals
    ]
    return told([*zip(run.ends, noted, strict=True)], script)


class Interpreted(Program[Script]):
    """Does what a script says."""

    async def run(self, rank: Rank, prepared: Script) -> None:
        rank.step = 0
        await _Follower(rank, prepared).follow()


class _Follower:
    def __init__(self, rank: Rank, script: Script) -> None:
        self.rank = rank
        self.script = script
        self.number = rank.rank + 1
        self.pc = 0
        self.ended = False
        self.buffers: dict[str, Buffer] = {}
        self.events: dict[str, Event] = {}
        self.works: dict[str, Awaitable[HostArray]] = {}

    async def follow(self) -> None:
        for place, instruction in enumerate(self.script.ranks[self.rank.rank]):
            self.pc = place
            await self.do(instruction)
            if self.ended:
                break

    async def do(self, instruction: Instruction) -> None:
        what, *how = instruction
        await getattr(self, f"do_{what}")(*how)

    def learn(self, value: Any) -> None:
        if isinstance(value, tuple) and value[:1] == ("gone",):
            value = GONE + value[1]
        if isinstance(value, np.ndarray):
            value = tuple(int(element) for element in value)
        self.rank.decide(f"learned{self.pc}", (self.pc, value), OWN)
        self.number = learned(self.number, value)

    def stream(self, name: str) -> Stream:
        return self.rank.stream(name)

    def view(self, view: View) -> Buffer:
        buffer, first, end = view
        return self.buffers[buffer].view(first, end)

    @property
    def site(self) -> str:
        return f"at{self.pc}"

    async def do_odd(self, instruction: Instruction) -> None:
        if self.number % 2:
            await self.do(instruction)

    async def do_stop(self) -> None:
        self.ended = True

    async def do_raise(self) -> None:
        raise Told

    async def do_post(self, to: int, box: str) -> None:
        self.rank.send(to, box, self.number + 1, self.site)

    async def do_watch(self, peer: int, box: str) -> None:
        self.rank.watch(peer, box, self.site)

    async def do_poll(self, box: str) -> None:
        self.learn(await self.rank.mailbox(box).poll(self.site))

    async def do_get(self, box: str) -> None:
        self.learn(await self.rank.mailbox(box).get(self.site))

    async def do_idle(self, box: str) -> None:
        self.learn(await self.rank.mailbox(box).get(self.site, idle=True))

    async def do_start(self, handle: str, kind: str, op: str, shape: Shape) -> None:
        group = self.rank.host(kind)
        size = meeting.brings(op, shape, group.ranks, self.rank.rank)
        self.works[handle] = self.host_call(group, op, shape, np.full(size, self.number, np.int32))

    def host_call(self, group: HostCommunicator, op: str, shape: Shape, array: HostArray) -> Awaitable[HostArray]:
        site = self.site
        match op:
            case "all_reduce":
                return group.all_reduce(array, site=site)
            case "broadcast":
                return group.broadcast(array, shape[1], site=site)
            case "reduce":
                return group.reduce(array, shape[1], site=site)
            case "all_gather":
                return group.all_gather(array, sizes=shape, site=site)
            case "reduce_scatter":
                return group.reduce_scatter(array, sizes=shape, site=site)
            case "all_to_all":
                column = [row[group.index] for row in shape]
                return group.all_to_all(array, source_sizes=shape[group.index], output_sizes=column, site=site)
            case "barrier":
                return group.barrier(site=site)
            case "send":
                return group.send(array, shape[1], site=site)
            case "recv":
                return group.recv(shape[0], "int32", shape[1], site=site)
        raise ValueError(op)

    async def do_await(self, handle: str) -> None:
        self.learn(await self.works[handle])

    async def do_alloc(self, buffer: str, stream: str, size: int) -> None:
        self.buffers[buffer] = self.stream(stream).alloc(size, "int32", self.site)

    async def do_free(self, buffer: str) -> None:
        self.buffers[buffer].free()

    async def do_mark(self, buffer: str, stream: str) -> None:
        self.buffers[buffer].record_stream(self.stream(stream))

    async def do_fill(self, stream: str, view: View) -> None:
        self.stream(stream).launch(self.site, set_to, writes=[self.view(view)], args=(self.number,))

    async def do_copy(self, stream: str, source: View, target: View) -> None:
        self.stream(stream).launch(self.site, copy, reads=[self.view(source)], writes=[self.view(target)])

    async def do_mix(self, stream: str, source: View, target: View) -> None:
        into = self.view(target)
        self.stream(stream).launch(self.site, mix, reads=[self.view(source), into], writes=[into])

    async def do_read(self, view: View, stream: str | None) -> None:
        self.learn(await self.view(view).read(self.site, None if stream is None else self.stream(stream)))

    async def do_record(self, event: str, stream: str) -> None:
        self.events[event] = self.stream(stream).record()

    async def do_wait(self, stream: str, event: str) -> None:
        self.stream(stream).wait(self.events[event])

    async def do_join(self, stream: str, other: str) -> None:
        self.stream(stream).wait_stream(self.stream(other))

    async def do_query(self, event: str) -> None:
        self.learn(await self.events[event].query(self.site))

    async def do_sync(self, event: str) -> None:
        await self.events[event].synchronize(self.site)
        self.learn(())

    async def do_device(self, kind: str, stream: str, op: str, shape: Shape, views: tuple[View, ...]) -> None:
        group, on, site = self.rank.device(kind), self.stream(stream), self.site
        output, source = self.view(views[0]), self.view(views[-1])
        match op:
            case "all_reduce":
                group.all_reduce(output, on, site=site)
            case "broadcast":
                group.broadcast(output, shape[1], on, site=site)
            case "reduce":
                group.reduce(output, shape[1], on, site=site)
            case "all_gather":
                group.all_gather(output, source, on, sizes=shape, site=site)
            case "reduce_scatter":
                group.reduce_scatter(output, source, on, sizes=shape, site=site)
            case "all_to_all":
                column = [row[group.index] for row in shape]
                row = shape[group.index]
                group.all_to_all(output, source, on, source_sizes=row, output_sizes=column, site=site)
            case _:
                raise ValueError(op)

    async def do_transfer(self, kind: str, stream: str, transfer: Any) -> None:
        self.transfer(self.rank.device(kind), stream, transfer, self.site)

    async def do_group(self, kind: str, stream: str, transfers: Any) -> None:
        group = self.rank.device(kind)
        with group.coalesced(self.stream(stream)):
            for number, transfer in enumerate(transfers):
                self.transfer(group, stream, transfer, f"{self.site}.{number}")

    def transfer(self, group: DeviceCommunicator, stream: str, transfer: Any, site: str) -> None:
        way, view, peer = transfer
        (group.send if way == "send" else group.recv)(self.view(view), peer, self.stream(stream), site=site)


def mix(source: Any, _: Any, target: Any) -> None:
    target[:] = (3 * target + source) % MODULUS
