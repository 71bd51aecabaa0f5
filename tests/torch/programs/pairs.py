"""Two ranks send to each other, with and without a batch. Both end on gloo. On NCCL the one without hangs."""

import torch
import torch.distributed as dist


def batched(rank, size):
    mine, theirs = torch.ones(2), torch.zeros(2)
    ops = [dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, theirs, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert theirs[0] == 1


def unbatched(rank, size):
    mine, theirs = torch.ones(2), torch.zeros(2)
    for work in [dist.isend(mine, 1 - rank), dist.irecv(theirs, 1 - rank)]:
        work.wait()
