"""What every library's collectives have in common: torch's options, and how a tensor is made to fit.

The file of the collective (`dpsim.contract.collectives`) says how many elements a result has. If a fault altered the
call, it may have another count or type than the memory, or be another collective. Then the backend uses *staged*
tensors of the size in the call. It copies as much of the result as fits, as a library would read and write past the
memory that the program meant.

    wire = staged_source(source, issue)             # `source` itself, where nothing is altered
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives import Role, role
from dpsim.contract.collectives.reductions import NUMBERS, reduction_of
from dpsim.contract.dtypes import CARRIERS
from dpsim.contract.ops import DTYPES
from real.communicators import Group


@cache
def torch_dtype(name: str) -> Any:
    """torch's dtype of memory of that type: of what numpy lacks, the bits, as the contract says for kernels."""
    import torch

    return getattr(torch, CARRIERS.get(name, name))


NATIVE = frozenset(NUMBERS) - {"bfloat16"}
"""The types that both libraries take just as they lie in memory."""


def on_the_wire(issue: Issue, *tensors: Any) -> tuple[Any, ...]:
    """The issue and its tensors as both libraries take them: bfloat16 by its name, and what they lack as bytes."""
    import torch

    if issue.dtype in NATIVE:
        return issue, *tensors
    if issue.dtype == "bfloat16":
        return issue, *[_viewed(one, torch.bfloat16) for one in tensors]
    width = DTYPES[issue.dtype]
    sizes = tuple([size * width for size in issue.sizes])
    issue = issue._replace(dtype="uint8", count=issue.count * width, sizes=sizes)
    return issue, *[_viewed(one, torch.uint8) for one in tensors]


def _viewed(tensor: Any, dtype: Any) -> Any:
    """The same memory as elements of another type. An empty tensor of numpy's has strides that torch does not view."""
    return tensor.view(dtype) if tensor.numel() else tensor.new_empty(0, dtype=dtype)


def _reduce_op(reduce: str | None, dtype: str) -> Any:
    """torch's word. Both libraries take True and False for numbers, so a sum of them is the largest."""
    from torch.distributed import ReduceOp

    if dtype == "bool":
        reduce = {"sum": "max", "prod": "min"}.get(reduce or "sum", reduce)
    return getattr(ReduceOp, reduction_of(reduce).torch)


@cache
def reduction(reduce: str | None, runs_on: bool, dtype: str) -> Any:
    """Options of an all_reduce, made once: torch takes what it needs of them when it is called. `runs_on`: the call
    starts something, and what it gives is waited for.
    """
    from torch.distributed import distributed_c10d as c10d

    options = c10d.AllreduceOptions()
    options.reduceOp = _reduce_op(reduce, dtype)
    options.asyncOp = runs_on
    return options


@cache
def rooted(kind: str, root: int, runs_on: bool, reduce: str | None = None, dtype: str = "") -> Any:
    """Options of a collective with a root at that position in the group; `kind`: their class in torch."""
    from torch.distributed import distributed_c10d as c10d

    options = getattr(c10d, kind)()
    options.rootRank = root
    options.asyncOp = runs_on
    if reduce is not None:
        options.reduceOp = _reduce_op(reduce, dtype)
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
