"""Patches torch.distributed for a rank: its functions remain torch's own, but groups and stores are dpsim's.

    install()           # once, in the warm parent, before any module imports names from torch.distributed

A program may name any backend of torch.distributed. In each case, the backend `dpsim`, which this module registers with
torch, creates the groups. `get_backend` returns the name that the program gave.
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
from dpsim.torch.child.frames import site
from dpsim.torch.child.groups import RankGroup
from dpsim.torch.child.loops import LOOPS
from dpsim.torch.child.pipe import tell
from dpsim.torch.child.timeouts import nanoseconds
from dpsim.torch.child.uncovered import NotCovered, refused

OURS = "dpsim"
_names: dict[int, str] = {}
"""Maps the id of a group to the name of the backend that the program gave."""
_world: dict[str, Any] = {"given": False}

REFUSED = {
    "torch.cuda": ("_lazy_init", "set_device"),
    "torch.distributed": ("shrink_group", "get_backend_impl"),
    "torch.distributed.distributed_c10d": ("shrink_group", "get_backend_impl"),
    "torch.distributed.rpc": ("init_rpc", "rpc_sync", "rpc_async", "remote"),
    "torch.distributed._symmetric_memory": ("empty", "rendezvous", "enable_symm_mem_for_group"),
}
"""The functions that dpsim does not simulate, by module. torch calls `_lazy_init` at the first use of a GPU."""

HOOKS = ("register_pre_hook", "register_post_hook", "register_abort_hook", "_register_on_completion_hook")
QUEUES = ("barrier", "queue_len", "queue_pop", "queue_push")
METHODS = {
    "ProcessGroup": (RankGroup, (*HOOKS, "merge_remote_group", "new_window", "reconfigure")),
    "Store": (stores.RankStore, QUEUES),
    "PrefixStore": (stores.PrefixStore, QUEUES),
}
"""The methods that dpsim does not simulate, by the name of torch's class."""

_init, _new_group, _get_backend = c10d.init_process_group, c10d.new_group, c10d.get_backend


def install() -> None:
    """Replaces functions and classes of torch.distributed, also those that dpsim does not simulate."""
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
        tell(["decide", str(label), _plain(value), "world" if group is None else group.kind, site("decide")])


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
    """Makes a group of dpsim. Raises NotCovered if `rank` or `world_size` are not those of the simulated world."""
    from os import environ

    if _world["given"] and dist.is_initialized():  # the group that dpsim made before it called a function of the user
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
    """Makes the group of all ranks. `store`: a store of the program, or None for the launcher's."""
    _init(OURS, rank=rank, world_size=size, store=store if store is not None else stores.agent())
    _names[id(c10d.GroupMember.WORLD)] = backend
    _world["given"] = True


def leave_world() -> None:
    """Does nothing: if the user's function leaves its process group open, the end of the process closes it."""


def _said(backend: Any) -> str:
    word = str(backend).lower() if backend else "gloo"
    return word.partition("cpu:")[2].partition(",")[0] if "cpu:" in word else word


def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **more: Any) -> Any:
    """Calls torch's function with a group of dpsim."""
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
    """Returns the group of those ranks in `split_ranks` that include this rank, or None if no list includes it."""
    parent = parent_pg or c10d.GroupMember.WORLD
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    mine = next((sorted(one) for one in split_ranks if parent.rank() in one), None)
    if mine is None:
        return None
    ranks = [parent.ranks[one] for one in mine]
    return new_group(ranks, timeout, None, None, True, group_desc)


def set_pg_timeout(timeout: Any, group: Any = None) -> None:
    """Sets the time-out of each later call on `group` (None: on the group of all ranks)."""
    (group or c10d.GroupMember.WORLD).limit = nanoseconds(timeout)


def get_backend(group: Any = None) -> str:
    """Returns the name of the backend that the program gave for `group` (None: for the group of all ranks)."""
    _get_backend(group)  # raises if this rank is no member of the group
    return _names.get(id(group or c10d.GroupMember.WORLD), "gloo")


def batch_isend_irecv(p2p_op_list: Any) -> Any:
    """Makes one batch, which torch does only for its C++ backends. NCCL groups it, so its order does not matter."""
    c10d._check_p2p_op_list(p2p_op_list)
    group = p2p_op_list[0].group or c10d.GroupMember.WORLD
    group._start_coalescing()
    for one in p2p_op_list:
        peer = {"group_dst" if one.op is dist.isend else "group_src": one.group_peer}
        one.op(one.tensor, group=one.group, tag=one.tag, **peer)
    return group._end_batch()
