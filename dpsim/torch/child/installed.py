"""torch.distributed as a rank finds it: the functions are torch's own, and groups and stores are dpsim's.

    install()           # once, in the warm parent, before anything imports names from torch.distributed

A program names any backend. The backend `dpsim`, which is registered with torch, makes its groups. `get_backend`
answers with the name that the program gave.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from dpsim import mark
from dpsim.torch.child import stores
from dpsim.torch.child.groups import RankGroup
from dpsim.torch.child.loops import LOOPS
from dpsim.torch.child.pipe import tell
from dpsim.torch.child.timeouts import nanoseconds
from dpsim.torch.child.uncovered import NotCovered, refused

OURS = "dpsim"
_names: dict[int, str] = {}
"""By group: the name of its backend, as the program gave it."""
_world: dict[str, Any] = {"given": False}

REFUSED = {
    "torch.cuda": ("_lazy_init", "set_device"),
    "torch.distributed": ("shrink_group", "get_backend_impl"),
    "torch.distributed.distributed_c10d": ("shrink_group", "get_backend_impl"),
    "torch.distributed.rpc": ("init_rpc", "rpc_sync", "rpc_async", "remote"),
    "torch.distributed._symmetric_memory": ("empty", "rendezvous", "enable_symm_mem_for_group"),
}
"""What is not covered: modules and their functions. torch calls `_lazy_init` at the first use of a GPU."""

HOOKS = ("register_pre_hook", "register_post_hook", "register_abort_hook", "_register_on_completion_hook")
QUEUES = ("barrier", "queue_len", "queue_pop", "queue_push")
METHODS = {
    "ProcessGroup": (RankGroup, (*HOOKS, "merge_remote_group", "new_window", "reconfigure")),
    "Store": (stores.RankStore, QUEUES),
    "PrefixStore": (stores.PrefixStore, QUEUES),
}
"""The same of methods, which torch's class in C++ has."""

_init, _new_group, _get_backend = c10d.init_process_group, c10d.new_group, c10d.get_backend


def install() -> None:
    """Put them in place."""
    dist.Backend.register_backend(OURS, _made, extended_api=True, devices=["cpu", "cuda"])
    own = {
        "init_process_group": init_process_group,
        "new_group": new_group,
        "get_backend": get_backend,
        "batch_isend_irecv": batch_isend_irecv,
        "split_group": split_group,
        "_set_pg_timeout": set_pg_timeout,
    }
    for module in (dist, c10d):
        for name, function in own.items():
            setattr(module, name, function)
        module.TCPStore = stores.TCPStore
        module.FileStore = stores.FileStore
        module.PrefixStore = stores.PrefixStore
    for name, functions in REFUSED.items():
        with suppress(ImportError):
            place = importlib.import_module(name)
            for one in functions:
                if hasattr(place, one):
                    setattr(place, one, refused(f"{name}.{one}".removesuffix("._lazy_init")))
    for name, (kind, methods) in METHODS.items():
        for one in methods:
            if hasattr(kind, one):
                setattr(kind, one, refused(f"{name}.{one}"))
    mark.listen(_Marks())


class _Marks(mark.Listener):
    def step(self, number: int) -> None:
        LOOPS.says(int(number))

    def decide(self, label: str, value: Any, group: Any) -> None:
        tell(["decide", str(label), _plain(value), "world" if group is None else group.kind])


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"mark.decide: {type(value).__name__} is no plain data; expected numbers, text, or lists of these")


def _made(opts: Any, _: Any) -> RankGroup:
    ranks = list(opts.global_ranks_in_group or range(opts.group_size))
    whole = not opts.global_ranks_in_group
    return RankGroup(opts.group_rank, opts.group_size, str(opts.group_id), ranks, whole)


def init_process_group(
    backend: Any = None,
    init_method: Any = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    *args: Any,
    **more: Any,
) -> None:
    """torch's, with a group of dpsim. Rank and size are those of the simulated world."""
    from os import environ

    if _world["given"] and dist.is_initialized():  # the group that a function found when it was called
        _world["given"] = False
        _names[id(c10d.GroupMember.WORLD)] = _said(backend)
        c10d.GroupMember.WORLD.limit = nanoseconds(timeout)
        return
    own, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    for what, given, here in ("rank", rank, own), ("world_size", world_size, size):
        if given not in (-1, here):
            raise NotCovered(f"init_process_group with {what}={given} on rank {own} of {size}")
    begin_world(own, size, store, _said(backend))
    c10d.GroupMember.WORLD.limit = nanoseconds(timeout)
    _world["given"] = False


def begin_world(rank: int, size: int, store: Any = None, backend: str = "gloo") -> None:
    """Make the group of all ranks."""
    _init(OURS, rank=rank, world_size=size, store=store if store is not None else stores.agent())
    _names[id(c10d.GroupMember.WORLD)] = backend
    _world["given"] = True


def leave_world() -> None:
    """What a function leaves, its process ends with."""


def _said(backend: Any) -> str:
    word = str(backend).lower() if backend else "gloo"
    return word.partition("cpu:")[2].partition(",")[0] if "cpu:" in word else word


def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **more: Any) -> Any:
    """torch's, with a group of dpsim."""
    made = _new_group(ranks, timeout, OURS, *args, **more)
    if isinstance(made, RankGroup):
        _names[id(made)] = _said(backend) if backend else get_backend()
        made.limit = nanoseconds(timeout)
    return made


def split_group(
    parent_pg: Any = None,
    split_ranks: Any = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
    *_: Any,
    **__: Any,
) -> Any:
    """The group of those ranks of a parent that are with this one, None where there is none."""
    parent = parent_pg or c10d.GroupMember.WORLD
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    mine = next((sorted(one) for one in split_ranks if parent.rank() in one), None)
    if mine is None:
        return None
    ranks = [parent.ranks[one] for one in mine]
    return new_group(ranks, timeout, None, None, True, group_desc)


def set_pg_timeout(timeout: Any, group: Any = None) -> None:
    """From now on each call of a group has this time."""
    (group or c10d.GroupMember.WORLD).limit = nanoseconds(timeout)


def get_backend(group: Any = None) -> str:
    """The name that the program gave."""
    _get_backend(group)  # raises for what is no group of this rank
    return _names.get(id(group or c10d.GroupMember.WORLD), "gloo")


def batch_isend_irecv(p2p_op_list: Any) -> Any:
    """torch's, for a group that is a class of Python: NCCL groups these calls, so that their order does not count."""
    c10d._check_p2p_op_list(p2p_op_list)
    group = p2p_op_list[0].group or c10d.GroupMember.WORLD
    group._start_coalescing()
    for one in p2p_op_list:
        peer = {"group_dst" if one.op is dist.isend else "group_src": one.group_peer}
        one.op(one.tensor, group=one.group, tag=one.tag, **peer)
    return group._end_batch()
