"""Programs that use a tensor between a call and its `wait`. A name that begins with `changes` has the bug."""

import contextlib

import torch
import torch.distributed as dist


def _both(rank, given, taken):
    return dist.isend(given, 1 - rank), dist.irecv(taken, 1 - rank)


def waits_first(rank, size):
    given, taken = torch.full((4,), float(rank)), torch.zeros(4)
    for work in _both(rank, given, taken):
        work.wait()
    given += 1
    taken += 1


def changes_what_it_sends(rank, size):
    given, taken = torch.full((4,), float(rank)), torch.zeros(4)
    sent, received = _both(rank, given, taken)
    given += rank
    received.wait()
    sent.wait()


def changes_what_it_receives(rank, size):
    given, taken = torch.full((4,), float(rank)), torch.ones(4)
    sent, received = _both(rank, given, taken)
    if rank:
        taken.zero_()
    sent.wait()
    received.wait()


def changes_what_it_reduces(rank, size):
    """It writes by numpy, which torch does not count, and catches every exception of `wait`."""
    given = torch.ones(4)
    work = dist.all_reduce(given, async_op=True)
    if rank:
        given.numpy()[1] = 7
    with contextlib.suppress(Exception):
        work.wait()


def changes_it_before_a_look(rank, size):
    given = torch.ones(4)
    work = dist.all_reduce(given, async_op=True)
    given += rank
    while not work.is_completed():
        pass


def changes_it_in_a_batch(rank, size):
    given, taken = torch.full((4,), float(rank)), torch.zeros(4)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, given, 1 - rank), dist.P2POp(dist.irecv, taken, 1 - rank)])
    given += rank
    for work in works:
        work.wait()


def writes_beside_it(rank, size):
    """It sends and receives slices of one tensor, whose other slices it changes."""
    whole = torch.full((4, 2), float(rank))
    sent, received = _both(rank, whole[0], whole[1])
    whole[2:] += 1
    received.wait()
    sent.wait()


def reduces_twice(rank, size):
    """dpsim itself fills the tensor of the second call when the first one is over."""
    given = torch.ones(2)
    works = [dist.all_reduce(given, async_op=True) for _ in range(2)]
    for work in works:
        work.wait()


def reads_early(rank, size):
    """The bug that dpsim does not see: it reads what it receives before it waits."""
    given, taken = torch.full((4,), float(rank)), torch.zeros(4)
    sent, received = _both(rank, given, taken)
    first = taken + 1
    received.wait()
    sent.wait()
    return first


def only_blocks(rank, size):
    dist.all_reduce(torch.ones(2))
    with dist._coalescing_manager(device=torch.device("cpu")):
        dist.all_reduce(torch.ones(2))
