"""The ranks decide one label at two lines, and differently."""

import torch.distributed as dist

from dpsim import mark

dist.init_process_group("gloo")
for _ in range(2):
    if dist.get_rank() == 0:
        mark.decide("side", "left")
    else:
        mark.decide("side", "right")
dist.destroy_process_group()
