"""Programs for runs on torch's own gloo. `agrees` ends; in place of it, each other one does something else."""

import os

import torch
import torch.distributed as dist

from dpsim import mark


def agrees(rank, size):
    total = torch.ones(1)
    dist.all_reduce(total)
    mark.decide("total", int(total))
    dist.barrier()


def decides_otherwise(rank, size):
    dist.all_reduce(torch.ones(1))
    mark.decide("total", size + 1 - rank)
    dist.barrier()


def leaves_out(rank, size):
    dist.all_reduce(torch.ones(1))
    mark.decide("total", size)
    if rank:
        dist.barrier()


def raises(rank, size):
    dist.all_reduce(torch.ones(1))
    mark.decide("total", size)
    dist.barrier()
    if rank:
        raise ValueError("no such thing")


def dies(rank, size):
    dist.all_reduce(torch.ones(1))
    mark.decide("total", size)
    dist.barrier()
    if rank:
        os._exit(3)
