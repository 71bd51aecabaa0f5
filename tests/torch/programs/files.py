"""Programs whose ranks use files: in one of them, rank 0 makes files without an open in Python."""

import os
import tempfile

import torch
import torch.distributed as dist

PLACE = os.path.join(tempfile.gettempdir(), "place")


def makes(rank, size):
    if rank == 0:
        torch.save(torch.ones(2), PLACE + ".saved")
        os.mkdir(PLACE + ".folder")
        with open(PLACE + ".part", "w"):
            pass
        os.replace(PLACE + ".part", PLACE + ".whole")
        os.symlink(PLACE + ".whole", PLACE + ".link")
    dist.barrier()


def reads(rank, size):
    """The control: no rank makes a file."""
    assert not os.path.exists(PLACE + ".saved")
    dist.barrier()
