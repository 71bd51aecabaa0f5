"""Collectives and transfers over NCCL, on flat CUDA tensors. They run on the *current* stream, and no call here waits.

torch's synchronous mode (`asyncOp` False) puts a collective on the current stream. Transfers have no such mode: torch
puts them on a separate stream, after the present work of the current one. `wait` on their Work blocks the current
stream, not the host, until they have ended. Both have the same effect.

NCCL has no all_gather and no reduce_scatter for pieces of unequal size, so all members make the same sequence of other
NCCL calls. Such an all_gather is one broadcast per member. Such a reduce_scatter is an all_reduce of which each member
keeps its piece. all_to_all always consists of sends and receives. A bitwise reduction is an all_gather, after which
each member reduces all pieces. Element types that NCCL lacks are sent as bytes.

**Transfers use the communicator of the group.** By default, torch creates a communicator of two ranks at their first
single send or receive. This is a rendezvous that blocks the host. Suppose that a program sends, and then communicates
with its peer by other means before the peer receives. It would hang in its first step only. So the backend connects
each group eagerly (`eager_connect_single_device`, which needs no default process group), and transfers use its existing
communicator. In NCCL itself, the first transfer between two ranks opens a channel, which is a rendezvous too. So
`connect` lets every pair exchange one message, which no journal contains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives.reductions import BITWISE
from dpsim.contract.collectives.rules import Sizes
from dpsim.contract.world import CommunicatorSpec
from real.calls import copy_as_fits, equal_pieces, on_the_wire, reduction, role_of, rooted, staged_output, staged_source
from real.communicators import TIMEOUT, Group

TAG = 0
"""torch requires a tag, NCCL has none: transfers match in the order of issue."""


def connect_nccl(spec: CommunicatorSpec, store: Any, index: int, device: Any) -> Any:
    """Creates an NCCL group whose communicator exists, and on which every kind of operation has run once."""
    import torch
    from torch.distributed import ProcessGroupNCCL

    options = ProcessGroupNCCL.Options()
    options._timeout = TIMEOUT
    options.global_ranks_in_group = list(spec.ranks)
    options.group_name = spec.name
    process_group = ProcessGroupNCCL(store, index, len(spec.ranks), options)
    process_group.eager_connect_single_device(device)
    group, members = Group(spec, process_group), len(spec.ranks)
    many = torch.ones(members, dtype=torch.int32, device=device)
    one = torch.ones(1, dtype=torch.int32, device=device)
    start(group, Issue("all_reduce", 1, "int32"), one, one)
    start(group, Issue("broadcast", 1, "int32", root=spec.ranks[0]), one, one)
    start(group, Issue("all_gather", 1, "int32"), one, many)
    start(group, Issue("reduce_scatter", members, "int32"), many, one)
    start(group, Issue("all_to_all", members, "int32"), many, torch.empty_like(many))
    start(group, Issue("reduce", 1, "int32", root=spec.ranks[0]), one, one)
    start(group, Issue("gather", 1, "int32", root=spec.ranks[0]), one, many)
    start(group, Issue("scatter", members, "int32", root=spec.ranks[0]), many, one)
    others = [rank for rank in spec.ranks if rank != spec.ranks[index]]
    exchange(group, [(Issue(op, 1, "int32", peer=rank), one) for rank in others for op in ("send", "recv")])
    for rank in others:  # each pair once more, separately: the member with the lower index sends
        op = "send" if spec.ranks.index(rank) > index else "recv"
        start(group, Issue(op, 1, "int32", peer=rank), one, one)
    return process_group


def start(group: Group, issue: Issue, source: Any, output: Any) -> None:
    """Puts a collective or a single transfer on the current stream. It reads `source` and writes `output`, as far as
    they fit; both may be the same.
    """
    if issue.peer is not None:
        exchange(group, [(issue, source if issue.op == "send" else output)], together=False)
        return
    if issue.op not in _COLLECTIVES:
        known = ", ".join(_COLLECTIVES)
        raise ValueError(f"{group.spec.name}: no collective is called {issue.op!r} (there are: {known})")
    gives, gets = role_of(group, issue)
    wire = staged_source(source, issue) if gives else source
    count = issue.rules.count(issue.call, group.position, len(group.spec.ranks))
    result = staged_output(output, issue, count) if gets else output
    moved, given, taken = on_the_wire(issue, wire, result)
    _COLLECTIVES[issue.op](group, moved, given, taken)
    if gets:
        copy_as_fits(output, result)


def exchange(group: Group, transfers: Sequence[tuple[Issue, Any]], together: bool = True) -> None:
    """Puts transfers on the current stream; with `together`, without an order among themselves."""
    if not transfers:
        return
    process_group, works, wires = group.process_group, [], []
    if together:
        process_group._start_coalescing()
    try:
        for issue, memory in transfers:
            move = process_group.send if issue.op == "send" else process_group.recv
            wires.append(
                staged_source(memory, issue) if issue.op == "send" else staged_output(memory, issue, issue.count)
            )
            _, wire = on_the_wire(issue, wires[-1])
            works.append(move([wire], group.member(issue.peer), TAG))
    finally:
        if together:  # also after an error: an NCCL group that stays open would contain all later calls
            works = [process_group._end_coalescing()]
    _hold_stream(*works)
    for (issue, memory), wire in zip(transfers, wires, strict=True):
        if issue.op == "recv":
            copy_as_fits(memory, wire)


def _hold_stream(*works: Any) -> None:
    """Lets the current stream wait for these works. A work of None means that the call ran on the current stream."""
    for work in works:
        if work is not None:
            work.wait()


@cache
def _options(kind: str) -> Any:
    from torch.distributed import distributed_c10d as c10d

    options = getattr(c10d, kind)()
    if hasattr(options, "asyncOp"):  # calls without such a mode block the stream by a wait on their Work
        options.asyncOp = False
    return options


@cache
def _scattering(how: str | None, dtype: str) -> Any:
    from torch.distributed import distributed_c10d as c10d

    options = c10d.ReduceScatterOptions()
    options.reduceOp = reduction(how, False, dtype).reduceOp
    options.asyncOp = False
    return options


def _all_reduce(group: Group, issue: Issue, source: Any, result: Any) -> None:
    copy_as_fits(result, source)
    _reduce_in_place(group, issue, result)


def _broadcast(group: Group, issue: Issue, source: Any, result: Any) -> None:
    _spread_in_place(group, issue, result if role_of(group, issue).gets else source)


def _all_gather(group: Group, issue: Issue, source: Any, result: Any) -> None:
    if not issue.sizes:
        _hold_stream(group.process_group._allgather_base(result, source, _options("AllgatherOptions")))
        return
    pieces = list(result.split(_sizes(group, issue).output))
    if pieces[group.position].numel() != source.numel():  # a fault altered the call, so the peers may fail
        pieces[group.position] = source
    else:
        pieces[group.position].copy_(source)
    for index, piece in enumerate(pieces):
        if issue.sizes[index]:
            _spread(group, index, piece)


def _reduce_scatter(group: Group, issue: Issue, source: Any, result: Any) -> None:
    native = issue.reduce not in BITWISE
    if native and not issue.sizes and source.numel() == result.numel() * len(group.spec.ranks):
        options = _scattering(issue.reduce, issue.dtype)
        _hold_stream(group.process_group._reduce_scatter_base(result, source, options))
        return
    whole = source.clone()
    first, end = _sizes(group, issue).piece(group.position)
    _all_reduce(group, issue, whole, whole)
    copy_as_fits(result, whole[first:end])


def _all_to_all(group: Group, issue: Issue, source: Any, result: Any) -> None:
    sizes = _sizes(group, issue)
    source = source.clone() if source.data_ptr() == result.data_ptr() else source
    options = _options("AllToAllOptions")
    _hold_stream(group.process_group.alltoall_base(result, source, list(sizes.output), list(sizes.source), options))


def _barrier(group: Group, issue: Issue, source: Any, result: Any) -> None:
    """torch's own barrier blocks the host. Only a fault can call this: the contract has no device barrier."""
    import torch

    one = torch.zeros(1, dtype=torch.int32, device=source.device)
    _all_reduce(group, issue, one, one)


def _reduce(group: Group, issue: Issue, source: Any, result: Any) -> None:
    """ncclReduce writes only on the root. There the input is in the result's memory; on the others it is only read."""
    if issue.reduce in BITWISE:
        whole = _bitwise(group, issue, source)
        if role_of(group, issue).gets:
            copy_as_fits(result, whole)
        return
    tensor = source
    if role_of(group, issue).gets:
        copy_as_fits(result, source)
        tensor = result
    options = rooted("ReduceOptions", group.member(issue.root), False, issue.reduce, issue.dtype)
    _hold_stream(group.process_group.reduce([tensor], options))


def _bitwise(group: Group, issue: Issue, source: Any) -> Any:
    """A bitwise reduction, which NCCL lacks, computed on every member."""
    import torch

    each, members = source.numel(), len(group.spec.ranks)
    whole = torch.empty(each * members, dtype=source.dtype, device=source.device)
    _all_gather(group, Issue("all_gather", each, issue.dtype), source, whole)
    return reduce(getattr(torch, _BITWISE[issue.reduce]), equal_pieces(whole, members))


_BITWISE: dict[str | None, str] = {"band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor"}


def _gather(group: Group, issue: Issue, source: Any, result: Any) -> None:
    """torch expects a list of pieces on the root, and none on the others."""
    outputs = [equal_pieces(result, len(group.spec.ranks))] if role_of(group, issue).gets else []
    options = rooted("GatherOptions", group.member(issue.root), False)
    _hold_stream(group.process_group.gather(outputs, [source], options))


def _scatter(group: Group, issue: Issue, source: Any, result: Any) -> None:
    inputs = [equal_pieces(source, len(group.spec.ranks))] if role_of(group, issue).gives else []
    options = rooted("ScatterOptions", group.member(issue.root), False)
    _hold_stream(group.process_group.scatter([result], inputs, options))


_COLLECTIVES: dict[str, Callable[[Group, Issue, Any, Any], None]] = {
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


def _reduce_in_place(group: Group, issue: Issue, tensor: Any) -> None:
    if issue.reduce in BITWISE:
        tensor.copy_(_bitwise(group, issue, tensor))
        return
    work = group.process_group.allreduce([tensor], reduction(issue.reduce, False, issue.dtype))
    if work is not None:
        work.wait()


def _spread_in_place(group: Group, issue: Issue, tensor: Any) -> None:
    _spread(group, group.member(issue.root), tensor)


IN_PLACE: dict[str, Callable[[Group, Issue, Any], None]] = {
    "all_reduce": _reduce_in_place,
    "broadcast": _spread_in_place,
}
"""Collectives on one tensor with exactly the elements of the issue, which is input and result."""


def _spread(group: Group, index: int, tensor: Any) -> None:
    _hold_stream(group.process_group.broadcast([tensor], rooted("BroadcastOptions", index, False)))


def _sizes(group: Group, issue: Issue) -> Sizes:
    return issue.rules.sizes(issue.call, len(group.spec.ranks))
