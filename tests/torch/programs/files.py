"""Programs whose ranks use files: in one of them, rank 0 makes files without an open in Python."""

import os
import pickle
import subprocess
import tempfile
from multiprocessing import shared_memory

import torch
import torch.distributed as dist

PLACE = os.path.join(tempfile.gettempdir(), "place")


def makes(rank, size):
    if rank == 0:
        torch.save(torch.ones(2), PLACE + ".saved", pickle)
        torch.save(obj=torch.ones(2), f=PLACE + ".by_name")
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


def makes_in_cpp(rank, size):
    """Torch and `multiprocessing` make files and shared memory without an audit event."""
    if rank == 0:
        torch.jit.save(torch.jit.script(torch.nn.ReLU()), PLACE + ".script")
        torch.from_file(PLACE + ".mapped", shared=True, size=4)
        memory = shared_memory.SharedMemory("place.memory", create=True, size=8)
        memory.close()
        memory.unlink()
        torch.from_file(PLACE + ".mapped", size=4)
    dist.barrier()


def starts(rank, size):
    """Rank 0 starts processes, which may do what they want."""
    if rank == 0:
        subprocess.run(["true"], check=True)
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        os.system("true")
    dist.barrier()
