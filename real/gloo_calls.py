"""Collectives and transfers over gloo, on flat tensors in main memory.

With unequal sizes, gloo has only `alltoall_base`; its reduce_scatter needs equal pieces. This module builds the missing
collectives from others, which costs some traffic. An uneven all_gather is one broadcast per member. A reduce_scatter is
an all_reduce of which each member keeps its piece. All members issue these parts one directly after the other, so the
parts match.

Every function of this module starts its gloo call immediately and returns a `Pending`. A transfer may start before its
peer connects: gloo queues it and raises no exception. A send ends when the peer receives. All transfers of a
communicator have one tag, so transfers between two ranks match in the order of issue.

    pending = start(group, Issue("all_reduce", 4, "int32"), tensor, tensor)
    pending.wait()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives.rules import Sizes
from dpsim.contract.world import CommunicatorSpec
from real.calls import copy_as_fits, equal_pieces, on_the_wire, reduction, role_of, rooted, staged_output, staged_source
from real.communicators import TIMEOUT, Group

TAG = 0
"""The tag of all transfers, so that they match in the order of issue."""


class Pending:
    """A started call: torch's works, and a function to run when they have ended."""

    def __init__(self, works: Sequence[Any], polled: bool = True, finish: Callable[[], None] | None = None) -> None:
        self._works = works
        self._finish = finish
        self.can_be_polled = polled
        """Whether `is_completed` works. For gloo's transfers it works only after a thread has waited for them."""

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def wait(self, timeout: timedelta | None = None) -> None:
        """Waits until the works have ended. Raises RuntimeError if one takes longer than `timeout`; the caller may then
        wait again.

        gloo's transfers never return from a second wait, so it forgets works that have ended.
        """
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        self._works = ()
        if self._finish is not None:
            self._finish()


class PendingFromAny(Pending):
    """A receive from any source."""

    def __init__(self, work: Any) -> None:
        super().__init__([work], polled=False)
        self._work = work

    def source(self) -> int:
        """Returns the index of the sender in the group, after a wait."""
        return int(self._work._source_rank())


class PendingFrom(Pending):
    """A receive from a known source, with the interface of `PendingFromAny`."""

    def __init__(self, works: Sequence[Any], member: int) -> None:
        super().__init__(works, polled=False)
        self._member = member

    def source(self) -> int:
        return self._member


def connect_gloo(spec: CommunicatorSpec, store: Any, index: int) -> Any:
    """Creates a gloo group over the loopback interface: all ranks are on this machine, whatever its host name resolves
    to.
    """
    from torch.distributed import ProcessGroupGloo

    options = ProcessGroupGloo._Options()
    options._timeout = TIMEOUT
    options._threads = 2
    options._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    return ProcessGroupGloo(store, index, len(spec.ranks), options)


def receive_any(group: Group, output: Any) -> PendingFromAny:
    """Starts a receive of the next message of any member."""
    return PendingFromAny(group.process_group.recv_anysource([output], TAG))


def receive_from(group: Group, output: Any, rank: int) -> PendingFrom:
    """As `receive_any`, from the one rank that a gate names."""
    member = group.member(rank)
    return PendingFrom([group.process_group.recv([output], member, TAG)], member)


def start(group: Group, issue: Issue, source: Any, output: Any) -> Pending:
    """Starts a collective or a transfer. It reads `source` and writes `output`, as far as they fit; both may be the
    same.
    """
    if issue.op == "send":
        _, wire = on_the_wire(issue, staged_source(source, issue))
        return Pending([group.process_group.send([wire], group.member(issue.peer), TAG)], polled=False)
    if issue.op == "recv":
        memory = staged_output(output, issue, issue.count)
        _, wire = on_the_wire(issue, memory)
        work = group.process_group.recv([wire], group.member(issue.peer), TAG)
        return Pending([work], polled=False, finish=lambda: copy_as_fits(output, memory))
    if issue.op not in _COLLECTIVES:
        known = ", ".join(_COLLECTIVES)
        raise ValueError(f"{group.spec.name}: no collective is called {issue.op!r} (there are: {known})")
    gives, gets = role_of(group, issue)
    wire = staged_source(source, issue) if gives else source
    count = issue.rules.count(issue.call, group.position, len(group.spec.ranks))
    result = staged_output(output, issue, count) if gets else output
    moved, given, taken = on_the_wire(issue, wire, result)
    works, finish = _COLLECTIVES[issue.op](group, moved, given, taken)

    def end() -> None:
        if finish is not None:
            finish()
        if gets:
            copy_as_fits(output, result)

    return Pending(works, finish=end)


_Started = tuple[list[Any], Callable[[], None] | None]


def _all_reduce(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    copy_as_fits(result, source)
    return [_reduce_in_place(group, issue, result)], None


def _broadcast(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    return [_spread_in_place(group, issue, result if role_of(group, issue).gets else source)], None


def _all_gather(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    from torch.distributed import distributed_c10d as c10d

    pieces = list(result.split(_sizes(group, issue).output))
    if not issue.sizes:
        options = c10d.AllgatherOptions()
        options.asyncOp = True
        return [group.process_group.allgather([pieces], [source], options)], None
    if pieces[group.position].numel() != source.numel():  # a fault altered the call, so the peers may fail
        pieces[group.position] = source
    else:
        pieces[group.position].copy_(source)
    return [_spread(group, index, piece) for index, piece in enumerate(pieces) if issue.sizes[index]], None


def _reduce_scatter(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    whole = source.clone()
    first, end = _sizes(group, issue).piece(group.position)
    return [_reduce_in_place(group, issue, whole)], lambda: copy_as_fits(result, whole[first:end])


def _all_to_all(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    sizes = _sizes(group, issue)
    source = source.clone() if source.data_ptr() == result.data_ptr() else source
    return [group.process_group.alltoall_base(result, source, list(sizes.output), list(sizes.source))], None


def _barrier(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    return [group.process_group.barrier()], None


def _reduce(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    """gloo writes to the memory of every member, so this passes a copy."""
    whole = source.clone()
    options = rooted("ReduceOptions", group.member(issue.root), True, issue.reduce, issue.dtype)
    finish = partial(copy_as_fits, result, whole) if role_of(group, issue).gets else None
    return [group.process_group.reduce([whole], options)], finish


def _gather(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    outputs = [equal_pieces(result, len(group.spec.ranks))] if role_of(group, issue).gets else []
    options = rooted("GatherOptions", group.member(issue.root), True)
    return [group.process_group.gather(outputs, [source], options)], None


def _scatter(group: Group, issue: Issue, source: Any, result: Any) -> _Started:
    inputs = [equal_pieces(source, len(group.spec.ranks))] if role_of(group, issue).gives else []
    options = rooted("ScatterOptions", group.member(issue.root), True)
    return [group.process_group.scatter([result], inputs, options)], None


_COLLECTIVES: dict[str, Callable[[Group, Issue, Any, Any], _Started]] = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "barrier": _barrier,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
}


def _reduce_in_place(group: Group, issue: Issue, tensor: Any) -> Any:
    return group.process_group.allreduce([tensor], reduction(issue.reduce, True, issue.dtype))


def _spread_in_place(group: Group, issue: Issue, tensor: Any) -> Any:
    return _spread(group, group.member(issue.root), tensor)


IN_PLACE: dict[str, Callable[[Group, Issue, Any], Any]] = {
    "all_reduce": _reduce_in_place,
    "broadcast": _spread_in_place,
}
"""Collectives on one tensor with exactly the elements of the issue, which is input and result. They return torch's
Work.
"""


def _spread(group: Group, index: int, tensor: Any) -> Any:
    return group.process_group.broadcast([tensor], rooted("BroadcastOptions", index, True))


def _sizes(group: Group, issue: Issue) -> Sizes:
    return issue.rules.sizes(issue.call, len(group.spec.ranks))
