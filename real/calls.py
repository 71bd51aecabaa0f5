"""What the collectives of gloo and NCCL have in common: torch's options, and tensors that fit a call.

`dpsim.contract.collectives` defines how many elements a result has. If a fault altered the call, its count or type may
differ from the memory, or it may be another collective. Then the library would read and write past the program's
memory. So the backend uses *staged* tensors of the size in the call, and copies as much of the result as fits.

    wire = staged_source(source, issue)             # `source` itself, if no fault altered the call
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
    """Returns torch's dtype of memory with that element type. If numpy lacks the type, it is the integer type of the
    same width, as the contract defines for kernels.
    """
    import torch

    return getattr(torch, CARRIERS.get(name, name))


NATIVE = frozenset(NUMBERS) - {"bfloat16"}
"""The element types that both libraries support directly."""


def on_the_wire(issue: Issue, *tensors: Any) -> tuple[Any, ...]:
    """Returns the issue and its tensors as both libraries accept them: bfloat16 under its name, and types that they
    lack as bytes.
    """
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
    """Returns the same memory as elements of another type. An empty numpy tensor has strides that torch cannot view."""
    return tensor.view(dtype) if tensor.numel() else tensor.new_empty(0, dtype=dtype)


def _reduce_op(reduce: str | None, dtype: str) -> Any:
    """Returns torch's reduction. Both libraries treat booleans as numbers, so a sum of them becomes a max."""
    from torch.distributed import ReduceOp

    if dtype == "bool":
        reduce = {"sum": "max", "prod": "min"}.get(reduce or "sum", reduce)
    return getattr(ReduceOp, reduction_of(reduce).torch)


@cache
def reduction(reduce: str | None, runs_on: bool, dtype: str) -> Any:
    """Returns the options of an all_reduce, cached: torch copies what it needs of them in the call. `runs_on`: whether
    the call is asynchronous.
    """
    from torch.distributed import distributed_c10d as c10d

    options = c10d.AllreduceOptions()
    options.reduceOp = _reduce_op(reduce, dtype)
    options.asyncOp = runs_on
    return options


@cache
def rooted(kind: str, root: int, runs_on: bool, reduce: str | None = None, dtype: str = "") -> Any:
    """Returns the options of a collective with its root at that index of the group. `kind`: their class in torch."""
    from torch.distributed import distributed_c10d as c10d

    options = getattr(c10d, kind)()
    options.rootRank = root
    options.asyncOp = runs_on
    if reduce is not None:
        options.reduceOp = _reduce_op(reduce, dtype)
    return options


def role_of(group: Group, issue: Issue) -> Role:
    """Returns whether the collective reads this member's elements, and whether it writes its memory."""
    return role(issue.op, issue.root, group.spec.ranks[group.position])


def staged_source(source: Any, issue: Issue) -> Any:
    """Returns `source`, flat, with the count and type of the issue; `source` itself if it already has them."""
    dtype = torch_dtype(issue.dtype)
    if (source.numel(), source.dtype) == (issue.count, dtype):
        return source
    import torch

    wire = torch.zeros(issue.count, dtype=dtype, device=source.device)
    copy_as_fits(wire, source)
    return wire


def staged_output(output: Any, issue: Issue, count: int) -> Any:
    """Returns `output`, flat, with the count and type of the issue's result; `output` itself if it already has them."""
    dtype = torch_dtype(issue.dtype)
    if (output.numel(), output.dtype) == (count, dtype):
        return output
    import torch

    return torch.zeros(count, dtype=dtype, device=output.device)


def copy_as_fits(target: Any, source: Any) -> None:
    """Copies one flat tensor to the beginning of another, as far as it fits, unless they are the same."""
    if target is not source:
        size = min(target.numel(), source.numel())
        target[:size].copy_(source[:size])


def equal_pieces(whole: Any, members: int) -> list[Any]:
    """Returns views of a flat tensor, one per member, with equally many elements. The rest belongs to none."""
    each = whole.numel() // members
    return [whole[index * each : (index + 1) * each] for index in range(members)]
