"""What every library's collectives have in common: how many elements a result has, and how a tensor is made to fit.

The size vectors of an issue are all that a member knows of the others. Without them the pieces are equal. An issue
that a fault has altered may bring another count or type than the memory at hand, or be another collective
altogether: then it goes out on *staged* tensors of the size that it announces, and what comes back is copied as far
as it fits, as a library would read and write beside the memory that the program meant.

    sizes = Sizes.of(Issue("all_gather", 2, "int32", sizes=(2, 0, 5)), members=3)
    (sizes.source, sizes.output) == ((2, 0, 5), (2, 0, 5))
    result_count(issue, index=0, members=3) == 7
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from dpsim.backend.journal.issue import Issue


class Sizes(NamedTuple):
    """Elements of the pieces, one a member: those that go out and those that come in."""

    source: tuple[int, ...]
    output: tuple[int, ...]

    @classmethod
    def of(cls, issue: Issue, members: int) -> Sizes:
        equal = (issue.count,) if issue.op == "all_gather" else (issue.count // members,)
        if issue.op != "all_to_all":
            whole = issue.sizes if len(issue.sizes) == members else equal * members
            return cls(whole, whole)
        # Those of the source and then those of the output. One vector alone can only be taken for the former.
        return cls(issue.sizes[:members] or equal * members, issue.sizes[members:] or equal * members)

    def piece(self, index: int) -> tuple[int, int]:
        """First element and end of a member's piece of the output."""
        return sum(self.output[:index]), sum(self.output[: index + 1])


@cache
def torch_dtype(name: str) -> Any:
    """torch's dtype of that name."""
    import torch

    return getattr(torch, name)


@cache
def reduction(reduce: str | None, runs_on: bool) -> Any:
    """Options of an all_reduce, made once: torch takes what it needs of them when it is called. `runs_on`: the call
    starts something, and what it gives is waited for.
    """
    from torch.distributed import distributed_c10d as c10d

    options = c10d.AllreduceOptions()
    options.reduceOp = getattr(c10d.ReduceOp, (reduce or "sum").upper())
    options.asyncOp = runs_on
    return options


@cache
def spreading(root: int, runs_on: bool) -> Any:
    """Options of a broadcast from that position in the group."""
    from torch.distributed import distributed_c10d as c10d

    options = c10d.BroadcastOptions()
    options.rootRank = root
    options.asyncOp = runs_on
    return options


def result_count(issue: Issue, index: int, members: int) -> int:
    """Elements that the issue gives this member."""
    if issue.op == "all_gather":
        return sum(Sizes.of(issue, members).output)
    if issue.op == "reduce_scatter":
        return Sizes.of(issue, members).output[index]
    if issue.op == "all_to_all":
        return sum(Sizes.of(issue, members).output)
    return 0 if issue.op in ("barrier", "send") else issue.count


def staged_source(source: Any, issue: Issue) -> Any:
    """`source`, flat, with the count and type that the issue announces: itself if it has them."""
    dtype = torch_dtype(issue.dtype)
    if (source.numel(), source.dtype) == (issue.count, dtype):
        return source
    import torch

    wire = torch.zeros(issue.count, dtype=dtype, device=source.device)
    copy_as_fits(wire, source)
    return wire


def staged_output(output: Any, issue: Issue, count: int) -> Any:
    """`output`, flat, with the count and type of the issue's result: itself if it has them."""
    dtype = torch_dtype(issue.dtype)
    if (output.numel(), output.dtype) == (count, dtype):
        return output
    import torch

    return torch.zeros(count, dtype=dtype, device=output.device)


def copy_as_fits(target: Any, source: Any) -> None:
    """The beginning of one flat tensor into another, unless they are the same."""
    if target is not source:
        size = min(target.numel(), source.numel())
        target[:size].copy_(source[:size])
