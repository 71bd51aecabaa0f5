"""Calls every function of torch.distributed that dpsim supports, one program for each: synchronous, asynchronous,
coalesced, for objects, batched and functional.
"""

import datetime

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

SECONDS = datetime.timedelta(seconds=30)


def _both(call):
    """Makes the call twice, the second time with `async_op`."""
    call(async_op=False)
    call(async_op=True).wait()


def _rows(size, elements=2):
    return [torch.zeros(elements) for _ in range(size)]


def all_reduce(rank, size):
    given = torch.ones(2)
    _both(lambda **how: dist.all_reduce(given, **how))
    assert given[0] == size * size


def all_reduce_coalesced(rank, size):
    given = [torch.ones(2), torch.ones(3)]
    dist.all_reduce_coalesced(given)
    assert [int(one[0]) for one in given] == [size, size]


def coalescing(rank, size):
    given = [torch.ones(2), torch.ones(3)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as works:
        for one in given:
            dist.all_reduce(one)
    works.wait()
    assert [int(one[0]) for one in given] == [size, size]


def broadcast(rank, size):
    given = torch.full((2,), float(rank))
    _both(lambda **how: dist.broadcast(given, 1, **how))
    assert given[0] == 1


def reduce(rank, size):
    given = torch.ones(2)
    _both(lambda **how: dist.reduce(given, 1, **how))
    assert rank != 1 or given[0] >= size


def all_gather(rank, size):
    found = _rows(size)
    _both(lambda **how: dist.all_gather(found, torch.full((2,), float(rank)), **how))
    assert [int(one[0]) for one in found] == list(range(size))


def all_gather_coalesced(rank, size):
    rows = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    dist.all_gather_coalesced(rows, [torch.full((2,), float(rank)), torch.ones(3)])
    assert [int(row[0][0]) for row in rows] == list(range(size))


def all_gather_into_tensor(rank, size):
    whole = torch.zeros(2 * size)
    _both(lambda **how: dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)), **how))
    assert whole[-1] == size - 1


def single(rank, size):
    """Uses the names that torch 2.13 gives to the calls on single tensors."""
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    whole, mine = torch.zeros(2 * size), torch.zeros(2)
    _both(lambda **how: gather(whole, torch.full((2,), float(rank)), **how))
    _both(lambda **how: scatter(mine, whole, **how))
    assert mine[0] == size * rank


def gather(rank, size):
    found = _rows(size) if rank == 1 else None
    _both(lambda **how: dist.gather(torch.full((2,), float(rank)), found, dst=1, **how))
    assert rank != 1 or int(found[-1][0]) == size - 1


def gather_single(rank, size):
    """Uses `gather_single` of torch 2.14. Older versions gather into views."""
    found = torch.zeros(2 * size) if rank == 1 else None

    def before(mine, whole, **how):
        return dist.gather(mine, None if whole is None else list(whole.chunk(size)), **how)

    call = getattr(dist, "gather_single", before)
    _both(lambda **how: call(torch.full((2,), float(rank)), found, dst=1, **how))
    assert rank != 1 or found.tolist() == [float(one) for one in range(size) for _ in range(2)]


def scatter(rank, size):
    mine, parts = torch.zeros(2), [torch.full((2,), float(one)) for one in range(size)] if rank == 1 else None
    _both(lambda **how: dist.scatter(mine, parts, src=1, **how))
    assert mine[0] == rank


def reduce_scatter(rank, size):
    mine = torch.zeros(2)
    _both(lambda **how: dist.reduce_scatter(mine, [torch.ones(2)] * size, **how))
    assert mine[0] == size


def reduce_scatter_tensor(rank, size):
    mine = torch.zeros(2)
    _both(lambda **how: dist.reduce_scatter_tensor(mine, torch.ones(2 * size), **how))
    assert mine[0] == size


def all_to_all(rank, size):
    found = _rows(size)
    _both(lambda **how: dist.all_to_all(found, [torch.full((2,), float(rank))] * size, **how))
    assert int(found[-1][0]) == size - 1


def all_to_all_single(rank, size):
    found, given = torch.zeros(size), torch.full((size,), float(rank))
    _both(lambda **how: dist.all_to_all_single(found, given, **how))
    assert found[-1] == size - 1
    sizes = [1 + (rank + one) % 2 for one in range(size)]
    dist.all_to_all_single(torch.zeros(sum(sizes)), torch.zeros(sum(sizes)), sizes, sizes)


def barrier(rank, size):
    _both(dist.barrier)


def monitored_barrier(rank, size):
    dist.monitored_barrier(timeout=SECONDS)


def send(rank, size):
    number = torch.zeros(2)
    if rank:
        dist.recv(number, rank - 1)
    if rank + 1 < size:
        dist.send(number + 1, rank + 1)
    assert number[0] == rank


def tags(rank, size):
    first, second = torch.zeros(1), torch.zeros(1)
    right, left = (rank + 1) % size, (rank - 1) % size
    works = [dist.isend(torch.ones(1) * tag, right, tag=tag) for tag in (1, 2)]
    works += [dist.irecv(second, left, tag=2), dist.irecv(first, left, tag=1)]
    for work in works:
        work.wait()
    assert (int(first), int(second)) == (1, 2)


def isend(rank, size):
    number = torch.zeros(2)
    works = [dist.isend(torch.ones(2), (rank + 1) % size), dist.irecv(number, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert number[0] == 1


def batch_isend_irecv(rank, size):
    number = torch.zeros(2)
    sent = dist.P2POp(dist.isend, torch.ones(2), (rank + 1) % size)
    for work in dist.batch_isend_irecv([sent, dist.P2POp(dist.irecv, number, (rank - 1) % size)]):
        work.wait()
    assert number[0] == 1


def all_gather_object(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found[-1]["rank"] == size - 1


def gather_object(rank, size):
    found = [None] * size if rank == 1 else None
    dist.gather_object({"rank": rank}, found, dst=1)
    assert rank != 1 or found[-1]["rank"] == size - 1


def broadcast_object_list(rank, size):
    said = ["settings", 3] if rank == 1 else [None, None]
    dist.broadcast_object_list(said, src=1)
    assert said == ["settings", 3]


def scatter_object_list(rank, size):
    found = [None]
    dist.scatter_object_list(found, list(range(size)) if rank == 1 else None, src=1)
    assert found == [rank]


def send_object_list(rank, size):
    said = [None]
    if rank == 0:
        dist.send_object_list(["text"], dst=1)
    if rank == 1:
        dist.recv_object_list(said, src=0)
        assert said == ["text"]


def functional_collectives(rank, size):
    world = dist.group.WORLD
    assert functional.all_reduce(torch.ones(4), "sum", world)[0] == size
    assert len(functional.all_gather_tensor(torch.ones(2), 0, world)) == 2 * size
    assert functional.reduce_scatter_tensor(torch.ones(size), "sum", 0, world)[0] == size
    assert functional.all_to_all_single(torch.ones(size), None, None, world).sum() == size
    assert functional.broadcast(torch.full((2,), float(rank)), 1, world)[0] == 1
    following = [(one + 1) % size for one in range(size)]
    assert functional.permute_tensor(torch.ones(2), following, world).sum() == 2


def functional_coalesced(rank, size):
    world = dist.group.WORLD
    pair = [torch.ones(2), torch.ones(3)]
    assert functional.all_reduce_coalesced(pair, "sum", world)[0][0] == size
    assert len(functional.all_gather_into_tensor_coalesced(pair, world)[1]) == 3 * size
    whole = [torch.ones(size), torch.ones(2 * size)]
    assert functional.reduce_scatter_tensor_coalesced(whole, "sum", [0, 0], world)[0][0] == size


def futures(rank, size):
    given = torch.ones(2)
    future = dist.all_reduce(given, async_op=True).get_future()
    assert future.then(lambda one: one.value()[0] / size).wait()[0] == 1


def new_group(rank, size):
    groups = [dist.new_group([0, 1]), dist.new_group(list(range(1, size)))]
    for group in groups:
        if rank in dist.get_process_group_ranks(group):
            dist.all_reduce(torch.ones(1), group=group)


def new_subgroups(rank, size):
    mine, _ = dist.new_subgroups(2)
    dist.all_reduce(torch.ones(1), group=mine)
    mine, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    dist.all_reduce(torch.ones(1), group=mine)


def split_group(rank, size):
    half = size // 2
    mine = dist.split_group(split_ranks=[list(range(half)), list(range(half, size))])
    given = torch.ones(1)
    dist.all_reduce(given, group=mine)
    assert given == half


def device_mesh(rank, size):
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    for name in ("rows", "columns"):
        dist.all_reduce(torch.ones(1), group=mesh[name].get_group())


def destroy_process_group(rank, size):
    group = dist.new_group(list(range(size)))
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group(group)
    dist.destroy_process_group()
    assert not dist.is_initialized()


# ---- stores


def _store(rank, size):
    return dist.TCPStore("localhost", 29521, size, rank == 0, wait_for_workers=False)


def store_set(rank, size):
    store = _store(rank, size)
    store.set(f"key.{rank}", "here")
    assert store.get(f"key.{(rank + 1) % size}") == b"here"
    dist.barrier()


def store_add(rank, size):
    store = _store(rank, size)
    assert 1 <= store.add("count", 1) <= size
    dist.barrier()
    assert store.get("count") == str(size).encode()
    dist.barrier()


def store_compare_set(rank, size):
    store = _store(rank, size)
    store.compare_set("first", "", str(rank))
    dist.barrier()
    assert store.get("first") in [str(one).encode() for one in range(size)]
    dist.barrier()


def store_wait(rank, size):
    store = dist.PrefixStore("deep", _store(rank, size))
    if rank == 0:
        store.set("key", "here")
    store.wait(["key"], SECONDS)
    assert store.check(["key"])
    dist.barrier()
    if rank == 0:
        assert store.delete_key("key")
    dist.barrier()
    assert not store.check(["key"])
    dist.barrier()


def hash_store(rank, size):
    store = dist.HashStore()
    store.set("own", str(rank))
    assert store.get("own") == str(rank).encode()
    dist.barrier()
