"""Fourteen programs of three ranks with a planted hang."""

import torch
import torch.distributed as dist
from torch.distributed import all_reduce, recv, send


def body():
    number = torch.ones(4)
    all_reduce(number)
    return number


def skip(rank, size):
    for step in range(3):
        if (rank, step) == (1, 1):
            continue
        body()


def wrong_peer(rank, size):
    number = torch.ones(2)
    if rank == 0:
        send(number, 2)  # should send to rank 1
    elif rank == 1:
        recv(number, 0)
    dist.barrier()


def crossed(rank, size):
    number = torch.ones(2)
    if rank < 2:
        send(number, 1 - rank)
        recv(number, 1 - rank)


def group_order(rank, size):
    a, b = dist.new_group([0, 1]), dist.new_group([0, 1])
    number = torch.ones(1)
    if rank == 0:
        all_reduce(number, group=a)
        all_reduce(number, group=b)
    elif rank == 1:
        all_reduce(number, group=b)
        all_reduce(number, group=a)


def shape(rank, size):
    all_reduce(torch.ones(4 + (rank == 1)))


def dtype(rank, size):
    all_reduce(torch.ones(4, dtype=torch.int32 if rank == 1 else torch.float32))


def dtype_odd(rank, size):
    all_reduce(torch.ones(4, dtype=torch.bfloat16 if rank == 1 else torch.float16))


def unmatched_recv(rank, size):
    number = torch.zeros(1)
    if rank == 0:
        send(number, 1)
    if rank == 1:
        recv(number, 0)
        recv(number, 0)


def key_never_set(rank, size):
    store = dist.TCPStore("localhost", 29500, size, rank == 0)
    if rank == 0:
        store.set("adress", "here")
    else:
        store.get("address")
    dist.barrier()


def new_group_order(rank, size):
    if rank == 1:
        _, a = dist.new_group([0, 2]), dist.new_group([0, 1])
    else:
        a, _ = dist.new_group([0, 1]), dist.new_group([0, 2])
    if rank < 2:
        all_reduce(torch.ones(1), group=a)


def new_group_some(rank, size):
    if rank < 2:  # rank 2 does not call it, so its counter of groups is behind
        dist.new_group([0, 1])
    every = dist.new_group(list(range(size)))
    all_reduce(torch.ones(1), group=every)


def early_return(rank, size):
    for step in range(3):
        body()
        if rank == 1 and step == 1:
            return


def object_src(rank, size):
    said = ["x" * (rank + 1)]
    dist.broadcast_object_list(said, src=rank if rank == 1 else 0)


def async_race(rank, size):
    """A late flag in a store decides whether a rank takes part, so some schedules hang."""
    store = dist.TCPStore("localhost", 29500, size, rank == 0)
    if rank == 0:
        store.set("stop", "1")
    if rank == 0 or not store.check(["stop"]):
        body()
