"""Programs that give time-outs to groups and to waits. Some have a twin with one mistake."""

import datetime
import time

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout

SOON = datetime.timedelta(seconds=1)


def _said(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def in_time(rank, size):
    """The group has a time-out, and all ranks call in time."""
    _set_pg_timeout(SOON)
    for _ in range(2):
        dist.all_reduce(torch.ones(2))
    if rank < 2:
        (dist.send if rank else dist.recv)(torch.ones(1), 1 - rank)


def in_time_twin(rank, size):
    """The mistake: rank 1 makes one of two calls, so the others raise."""
    _set_pg_timeout(SOON)
    dist.all_reduce(torch.ones(2))
    if rank != 1:
        dist.all_reduce(torch.ones(2))


def never(rank, size):
    """Rank 1 makes one of two calls. Without a time-out, the others hang."""
    dist.all_reduce(torch.ones(2))
    if rank != 1:
        dist.all_reduce(torch.ones(2))


def waits_again(rank, size):
    """A wait for a collective times out. The call continues, and a second wait succeeds."""
    tensor = torch.ones(1)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        assert _said(lambda: work.wait(SOON)) == "Operation timed out!"
        dist.send(torch.ones(1), 1)
        assert work.wait(SOON)
    else:
        if rank == 1:
            dist.recv(torch.ones(1), 0)
        dist.all_reduce(tensor)
    assert tensor[0] == size
    dist.barrier()


def waits_again_twin(rank, size):
    """The mistake: the rank treats the time-out as the end of the call."""
    tensor = torch.ones(1)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        _said(lambda: work.wait(SOON))
        dist.send(torch.ones(1), 1)
    else:
        if rank == 1:
            dist.recv(torch.ones(1), 0)
        dist.all_reduce(tensor)
    assert tensor[0] == size
    if rank == 0:
        work.wait()


def closes(rank, size):
    """The time-out of a group closes the group for this rank. Another group still works."""
    other = dist.new_group(list(range(size)), timeout=SOON)
    if rank == 0:
        said = _said(lambda: dist.all_reduce(torch.ones(1), group=other))
        assert "Timed out waiting 1000ms for recv operation to complete" in said, said
        said = _said(lambda: dist.all_reduce(torch.ones(1), group=other))
        assert "Application timeout caused pair closure" in said, said
    dist.barrier()


def closes_twin(rank, size):
    """The mistake: the other ranks call on the group after rank 0's time-out has closed it."""
    other = dist.new_group(list(range(size)), timeout=SOON)
    if rank == 0:
        _said(lambda: dist.all_reduce(torch.ones(1), group=other))
    dist.barrier()
    if rank:
        dist.all_reduce(torch.ones(1), group=other)


def hears_nothing(rank, size):
    """The time-out of a wait for a transfer closes the group, too."""
    if rank == 0:
        work = dist.irecv(torch.ones(1), 1)
        assert "Timed out waiting 1000ms for recv operation" in _said(lambda: work.wait(SOON))
        assert "Application timeout caused pair closure" in _said(dist.barrier)


def sleeps_too_long(rank, size):
    """Rank 1 sleeps longer than the time-out, so the calls of the other ranks raise."""
    _set_pg_timeout(SOON)
    if rank == 1:
        time.sleep(2)
    dist.all_reduce(torch.ones(1))


def given_at_the_beginning(rank, size):
    """Passes the time-out to `init_process_group`, as a script does."""
    dist.init_process_group("gloo", timeout=SOON)
    if rank == 0:
        assert "Timed out waiting 1000ms" in _said(lambda: dist.all_reduce(torch.ones(1)))


def asks_whether_it_is_over(rank, size):
    """A call whose time-out has passed is completed, and its wait raises."""
    _set_pg_timeout(SOON)
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        while not work.is_completed():
            time.sleep(0.1)
        assert _said(work.wait)
