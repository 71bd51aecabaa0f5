"""The communicators of one rank of the simulation: what connects the contract with the shared groups."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from dpsim.interface import Buffer, HostArray, Stream
from dpsim.journal import Issue
from dpsim.journaled import Outcome, of_this_backend
from dpsim.journaled_groups import JournaledDeviceCommunicator, JournaledHostCommunicator
from dpsim.sim.groups import Group, Part
from dpsim.sim.machine import Op
from dpsim.sim.rank import SimRank, SimStream, array_of, touched


class SimHostCommunicator(JournaledHostCommunicator):
    """Host collectives: the joint op waits for the hosts."""

    def __init__(self, rank: SimRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self.rank = rank
        self.group = group

    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> Outcome:
        rank, machine = self.rank, self.rank.machine
        result = np.zeros(math.prod(shape), array.dtype)
        size = min(result.size, array.size)
        result[:size] = array.reshape(-1)[:size]
        last: Op | None = None
        for issue in issues:
            late: Op | None = None
            if issue.delay_ns:
                late = rank.op(rank.address("is late for"), issue.delay_ns)
                machine.submit(late)
            result, source = np.array(result), np.array(array)
            part = Part(issue, result, source, late, machine.now)
            last = (self.group.join if issue.peer is None else self.group.move)(rank.rank, part, rank.past)
        wanted = result

        def outcome() -> Generator[Any, Any, HostArray]:
            if last is not None:
                yield from rank.wait(last)
            return wanted.reshape(shape)

        return outcome


class SimDeviceCommunicator(JournaledDeviceCommunicator):
    """Device collectives: the joint op waits for the members' streams and holds them until it has ended."""

    def __init__(self, rank: SimRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self.rank = rank
        self.group = group
        self._moves: list[Op] | None = None

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        on = of_this_backend(stream, SimStream)
        for issue in issues:
            if issue.delay_ns:
                on._spin(issue.delay_ns)
            part = Part(issue, array_of(output), array_of(source), on.end(), self.rank.machine.now)
            if self.rank.machine.memory:
                root = issue.root
                reads = [source] if root is None or root == self.rank.rank else []
                part.touches = touched(reads, [output] if root != self.rank.rank else [])
            on.tail = self.group.join(self.rank.rank, part, self.rank.past)

    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        on = of_this_backend(stream, SimStream)
        for issue in issues:
            if issue.delay_ns:
                on._spin(issue.delay_ns)
            array = array_of(buffer)
            part = Part(issue, array, array, on.end(), self.rank.machine.now)
            if self.rank.machine.memory:
                part.touches = touched([buffer], []) if issue.op == "send" else touched([], [buffer])
            op = self.group.move(self.rank.rank, part, self.rank.past)
            if self._moves is None:
                on.tail = op
            else:
                self._moves.append(op)

    def _open(self, stream: Stream) -> None:
        self._moves = []

    def _close(self, stream: Stream) -> None:
        on, moves = of_this_backend(stream, SimStream), self._moves or []
        self._moves = None
        end = self.rank.op("")
        for op in moves:
            self.rank.machine.edge(op, end)
        on.append(end)
