"""A torch program that makes one call of each kind, and prints what gloo's flight recorder recorded of it."""

import contextlib
import json
import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._C import _distributed_c10d
from torch.nn.parallel import DistributedDataParallel

recorder: Any = _distributed_c10d
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.ones(4)
pair = dist.new_group([0, 1])
dist.all_reduce(x, op=dist.ReduceOp.MAX)
dist.broadcast(x, 1)
dist.reduce(x, 1, group=pair)
dist.all_gather([torch.ones(4) for _ in range(size)], x)
dist.gather(x, [torch.ones(4) for _ in range(size)] if rank == 0 else None, dst=0)
dist.scatter(x, [torch.ones(4) for _ in range(size)] if rank == 1 else None, src=1)
with contextlib.suppress(RuntimeError):
    dist.all_gather_object([None] * size, {"rank": rank})
dist.barrier()
assert type(pair) is dist.ProcessGroup, "transfers in a batch are grouped for this type alone"
ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, torch.ones(4), 1 - rank)]
for work in dist.batch_isend_irecv(ops):
    work.wait()
assert functional.all_reduce(x, "sum", pair).sum() > 0
model = DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2)).sum().backward()
seen = json.loads(recorder._dump_fr_trace_json(True, False))["entries"]
kept = ("profiling_name", "process_group", "collective_seq_id", "input_sizes", "output_sizes", "input_dtypes")
print(json.dumps([[entry[name] for name in kept] for entry in seen]))
dist.destroy_process_group()
if os.environ.get("RAISES") == str(rank):
    raise ValueError("as it was asked to")
