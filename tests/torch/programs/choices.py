"""Programs whose result depends on the schedule: which rank sends first, whether a Work is over. Also groups that ranks
create.
"""

import time

import torch
import torch.distributed as dist


def collects(rank, size):
    """Rank 0 receives from any rank."""
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        return
    seen = set()
    for _ in range(size - 1):
        tensor = torch.zeros(1)
        source = dist.recv(tensor)
        assert tensor[0] == source
        seen.add(source)
    assert seen == set(range(1, size))


def takes_rank_1_first(rank, size):
    """The bug: rank 0 assumes that the first message comes from rank 1."""
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        return
    tensor = torch.zeros(1)
    dist.recv(tensor)
    assert tensor[0] == 1
    for _ in range(size - 2):
        dist.recv(tensor)


def collects_in_a_group(rank, size):
    """Receives from any rank in a group of the last ranks, with a tag. The returned sources are global ranks."""
    group = dist.new_group(list(range(1, size)))
    if rank == 1:
        tensor = torch.zeros(1)
        for _ in range(size - 2):
            source = dist.recv(tensor, group=group, tag=3)
            assert tensor[0] == source
    elif rank:
        dist.send(torch.tensor([float(rank)]), 1, group=group, tag=3)


def looks_once(rank, size):
    work = dist.all_reduce(torch.ones(2), async_op=True)
    work.is_completed()
    work.wait()


def polls(rank, size):
    """Polls an all_reduce until it is over; then the tensor has the sum."""
    tensor = torch.ones(2)
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(0.01)
    assert tensor[0] == size


def polls_while_it_works(rank, size):
    """Sends between two polls of a receive. The peer may wait for this send."""
    tensor = torch.zeros(1)
    work = dist.irecv(tensor, 1 - rank)
    sent = None
    while not work.is_completed():
        if sent is None:
            sent = dist.isend(torch.ones(1), 1 - rank)
    work.wait()
    (sent or dist.isend(torch.ones(1), 1 - rank)).wait()


def counts_on_it(rank, size):
    """The bug: it assumes that an all_reduce is over at once."""
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work.is_completed()
    work.wait()


def makes_the_group_of_the_first_message(rank, size):
    """The schedule decides which group exists: rank 0 publishes the rank whose message it received first."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        tensor = torch.zeros(1)
        store.set("first", str(dist.recv(tensor)))
        dist.recv(tensor)
    else:
        dist.send(torch.ones(1), 0)
    first = int(store.get("first"))
    group = dist.new_group([0, first], use_local_synchronization=True)
    if rank in (0, first):
        dist.all_reduce(torch.ones(1), group=group)


def names_other_ranks(rank, size):
    """The bug: rank 2 creates a group of other ranks under the same name."""
    ranks = [0, 1, 2] if rank < 2 else [1, 2]
    group = dist.new_group(ranks)
    dist.all_reduce(torch.ones(1), group=group)
