"""Reads all sources of time and entropy in each of two processes on gloo. Rank 0 prints the names that differ.

python sources_on_gloo.py FOLDER RANK
"""

import json
import sys

import torch.distributed as dist
from hashes import HASHES
from sources import CLOCKS, ENTROPY

folder, rank = sys.argv[1:]
dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=int(rank), world_size=2)
own = {name: str(read()) for name, read in (ENTROPY | CLOCKS | HASHES).items()}
every = [None, None]
dist.all_gather_object(every, own)
if rank == "0":
    print(json.dumps([name for name in own if every[0][name] != every[1][name]]))
dist.destroy_process_group()
