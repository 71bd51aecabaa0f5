"""Twenty programs of three ranks: ten correct ones, and ten with a mistake."""

import torch
import torch.distributed as dist

# ---- ten correct programs


def averages(rank, size):
    for step in range(3):
        gradient = torch.full((4,), float(rank + step))
        dist.all_reduce(gradient)
        assert gradient[0] == size * step + size * (size - 1) / 2


def from_root(rank, size):
    weights = torch.arange(5.0) if rank == 0 else torch.zeros(5)
    dist.broadcast(weights, 0)
    assert weights[4] == 4
    parts = [torch.zeros(1) for _ in range(size)] if rank == 1 else None
    dist.gather(torch.full((1,), float(rank)), parts, dst=1)
    assert rank != 1 or [int(one) for one in parts] == list(range(size))


def ring(rank, size):
    token = torch.zeros(1)
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(token, size - 1)
        assert token == size
    else:
        dist.recv(token, rank - 1)
        dist.send(token + 1, (rank + 1) % size)


def neighbours(rank, size):
    mine, theirs = torch.full((2,), float(rank)), torch.zeros(2)
    ops = [dist.P2POp(dist.isend, mine, (rank + 1) % size), dist.P2POp(dist.irecv, theirs, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert theirs[0] == (rank - 1) % size


def subgroups(rank, size):
    first, rest = dist.new_group([0, 1]), dist.new_group(list(range(1, size)))
    for group, members in (first, [0, 1]), (rest, list(range(1, size))):
        if rank in members:
            ones = torch.ones(1)
            dist.all_reduce(ones, group=group)
            assert ones == len(members)


def objects(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert [one["rank"] for one in found] == list(range(size))
    said = ["settings"] if rank == 0 else [None]
    dist.broadcast_object_list(said, src=0)
    assert said == ["settings"]


def rendezvous(rank, size):
    store = dist.TCPStore("localhost", 29511, size, rank == 0)
    store.set(f"address.{rank}", f"host{rank}")
    assert [store.get(f"address.{one}") for one in range(size)] == [f"host{one}".encode() for one in range(size)]
    dist.barrier()


def shards(rank, size):
    shard = torch.zeros(2)
    dist.reduce_scatter_tensor(shard, torch.arange(2.0 * size))
    assert shard[0] == 2 * rank * size
    whole = torch.zeros(2 * size)
    dist.all_gather_into_tensor(whole, shard)
    assert whole[-1] == (2 * size - 1) * size


def overlapped(rank, size):
    buckets = [torch.ones(2) * one for one in range(3)]
    works = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
    for work in reversed(works):
        work.wait()
    assert [int(bucket[0]) for bucket in buckets] == [0, size, 2 * size]


def half_precision(rank, size):
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.uint8):
        number = torch.ones(3, dtype=dtype)
        dist.all_reduce(number, op=dist.ReduceOp.MAX)
        dist.broadcast(number, 0)
        assert number[0] == 1
    flag = torch.tensor([rank == 1])
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    assert flag.item()


# ---- ten with a mistake


def skips(rank, size):
    for step in range(3):
        if not (rank == 1 and step == 1):
            dist.all_reduce(torch.ones(1))
        dist.barrier()


def leaves_early(rank, size):
    for step in range(3):
        dist.all_reduce(torch.ones(1))
        if rank == 1 and step == 1:
            return


def wrong_peer(rank, size):
    number = torch.ones(2)
    if rank == 0:
        dist.send(number, 2)  # should send to rank 1
    elif rank == 1:
        dist.recv(number, 0)
    dist.barrier()


def crossed_sends(rank, size):
    number = torch.ones(2)
    if rank < 2:
        dist.send(number, 1 - rank)
        dist.recv(number, 1 - rank)


def crossed_groups(rank, size):
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    if rank < 2:
        for group in (first, second) if rank == 0 else (second, first):
            dist.all_reduce(torch.ones(1), group=group)


def one_receive_more(rank, size):
    number = torch.zeros(1)
    if rank == 0:
        dist.send(number, 1)
    if rank == 1:
        dist.recv(number, 0)
        dist.recv(number, 0)


def misspelt_key(rank, size):
    store = dist.TCPStore("localhost", 29512, size, rank == 0)
    if rank == 0:
        store.set("adress", "here")
    else:
        store.get("address")
    dist.barrier()


def group_of_some(rank, size):
    if rank < 2:
        dist.new_group([0, 1])
    everyone = dist.new_group(list(range(size)))
    dist.all_reduce(torch.ones(1), group=everyone)


def other_shape(rank, size):
    dist.all_reduce(torch.ones(4 + (rank == 1)))


def other_root(rank, size):
    dist.broadcast(torch.ones(2), src=1 if rank == 1 else 0)


HOLD = (
    *(averages, from_root, ring, neighbours, subgroups),
    *(objects, rendezvous, shards, overlapped, half_precision),
)
HANG = (skips, leaves_early, wrong_peer, crossed_sends, crossed_groups, one_receive_more, misspelt_key, group_of_some)
