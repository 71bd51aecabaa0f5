"""What every library's collectives have in common: torch's options, and how a tensor is made to fit.

How many elements a result has is in the collective's own file (`dpsim.contract.collectives`). An issue that a fault
has altered may bring another count or type than the memory at hand, or be another collective altogether: then it goes
out on *staged* tensors of the size that it announces, and what comes back is copied as far as it fits, as a library
would read and write beside the memory that the program meant.

    wire = staged_source(source, issue)             # `source` itself, where nothing is altered
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives import Role, role
from dpsim.contract.collectives.reductions import reduction_of
from real.communicators import Group


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
    options.reduceOp = getattr(c10d.ReduceOp, reduction_of(reduce).torch)
    options.asyncOp = runs_on
    return options


@cache
def rooted(kind: str, root: int, runs_on: bool, reduce: str | None = None) -> Any:
    """Options of a collective with a root at that position in the group; `kind`: their class in torch."""
    from torch.distributed import distributed_c10d as c10d

    options = getattr(c10d, kind)()
    options.rootRank = root
    options.asyncOp = runs_on
    if reduce is not None:
        options.reduceOp = getattr(c10d.ReduceOp, reduction_of(reduce).torch)
    return options


def role_of(group: Group, issue: Issue) -> Role:
    """Whether this member's elements are read, and its memory is written."""
    return role(issue.op, issue.root, group.spec.ranks[group.position])


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


def equal_pieces(whole: Any, members: int) -> list[Any]:
    """Views of a flat tensor: as many elements for each member. What is left over belongs to none."""
    each = whole.numel() // members
    return [whole[index * each : (index + 1) * each] for index in range(members)]
