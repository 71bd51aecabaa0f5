"""The communicators of one rank of the simulation: what connects the contract with the shared groups."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from dpsim.backend.buffers import of_this_backend
from dpsim.backend.communicators import JournaledDeviceCommunicator, JournaledHostCommunicator
from dpsim.backend.journal import Issue
from dpsim.backend.work import Outcome
from dpsim.interface import Buffer, HostArray, Stream
from dpsim.sim.buffers import flat_of, touched
from dpsim.sim.groups import Group
from dpsim.sim.op import Op
from dpsim.sim.parts import Part
from dpsim.sim.rank import SimRank
from dpsim.sim.streams import SimStream


class SimHostCommunicator(JournaledHostCommunicator):
    """Host collectives: the joint op waits for the hosts."""

    def __init__(self, rank: SimRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self.rank = rank
        self.group = group

    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> Outcome:
        rank, machine = self.rank, self.rank.machine
        count = math.prod(shape)
        source = _flat_copy(array)
        result = source
        last: Op | None = None
        for issue in issues:
            rank.issue()
            late = rank.issued
            if issue.delay_ns:
                late = rank.op(rank.address("is late for"), issue.delay_ns, host=True)
                machine.submit(late)
            if last is not None:  # a repeated one has memory of its own: both are under way at the same time
                source = _flat_copy(array)
            result = source.copy() if source.size == count else _as_far_as_it_fits(source, count)
            part = Part(issue, result, source, (late,) if late is not None else (), machine.env._now)
            last = (self.group.join if issue.peer is None else self.group.move)(rank, part)
        if last is None:
            result = _as_far_as_it_fits(source, count)
        wanted = result if result.shape == shape else result.reshape(shape)

        return lambda: _at_once(wanted) if last is None else rank.wait(last, wanted)


def _at_once(wanted: HostArray) -> Generator[Any, Any, HostArray]:
    """A skipped collective: nothing to wait for."""
    return wanted
    yield


def _flat_copy(array: HostArray) -> HostArray:
    return np.array(array) if array.ndim == 1 else np.array(array).reshape(-1)


def _as_far_as_it_fits(source: HostArray, count: int) -> HostArray:
    """The beginning of a result: the input, then zeros."""
    result = np.zeros(count, source.dtype)
    size = min(count, source.size)
    result[:size] = source[:size]
    return result


class SimDeviceCommunicator(JournaledDeviceCommunicator):
    """Device collectives: the joint op waits for the members' streams and holds them until it has ended."""

    def __init__(self, rank: SimRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self.rank = rank
        self.group = group
        self._moves: list[Op] | None = None
        self._before: Op | None = None

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        on = stream if type(stream) is SimStream else of_this_backend(stream, SimStream)
        rank, machine = self.rank, self.rank.machine
        for issue in issues:
            if issue.delay_ns:
                on._spin(issue.delay_ns)
            part = Part(issue, flat_of(output), flat_of(source), on.heads(), machine.env._now)
            if machine.memory:
                root = issue.root
                reads = [source] if root is None or root == rank.rank else []
                part.touches = touched(reads, [output] if root != rank.rank else [])
            on.tail = self.group.join(rank, part)

    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        on = stream if type(stream) is SimStream else of_this_backend(stream, SimStream)
        for issue in issues:
            if issue.delay_ns:
                on._spin(issue.delay_ns)
            array = flat_of(buffer)
            part = Part(issue, array, array, on.heads(), self.rank.machine.env._now)
            if self.rank.machine.memory:
                part.touches = touched([buffer], []) if issue.op == "send" else touched([], [buffer])
            last, rank = self.group.last, self.rank.rank
            if self._moves is None:
                on.tail = last[rank] = self.group.move(self.rank, part, last.get(rank))
            else:
                self._moves.append(self.group.move(self.rank, part, self._before))

    def _open(self, stream: Stream) -> None:
        self._moves, self._before = [], self.group.last.get(self.rank.rank)

    def _close(self, stream: Stream) -> None:
        on, moves = of_this_backend(stream, SimStream), self._moves or []
        self._moves = None
        end = self.rank.op(self.rank.address("ends a group after"))
        for op in moves:
            self.rank.machine.edge(op, end)
        self.group.last[self.rank.rank] = end
        self.rank.machine.mark(end)
        on.append(end)
