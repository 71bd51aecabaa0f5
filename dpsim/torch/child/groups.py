"""A process group that sends each call of torch to dpsim, with the elements of its tensors as bytes.

    ["start", number, group, call, about]       and a block: the elements that the rank sends

dpsim starts the call, and answers when the rank waits for it. Ranks are global ranks in these messages. torch 2.13
renamed the methods for single tensors, so the class has both names.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from dpsim.torch.child import clocks, drawn
from dpsim.torch.child.frames import site
from dpsim.torch.child.in_flight import TensorsInFlight
from dpsim.torch.child.loops import LOOPS
from dpsim.torch.child.pieces import checked, chunks, content, cut, fill, in_reals, named, split
from dpsim.torch.child.pipe import ask, come, tell
from dpsim.torch.child.reductions import name_of
from dpsim.torch.child.rooted import RootedCalls
from dpsim.torch.child.timeouts import StartedCall, nanoseconds, refuse_closed
from dpsim.torch.child.uncovered import NotCovered
from dpsim.torch.child.works import Started, Then, from_library, joined

WORLD = "world"
_numbers = itertools.count(1)
Many = Sequence[Any]
_SUM = dist.ReduceOp.SUM


def _nothing(blocks: list[bytes]) -> None:
    """Ignores the answer of a call without a result."""


class RankGroup(RootedCalls, dist.ProcessGroup):  # type: ignore[misc]  # torch is Any
    """A process group. `ranks`: global ranks. `limit`: the time-out of a call in ns, or None. `closed`: one passed."""

    def __init__(self, rank: int, size: int, name: str, ranks: Sequence[int], whole: bool) -> None:
        super().__init__(rank, size)
        self.index, self.count, self.ranks, self.title = rank, size, list(ranks), name
        self.kind = WORLD if whole else _word(f"g{name}[{','.join(map(str, self.ranks))}]")
        self.coalesced: list[Started] | None = None
        self.batched = self.aborted = self.closed = False
        self.limit: int | None = None
        if not whole:
            ask(["group", self.kind, self.ranks, site("new_group")])

    def size(self) -> int:
        return self.count

    def rank(self) -> int:
        return self.index

    def name(self) -> str:
        return "dpsim"

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        return "dpsim"

    @property
    def group_name(self) -> str:
        return self.title

    pg_name = group_name

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device("cpu")]

    def set_timeout(self, timeout: Any) -> None:
        self.limit = nanoseconds(timeout)

    def _set_group_name(self, name: str) -> None:
        self.title = name

    setGroupName = _set_group_name  # noqa: N815

    # ---- how a call goes out

    def _start(self, call: str, given: Many, then: Then, out: Many | None = None, **about: Any) -> Started:
        """Starts a call and returns its Work. `given`: the tensors that it sends. `then` receives the blocks of the
        answer. `out`: the tensors that it fills, and the result of the Work.
        """
        come()
        if self.aborted:
            raise RuntimeError(f"{call} on process group {self.title}, which was aborted")
        refuse_closed(self)
        number = next(_numbers)
        if not self.coalesced:  # the calls of a batch are in one round
            LOOPS.come()
        clocks.clock().works()
        drawn.look(self.ranks[self.index])
        if self.coalesced is not None and call in ("send", "recv") and not self.batched:
            self.batched = True
            tell(["batch", self.kind])
        about["site"] = site(about.pop("word", call))
        tensors = TensorsInFlight(call, [*{id(one): one for one in (*given, *(out or ()))}.values()])
        tell(["start", number, self.kind, call, about], [b"".join(map(content, given))])
        todo = StartedCall(number, self, call, tensors), then
        work = Started([todo], out if out is None else list(out), from_library())
        if self.coalesced is not None:
            self.coalesced.append(work)
        return work

    def _start_coalescing(self, device: Any = None) -> None:
        self.coalesced, self.batched = [], False

    def _end_coalescing(self, device: Any = None) -> Started:
        return joined(self._end_batch())

    def _end_batch(self) -> list[Started]:
        works, self.coalesced = self.coalesced or [], None
        if self.batched:
            self.batched = False
            tell(["batch", ""])
        return works

    # ---- forms of calls

    def _reduced(self, call: str, source: Any, target: Any, op: Any, root: int | None = None) -> Started:
        """`root`: the only receiver, a global rank, or None for all."""
        numbers = in_reals(source)
        about = {"dtype": named(numbers.dtype), "elements": numbers.numel()}
        about["reduce"] = name_of(op, numbers.dtype, call)
        mine = root is None or self.ranks[self.index] == root

        def then(blocks: list[bytes]) -> None:
            if mine:
                fill(target, blocks[0])

        return self._start(call, [source], then, [target], **about, **({} if root is None else {"root": root}))

    def _gathered(self, parts: Many, source: Any) -> Started:
        def then(blocks: list[bytes]) -> None:
            for part, block in zip(parts, cut(blocks[0], self.count), strict=True):
                fill(part, block)

        about = {"dtype": named(source.dtype), "elements": source.numel()}
        return self._start("all_gather", [source], then, parts, **about)

    def _scattered(self, target: Any, pieces: Many, op: Any) -> Started:
        """`pieces`: one for each member."""
        numbers = in_reals(target)
        about = {"dtype": named(numbers.dtype), "elements": numbers.numel() * len(pieces)}
        about["reduce"] = name_of(op, numbers.dtype, "reduce_scatter")
        return self._start("reduce_scatter", pieces, lambda blocks: fill(target, blocks[0]), [target], **about)

    def _exchanged(self, outgoing: Many, incoming: Many) -> Started:
        """Starts an all_to_all. `outgoing`: a tensor for each member; `incoming`: a tensor from each member."""
        example, received = outgoing[0], [one.numel() for one in incoming]

        def then(blocks: list[bytes]) -> None:
            width, at = example.element_size(), 0
            for target, elements in zip(incoming, received, strict=True):
                if elements:
                    fill(target, blocks[0][at : at + elements * width])
                    at += elements * width

        sent = [one.numel() for one in outgoing]
        about = {"dtype": named(example.dtype), "elements": sum(sent), "sent": sent, "received": received}
        return self._start("all_to_all", outgoing, then, incoming, **about)

    # ---- torch's names

    def allreduce(self, tensors: Many, opts: Any = None) -> Started:
        op = _SUM if opts is None else opts.reduceOp
        return joined([self._reduced("all_reduce", one, one, op) for one in tensors], list(tensors))

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Many, opts: Any) -> Started:
        return self._reduced("reduce", tensors[0], tensors[0], opts.reduceOp, self.ranks[opts.rootRank])

    def broadcast(self, tensors: Many, opts: Any) -> Started:
        root = self.ranks[opts.rootRank]
        works = []
        for one in tensors:

            def then(blocks: list[bytes], one: Any = one) -> None:
                fill(one, blocks[0])

            about = {"dtype": named(one.dtype), "elements": one.numel(), "root": root}
            works.append(self._start("broadcast", [one], then, [one], **about))
        return joined(works, list(tensors))

    def allgather(self, outputs: Many, inputs: Many, opts: Any = None) -> Started:
        pairs = zip(outputs, inputs, strict=True)
        return joined([self._gathered(parts, source) for parts, source in pairs], list(outputs))

    def allgather_coalesced(self, outputs: Many, inputs: Many, opts: Any = None) -> Started:
        works = [self._gathered([row[at] for row in outputs], source) for at, source in enumerate(inputs)]
        return joined(works, list(outputs))

    def all_gather_single(self, output: Any, source: Any, opts: Any = None) -> Started:
        return self._gathered(chunks(output, self.count), source)

    def all_gather_single_coalesced(self, outputs: Many, inputs: Many, opts: Any = None) -> Started:
        pairs = zip(outputs, inputs, strict=True)
        return joined([self.all_gather_single(output, source) for output, source in pairs], list(outputs))

    def reduce_scatter(self, outputs: Many, inputs: Many, opts: Any = None) -> Started:
        op = _SUM if opts is None else opts.reduceOp
        pairs = zip(outputs, inputs, strict=True)
        return joined([self._scattered(output, pieces, op) for output, pieces in pairs], list(outputs))

    def reduce_scatter_single(self, output: Any, source: Any, opts: Any = None) -> Started:
        op = _SUM if opts is None else opts.reduceOp
        return self._scattered(output, chunks(source, self.count), op)

    def reduce_scatter_single_coalesced(self, outputs: Many, inputs: Many, opts: Any = None) -> Started:
        pairs = zip(outputs, inputs, strict=True)
        return joined([self.reduce_scatter_single(output, source, opts) for output, source in pairs], list(outputs))

    def alltoall(self, outputs: Many, inputs: Many, opts: Any = None) -> Started:
        return self._exchanged(inputs, outputs)

    def all_to_all_single(
        self, output: Any, source: Any, output_sizes: Any = None, input_sizes: Any = None, opts: Any = None
    ) -> Started:
        outgoing = split(source, input_sizes, self.count)
        return self._exchanged(outgoing, split(output, output_sizes, self.count))

    def barrier(self, opts: Any = None) -> Started:
        return self._start("barrier", [], _nothing)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Blocks until rank 0 has heard from all members. Raises RuntimeError after the time-out, which passes only
        where nothing else can happen. The default time-out counts here, too.
        """
        LOOPS.come()
        clocks.clock().works()
        ns = int((timeout or datetime.timedelta(minutes=30)).total_seconds() * 1e9)
        ask(["monitored", self.kind, self.ranks, ns, bool(wait_all_ranks), site("monitored_barrier")])

    def send(self, tensors: Many, to: int, tag: int = 0) -> Started:
        [one] = tensors
        about = {"dtype": named(one.dtype), "elements": one.numel(), "peer": self.ranks[to], "tag": tag}
        return self._start("send", [one], _nothing, **about)

    def recv(self, tensors: Many, source: int, tag: int = 0) -> Started:
        [one] = tensors
        about = {"dtype": named(checked(one).dtype), "elements": one.numel(), "peer": self.ranks[source], "tag": tag}
        return self._start("recv", [], lambda blocks: fill(one, blocks[0]), tensors, **about)

    def recv_anysource(self, tensors: Many, tag: int = 0) -> Started:
        [one] = tensors
        about = {"dtype": named(checked(one).dtype), "elements": one.numel(), "tag": tag}
        work = self._start("recv_any", [], lambda blocks: fill(one, blocks[0]), tensors, **about)
        work.members = self.ranks
        return work

    def split_group(self, *args: Any, **more: Any) -> Any:
        raise NotCovered("ProcessGroup.split_group")

    def abort(self) -> None:
        """Aborts the group on this rank: a thread that waits on it raises RuntimeError, and so does each later call."""
        if not self.aborted:
            self.aborted = True
            tell(["abort", self.kind, site("abort")])

    def shutdown(self) -> None:
        """Does nothing, because the group has no resources."""

    def _wait_for_pending_works(self) -> None:
        """Does nothing, because no other thread works on the calls of this group."""

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _word(text: str) -> str:
    return re.sub("[^!-~]", "_", text)


Creator = Callable[[Any, Any], RankGroup]
