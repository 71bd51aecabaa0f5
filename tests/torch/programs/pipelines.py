"""Programs that use the schedules of torch.distributed.pipelining without changes. In each twin, the last stage expects
other microbatches.
"""

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


KINDS = {
    "gpipe": (_one, schedules.ScheduleGPipe, {}),
    "one_forward_one_backward": (_one, schedules.Schedule1F1B, {}),
    "looped_bfs": (_many, schedules.ScheduleLoopedBFS, {}),
    "interleaved": (_many, schedules.ScheduleInterleaved1F1B, {}),
    "interleaved_zero_bubble": (_many, schedules.ScheduleInterleavedZeroBubble, {}),
    "zbv": (_many, schedules.ScheduleZBVZeroBubble, {"vee": True}),
    "dualpipe_v": (_many, schedules.ScheduleDualPipeV, {"vee": True}),
}


def _holds(name):
    run, kind, more = KINDS[name]
    return lambda rank, size: run(rank, size, kind, 2 * size, **more)


def _twin(name):
    """Returns a program whose last rank expects another number of microbatches."""
    run, kind, more = KINDS[name]
    return lambda rank, size: run(rank, size, kind, 2 * size * (1 + (rank == size - 1)), **more)


for _name in KINDS:
    globals()[_name] = _holds(_name)
    globals()[f"{_name}_twin"] = _twin(_name)
