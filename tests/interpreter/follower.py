"""Runs the instructions of a script on dpsim, one after the other, as a rank or as a thread of a rank."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dpsim.contract.interface import (
    Buffer,
    DeviceCommunicator,
    Event,
    HostArray,
    HostCommunicator,
    HostWork,
    Rank,
    Received,
    Stream,
    Thread,
)
from tests.interpreter import meeting, modules
from tests.interpreter.language import GONE, MODULUS, Instruction, Script, Shape, View, learned
from tests.programs import OWN, copy, set_to

EACH: dict[str, Any] = {"per_replay": True}


class Told(Exception):
    """The exception that the instruction `raise` of a script raises."""


class Follower:
    """Runs the instructions of one thread. `shared`: the list that all threads of the rank share."""

    def __init__(self, rank: Rank, script: Script, number: int, shared: list[int], first: int = 0) -> None:
        self.rank = rank
        self.script = script
        self.number = number
        self.pc = self.first = first
        self.shared = shared
        self.threads: dict[str, Thread] = {}
        self.ended = False
        self.kept = ""
        self.floats: set[str] = set()
        self.buffers: dict[str, Buffer] = {}
        self.events: dict[str, Event] = {}
        self.works: dict[str, Any] = {}

    async def follow(self) -> None:
        for place, instruction in enumerate(self.script.ranks[self.rank.rank][self.first :], self.first):
            if instruction[0] == "thread" or self.ended:
                break
            self.pc = place
            await self.do(instruction)

    async def do(self, instruction: Instruction) -> None:
        what, *how = instruction
        await getattr(self, f"do_{what}")(*how)

    def note(self, value: Any) -> None:
        self.rank.decide(f"learned{self.pc}", (self.pc, value), OWN)

    def learn(self, value: Any) -> None:
        if isinstance(value, tuple) and value[:1] == ("gone",):
            value = GONE + value[1]
        if isinstance(value, Received):
            value = (value.source, *(int(element) for element in value.array))
        if isinstance(value, np.ndarray):
            value = tuple(int(element) for element in value)
        self.note(value)
        self.number = learned(self.number, value)

    def stream(self, name: str) -> Stream:
        return self.rank.stream(name)

    def view(self, view: View) -> Buffer:
        buffer, first, end = view
        return self.buffers[buffer].view(first, end)

    @property
    def site(self) -> str:
        return f"at{self.pc}{self.kept}"

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

    async def do_within(self, box: str, ms: int) -> None:
        self.learn(await self.rank.mailbox(box).get(self.site, timeout_ns=ms * 1_000_000))

    async def do_sleep(self, ms: int) -> None:
        await self.rank.sleep(ms * 1_000_000, self.site)

    # ---- instructions about threads

    async def do_spawn(self, name: str) -> None:
        first = self.script.ranks[self.rank.rank].index(("thread", name)) + 1
        script, number, shared = self.script, self.number, self.shared
        things = () if script.promise else (self.buffers, self.events)

        async def run(rank: Rank) -> None:
            follower = Follower(rank, script, number, shared, first)
            if things:
                follower.buffers, follower.events = things
            await follower.follow()

        self.threads[name] = self.rank.start(name, run, site=self.site)

    async def do_ended(self, name: str) -> None:
        await self.threads[name].join(self.site)
        self.learn(())

    async def do_set(self, flag: str) -> None:
        self.rank.flag(flag).set(self.site)

    async def do_flag(self, flag: str) -> None:
        await self.rank.flag(flag).wait(self.site)
        self.learn(())

    async def do_append(self) -> None:
        self.shared.append(self.pc)

    async def do_show(self) -> None:
        self.note(tuple(self.shared))

    # ---- instructions about objects of modules

    async def do_put(self, way: str) -> None:
        modules.WAYS[way][0](self.number)

    async def do_look(self, way: str) -> None:
        if way == "pid":
            return self.rank.decide(f"pid{self.pc}", os.getpid(), OWN)
        if way == "hash":
            return self.rank.decide(f"hash{self.pc}", hash("a string"), OWN)
        self.note(modules.WAYS[way][1]())

    async def do_kernel(self, name: str, stream: str, view: View) -> None:
        self.stream(stream).launch(self.site, modules.KERNELS[name], writes=[self.view(view)], args=(self.number,))

    # ---- collectives and all other instructions

    async def do_start(self, handle: str, kind: str, op: str, shape: Shape) -> None:
        if op == "make":
            self.works[handle] = self.rank.group(kind, self.script.members(kind), site=self.site)
            return
        group = self.rank.host(kind)
        if op == "float":
            reduction, values = shape
            mine = np.array([float(values[group.index])], np.float32)
            self.works[handle] = group.all_reduce(mine, op=reduction, site=self.site)
            self.floats.add(handle)
            return
        size = meeting.brings(op, shape, group.ranks, self.rank.rank)
        self.works[handle] = self.host_call(group, op, shape, np.full(size, self.number, np.int32))

    def host_call(self, group: HostCommunicator, op: str, shape: Shape, array: HostArray) -> HostWork[Any]:
        site = self.site
        match op:
            case "all_reduce":
                return group.all_reduce(array, site=site)
            case "broadcast":
                return group.broadcast(array, shape[1], site=site)
            case "reduce":
                return group.reduce(array, shape[1], site=site)
            case "gather":
                return group.gather(array, shape[1], site=site)
            case "scatter":
                return group.scatter(array, shape[1], site=site)
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
            case "any":
                return group.recv_any(shape[0], "int32", site=site)
            case "recv":
                return group.recv(shape[0], "int32", shape[1], site=site)
        raise ValueError(op)

    async def do_await(self, handle: str) -> None:
        got = await self.works[handle]
        self.learn(() if handle in self.floats or isinstance(got, HostCommunicator) else got)

    async def do_asks(self, handle: str) -> None:
        self.learn(await self.works[handle].query(self.site))

    async def do_alloc(self, buffer: str, stream: str, size: int, *each: str) -> None:
        self.buffers[buffer] = self.stream(stream).alloc(size, "int32", self.site, **(EACH if each else {}))

    async def do_capture(self, graph: str, stream: str, kept: tuple[Instruction, ...]) -> None:
        async with self.rank.graph(graph).capture(self.stream(stream), site=self.site):
            for number, instruction in enumerate(kept):
                self.kept = f".{number}"
                await self.do(instruction)
        self.kept = ""

    async def do_replay(self, graph: str, stream: str) -> None:
        self.rank.graph(graph).replay(self.stream(stream), self.site)

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
            case "gather":
                group.gather(output if shape[1] == self.rank.rank else None, source, shape[1], on, site=site)
            case "scatter":
                group.scatter(output, source if shape[1] == self.rank.rank else None, shape[1], on, site=site)
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
