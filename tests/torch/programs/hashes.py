"""Programs that depend on hashes, which differ between processes, and one that only uses a set."""

import sys

import torch
import torch.distributed as dist

DIGITS = dict.fromkeys("123456789")
HASHES = {
    "hash": lambda: hash("expert"),
    "bucket": lambda: hash("expert") % (1 << 20),
    "set": lambda: int("".join({"1", "2", "3", "4", "5", "6", "7", "8", "9"})),
    "keys": lambda: int("".join(DIGITS.keys() & DIGITS.keys())),
    "method": lambda: "expert".__hash__(),
    "library": lambda: len("".join([*sys.stdlib_module_names][:40])),
}


def counts(rank, size):
    value = torch.tensor([HASHES[sys.argv[1]]()])
    values = [torch.zeros_like(value) for _ in range(size)]
    dist.all_gather(values, value)
    assert all(one == values[0] for one in values)


def one_bit(rank, size):
    for _ in range(1 + hash("expert-3") % 2):
        dist.barrier()


def set_only(rank, size):
    """The control: no call depends on the order of the set."""
    for name in sorted({"weight", "bias"}):
        dist.all_reduce(torch.ones(len(name)))
    assert hash("a") == hash("a")
