"""A script as torchrun starts it: with arguments, a backend by name, a `__main__` guard, and steps from
`dpsim.mark`.
"""

import argparse
import os

import torch
import torch.distributed as dist

from dpsim import mark


def train(steps, skipped):
    for step in range(steps):
        mark.step(step)
        gradient = torch.ones(4)
        if (dist.get_rank(), step) != (1, skipped):
            dist.all_reduce(gradient)
        mark.decide("seen", step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--skipped", type=int, default=-1)
    options = parser.parse_args()
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    assert dist.get_backend() == "nccl"
    train(options.steps, options.skipped)
    dist.destroy_process_group()
