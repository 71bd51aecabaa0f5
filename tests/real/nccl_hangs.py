"""Two processes on two GPUs, of which rank 1 makes a mistake in step 4: nccl_hangs.py KIND RANK FOLDER

If a rank has made no step for a while, a thread of it writes the dumps of its recorders into FOLDER/dumps.
"""

import contextlib
import os
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

KIND, RANK, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEPS, AT, QUIET_S = 6, 4, 5.0
recorder: Any = _distributed_c10d
moved = [time.monotonic()]
over = threading.Event()
"""Set when this rank dumps. The end of a peer then breaks off a call of gloo, and the rank must make no further
call.
"""


def watch() -> None:
    while time.monotonic() - moved[0] < QUIET_S:
        time.sleep(0.1)
    over.set()
    for name, dump in ("nccl", recorder._dump_nccl_trace), ("gloo", recorder._dump_fr_trace):
        part = f"{FOLDER}/dumps/.{name}.{RANK}"
        with open(part, "wb") as file:
            file.write(dump(True, True, False))
        os.rename(part, f"{FOLDER}/dumps/{name}_rank_{RANK}")
    left = 2 - (KIND == "dead")
    until = time.monotonic() + 20
    while time.monotonic() < until and sum(name.startswith("gloo_") for name in os.listdir(f"{FOLDER}/dumps")) < left:
        time.sleep(0.05)
    os._exit(0)


def agree(host: Any, tokens: torch.Tensor) -> None:
    dist.all_reduce(tokens, group=host)


def experts(x: torch.Tensor) -> None:
    dist.all_reduce(x)


def gather(x: torch.Tensor) -> None:
    dist.all_gather_into_tensor(torch.empty(8, device="cuda"), x)


def step(number: int, host: Any, x: torch.Tensor) -> None:
    odd = number == AT and RANK == 1
    if odd and KIND == "dead":
        os._exit(1)
    if odd and KIND == "stuck_host":
        time.sleep(600)
    if not (odd and KIND == "absent_agreement"):
        agree(host, torch.ones(2))
    if not (odd and KIND == "absent_call"):
        experts(x)
    if odd and KIND == "surplus":
        experts(x)
    gather(x)
    torch.cuda.synchronize()


os.makedirs(f"{FOLDER}/dumps", exist_ok=True)
torch.cuda.set_device(RANK)
dist.init_process_group("nccl", rank=RANK, world_size=2)
cpu = dist.new_group([0, 1], backend="gloo")
values = torch.ones(4, device="cuda")
threading.Thread(target=watch, daemon=True).start()
for n in range(STEPS):
    moved[0] = time.monotonic() + (10.0 if n == 0 else 0.0)  # the first use of a group is slow
    with contextlib.suppress(RuntimeError):  # gloo notices a death at once, and the job would end
        step(n, cpu, values)
    if over.is_set():
        break
time.sleep(600)
