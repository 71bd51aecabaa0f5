"""The schedules of torch.distributed.pipelining, unmodified; and one in which a stage skips a microbatch."""

import torch
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules


def _loss(output, target):
    return (output - target).pow(2).sum()


def _one(rank, size, kind, microbatches=4):
    torch.manual_seed(0)
    stage = pipelining.PipelineStage(torch.nn.Linear(4, 4), rank, size, torch.device("cpu"))
    schedule = kind(stage, n_microbatches=microbatches, loss_fn=_loss)
    if rank == 0:
        schedule.step(torch.ones(microbatches, 4))
    elif rank == size - 1:
        schedule.step(target=torch.zeros(microbatches, 4), losses=[])
    else:
        schedule.step()


def _many(rank, size, kind, microbatches=4, vee=False):
    torch.manual_seed(0)
    count = 2 * size
    mine = [rank, count - 1 - rank] if vee else [rank, rank + size]
    stages = [pipelining.PipelineStage(torch.nn.Linear(4, 4), one, count, torch.device("cpu")) for one in mine]
    schedule = kind(stages, n_microbatches=microbatches, loss_fn=_loss)
    more = {"target": torch.zeros(microbatches, 4), "losses": []} if count - 1 in mine else {}
    schedule.step(*[torch.ones(microbatches, 4)] * (0 in mine), **more)


def gpipe(rank, size):
    _one(rank, size, schedules.ScheduleGPipe)


def one_forward_one_backward(rank, size):
    _one(rank, size, schedules.Schedule1F1B)


def looped_bfs(rank, size):
    _many(rank, size, schedules.ScheduleLoopedBFS)


def interleaved(rank, size):
    _many(rank, size, schedules.ScheduleInterleaved1F1B, 2 * size)


def interleaved_zero_bubble(rank, size):
    _many(rank, size, schedules.ScheduleInterleavedZeroBubble, 2 * size)


def zbv(rank, size):
    _many(rank, size, schedules.ScheduleZBVZeroBubble, 2 * size, vee=True)


def dualpipe_v(rank, size):
    _many(rank, size, schedules.ScheduleDualPipeV, 2 * size, vee=True)


def skips_a_microbatch(rank, size):
    """The last stage expects two microbatches less."""
    _one(rank, size, schedules.ScheduleGPipe, 4 if rank < size - 1 else 2)
