"""A program of two ranks. Rank 1 holds Python's lock in a call of C that does not end."""

import ctypes
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
dist.all_reduce(x)
if dist.get_rank() == 1:
    ctypes.PyDLL(None).usleep(int(sys.argv[1]) * 1_000_000)
    os._exit(0)
time.sleep(1)
dist.all_reduce(x)
