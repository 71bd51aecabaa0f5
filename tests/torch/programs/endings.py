"""Programs whose ranks do not end by returning, and programs that read values that a system gives anew in each run."""

import datetime
import os
import random
import signal
import sys
import tempfile
import time
import uuid

import torch
import torch.distributed as dist


def exits(rank, size):
    if rank == 1:
        sys.exit(3)
    dist.barrier()


def killed(rank, size):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    dist.barrier()


def spins(rank, size):
    while rank == 1:
        pass
    dist.barrier()


def _alike(value, size):
    found = [None] * size
    dist.all_gather_object(found, value)
    return found


def reads_clocks(rank, size):
    before = time.monotonic()
    time.sleep(3)
    assert time.monotonic() - before >= 3
    end = time.time() + 60
    while time.time() < end:
        pass
    _alike([time.time(), time.perf_counter(), str(datetime.datetime.now())], size)


def draws(rank, size):
    with tempfile.TemporaryDirectory() as folder:
        _alike(
            [random.random(), torch.rand(1).item(), str(uuid.uuid4()), os.urandom(4).hex(), folder, os.getpid()], size
        )
