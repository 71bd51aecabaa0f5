"""Programs with time-outs, with groups that a rank aborts or destroys, and with tags. Most have a twin with one
mistake.
"""

import datetime
import threading

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _abort_process_group

SOON = datetime.timedelta(seconds=2)


def monitored(rank, size):
    for _ in range(2):
        dist.monitored_barrier(timeout=SOON)


def monitored_twin(rank, size):
    """The mistake: rank 1 calls only the first of two barriers."""
    dist.monitored_barrier(timeout=SOON)
    if rank != 1:
        dist.monitored_barrier(timeout=SOON)


def monitored_all(rank, size):
    """Only rank 0 calls the barrier, and its error names all missing ranks."""
    said = ""
    if rank == 0:
        try:
            dist.monitored_barrier(timeout=SOON, wait_all_ranks=True)
        except RuntimeError as error:
            said = str(error)
        assert "Ranks 1, 2 failed to pass" in said


def key_in_time(rank, size):
    """The store has a time-out, and rank 0 sets the key."""
    store = dist.TCPStore("localhost", 29500, size, rank == 0, timeout=SOON)
    if rank == 0:
        store.set("ready", "yes")
    assert store.get("ready") == b"yes"
    dist.barrier()


def key_in_time_twin(rank, size):
    """The mistake: rank 0 sets another key."""
    store = dist.TCPStore("localhost", 29500, size, rank == 0, timeout=SOON)
    if rank == 0:
        store.set("redy", "yes")
    store.get("ready")


def no_store_in_time(rank, size):
    """Rank 1 connects to a store that no rank opened."""
    said = ""
    if rank == 1:
        try:
            dist.TCPStore("localhost", 29501, size, False, timeout=SOON)
        except dist.DistNetworkError as error:
            said = str(error)
        assert "timed out after 2000ms" in said


def aborted(rank, size):
    """Rank 0 aborts the group in which it waits alone."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        _abort_process_group()
        try:
            work.wait()
        except RuntimeError:
            return
        raise AssertionError


def aborted_twin(rank, size):
    """The mistake: the peers wait in that group too, and do not abort it."""
    work = dist.all_reduce(torch.ones(1), async_op=True)
    if rank == 0:
        _abort_process_group()
    else:
        work.wait()


def aborted_for_a_thread(rank, size):
    """A thread of rank 0 waits in a group, and its call raises when the main thread aborts the group. All ranks have
    created the group before.
    """
    own = dist.new_group(list(range(size)))
    dist.barrier()

    def work():
        try:
            dist.all_reduce(torch.ones(1), group=own)
        except RuntimeError:
            return

    thread = threading.Thread(target=work)
    if rank == 0:
        thread.start()
        own.abort()
        thread.join()


def aborted_for_a_thread_twin(rank, size):
    """The mistake: the main thread aborts another group."""
    own, other = dist.new_group(list(range(size))), dist.new_group(list(range(size)))
    dist.barrier()
    thread = threading.Thread(target=dist.all_reduce, args=(torch.ones(1),), kwargs={"group": own})
    if rank == 0:
        thread.start()
        other.abort()
        thread.join()


def destroyed(rank, size):
    """The rank destroys the group during a call, and awaits the call afterwards."""
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, async_op=True)
    dist.destroy_process_group()
    work.wait()
    assert tensor[0] == size


def destroyed_twin(rank, size):
    """The mistake: the rank does not await the call."""
    dist.all_reduce(torch.ones(1), async_op=True)
    dist.destroy_process_group()


def tagged(rank, size):
    """Rank 1 receives the second message first, by its tag. NCCL ignores tags, so there it receives the first one."""
    if rank == 0:
        works = [dist.isend(torch.full((1,), float(tag)), 1, tag=tag) for tag in (1, 2)]
    else:
        tensors = {tag: torch.zeros(1) for tag in (2, 1)}
        works = [dist.irecv(tensor, 0, tag=tag) for tag, tensor in tensors.items()]
    for work in works:
        work.wait()
    if rank == 1:
        assert [tensors[tag][0] for tag in (1, 2)] == [1, 2]


def tagged_in_order(rank, size):
    """Both ranks use the same order, so NCCL also matches each send to its receive."""
    for tag in (1, 2):
        if rank == 0:
            dist.send(torch.full((1,), float(tag)), 1, tag=tag)
        else:
            tensor = torch.zeros(1)
            dist.recv(tensor, 0, tag=tag)
            assert tensor[0] == tag
