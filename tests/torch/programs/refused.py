"""Calls that dpsim does not support. For each, the command ends with an error that names the call and its line here."""

import torch
import torch.distributed as dist


def on_a_gpu(rank, size):
    dist.all_reduce(torch.ones(1, device="cuda"))


def moved_to_a_gpu(rank, size):
    torch.cuda.set_device(0)
    torch.ones(1).cuda()


def remote(rank, size):
    from torch.distributed import rpc

    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=size)


def symmetric_memory(rank, size):
    from torch.distributed import _symmetric_memory

    _symmetric_memory.empty(4)


def shrinks(rank, size):
    dist.shrink_group([1])


def hooks(rank, size):
    dist.group.WORLD._register_on_completion_hook(lambda info: None)


def queues(rank, size):
    dist.distributed_c10d._get_default_store().queue_push("tokens", b"1")


def from_a_thread(rank, size):
    """Calls from a thread that Python did not start."""
    import ctypes

    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    call, thread = kind(lambda _: dist.barrier()), ctypes.c_ulong()
    library = ctypes.CDLL(None)
    library.pthread_create(ctypes.byref(thread), None, call, None)
    library.pthread_join(thread, None)


def sparse(rank, size):
    dist.all_reduce(torch.eye(2).to_sparse())
