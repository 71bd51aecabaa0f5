"""The recorded methods of torch's process group, and where the arguments of each contain sizes, type, root and
reduction.

    METHODS["allreduce"]                     # Method(op=1, moves=...)
    moved(recorder, args, more)              # elements in, elements out, dtype, reduction, root or peer

torch itself calls these methods: `dist.all_reduce(x)` ends in `group.allreduce([x], options)`, and an object collective
calls two of them. So it suffices to wrap these methods. Calls that torch makes in C++, as DDP does, are not seen; the
library counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from dpsim.contract.recording import OPS

Moved: TypeAlias = tuple[int, int, Any, Any, int]
"""(elements in, elements out, dtype of the first tensor, reduction or None, root or peer or -1)."""

Measure: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], Moved]


def _first(tensors: Any) -> Any:
    while type(tensors) in (list, tuple):
        if not tensors:
            return None
        tensors = tensors[0]
    return tensors


def _elements(tensors: Any) -> int:
    if type(tensors) not in (list, tuple):
        return tensors.numel() if tensors is not None else 0
    if len(tensors) == 1:
        return _elements(tensors[0])
    return sum(map(_elements, tensors))


def _dtype(*tensors: Any) -> Any:
    for one in tensors:
        first = _first(one)
        if first is not None:
            return first.dtype
    return None


def _options(args: tuple[Any, ...], more: Mapping[str, Any], after: int) -> Any:
    return args[after] if len(args) > after else next(iter(more.values()), None)


def _root(options: Any) -> int:
    return options if type(options) is int else getattr(options, "rootRank", -1)


def _reduction(options: Any) -> Any:
    return getattr(options, "reduceOp", options)


def _in_place(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    tensors = args[0]
    if type(tensors) is list and len(tensors) == 1:  # the common case
        one = tensors[0]
        size = one.numel()
        return size, size, one.dtype, _reduction(_options(args, more, 1)), -1
    size = _elements(tensors)
    return size, size, _dtype(tensors), _reduction(_options(args, more, 1)), -1


def _rooted(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    size, options = _elements(args[0]), _options(args, more, 1)
    return size, size, _dtype(args[0]), None, _root(options)


def _reduced_at_root(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    size, options = _elements(args[0]), _options(args, more, 1)
    reduction = options.reduceOp if hasattr(options, "reduceOp") else args[2] if len(args) > 2 else None
    return size, size, _dtype(args[0]), reduction, _root(options)


def _out_and_in(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    return _elements(args[1]), _elements(args[0]), _dtype(args[1], args[0]), None, -1


def _out_and_in_rooted(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    root = _root(_options(args, more, 2))
    return _elements(args[1]), _elements(args[0]), _dtype(args[1], args[0]), None, root


def _out_and_in_reduced(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    return _elements(args[1]), _elements(args[0]), _dtype(args[1], args[0]), _reduction(_options(args, more, 2)), -1


def _nothing(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    return 0, 0, None, None, -1


def _to_peer(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    return _elements(args[0]), 0, _dtype(args[0]), None, args[1] if len(args) > 1 else -1


def _from_peer(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    return 0, _elements(args[0]), _dtype(args[0]), None, args[1] if len(args) > 1 else -1


def _from_any(args: tuple[Any, ...], more: Mapping[str, Any]) -> Moved:
    return 0, _elements(args[0]), _dtype(args[0]), None, -1


class Method(NamedTuple):
    """A method of a process group. `op`: its number in OPS."""

    op: int
    measure: Measure


def _method(op: str, measure: Measure) -> Method:
    return Method(OPS.index(op), measure)


METHODS = {
    "allreduce": _method("all_reduce", _in_place),
    "allreduce_coalesced": _method("all_reduce_coalesced", _in_place),
    "broadcast": _method("broadcast", _rooted),
    "reduce": _method("reduce", _reduced_at_root),
    "gather": _method("gather", _out_and_in_rooted),
    "scatter": _method("scatter", _out_and_in_rooted),
    "allgather": _method("all_gather", _out_and_in),
    "all_gather_single": _method("all_gather", _out_and_in),
    "_allgather_base": _method("all_gather", _out_and_in),
    "allgather_coalesced": _method("all_gather_coalesced", _out_and_in),
    "all_gather_single_coalesced": _method("all_gather_coalesced", _out_and_in),
    "allgather_into_tensor_coalesced": _method("all_gather_coalesced", _out_and_in),
    "reduce_scatter": _method("reduce_scatter", _out_and_in_reduced),
    "reduce_scatter_single": _method("reduce_scatter", _out_and_in_reduced),
    "_reduce_scatter_base": _method("reduce_scatter", _out_and_in_reduced),
    "reduce_scatter_single_coalesced": _method("reduce_scatter_coalesced", _out_and_in_reduced),
    "reduce_scatter_tensor_coalesced": _method("reduce_scatter_coalesced", _out_and_in_reduced),
    "alltoall": _method("all_to_all", _out_and_in),
    "all_to_all_single": _method("all_to_all", _out_and_in),
    "alltoall_base": _method("all_to_all", _out_and_in),
    "barrier": _method("barrier", _nothing),
    "monitored_barrier": _method("barrier", _nothing),
    "send": _method("send", _to_peer),
    "recv": _method("recv", _from_peer),
    "recv_anysource": _method("recv", _from_any),
}
"""By name, in torch 2.11 to 2.15; a version lacks some of them."""

FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "broadcast": "broadcast",
    "all_gather_single": "all_gather",
    "all_gather_tensor": "all_gather",
    "all_gather_single_autograd": "all_gather",
    "all_gather_tensor_autograd": "all_gather",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_single_autograd": "reduce_scatter",
    "reduce_scatter_tensor_autograd": "reduce_scatter",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_gather_single_coalesced": "all_gather_coalesced",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
    "all_to_all_single": "all_to_all",
    "all_to_all_single_autograd": "all_to_all",
}
"""Functions of `torch.distributed._functional_collectives`, which call C++ and not these methods."""
