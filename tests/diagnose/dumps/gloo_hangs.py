"""Four gloo processes, one of which makes a mistake in step 3: python gloo_hangs.py KIND RANK FOLDER

For dumps, one process forks the ranks, because imports of torch and first stacks take most of the time: python
gloo_hangs.py KIND all FOLDER. It ends when all of them have ended.
If no rank has moved for a while, a thread of each rank writes the recorder's dump. It ends the process when all others
have written theirs.
"""

import os
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch._C._profiler import gather_traceback, symbolize_tracebacks

KIND, FOLDER = sys.argv[1], sys.argv[3]
ODD, STEPS, QUIET_S = 2, 6, float(os.environ.get("HANGS_QUIET", "1.5"))
recorder: Any = _distributed_c10d


def forked() -> int:
    """Returns the rank in each of four children. The parent waits for them, and never returns.

    The first stack that a process writes costs seven seconds of CPU time, so the parent writes one for its children.
    """
    symbolize_tracebacks([gather_traceback(python=True, script=False, cpp=False)])
    for rank in range(4):
        if not os.fork():
            return rank
    for _ in range(4):
        os.wait()
    sys.exit(0)


RANK = forked() if sys.argv[2] == "all" else int(sys.argv[2])


def beat() -> None:
    """Records the rank's progress in the size of a file."""

    with open(f"{FOLDER}/beat.{RANK}", "ab") as file:
        file.write(b".")


def watch() -> None:
    last, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        time.sleep(0.1)
        beats = sum(os.path.getsize(f"{FOLDER}/{name}") for name in os.listdir(FOLDER) if name.startswith("beat."))
        if beats != last:
            last, since = beats, time.monotonic()
    with open(f"{FOLDER}/part.{RANK}", "wb") as file:
        file.write(recorder._dump_fr_trace(True, True, False))
    os.rename(f"{FOLDER}/part.{RANK}", f"{FOLDER}/gloo_rank_{RANK}")
    left = 4 - (KIND == "dead")
    until = time.monotonic() + 20
    while time.monotonic() < until and sum(name.startswith("gloo_rank_") for name in os.listdir(FOLDER)) < left:
        time.sleep(0.05)
    os._exit(0)


dist.init_process_group("gloo", rank=RANK, world_size=4)
other = dist.new_group([0, 1, 2, 3])
x = torch.ones(4)


def agree() -> None:
    dist.all_reduce(x)


def gather() -> None:
    dist.all_gather([torch.ones(4) for _ in range(4)], x)


def ring(to: int, source: int) -> None:
    works = [dist.isend(x, to), dist.irecv(torch.ones(4), source)]
    for work in works:
        work.wait()


def step(number: int) -> bool:
    odd = number == 3 and RANK == ODD
    if odd and KIND == "early_return":
        return False
    if odd and KIND == "dead":
        os._exit(1)
    if odd and KIND == "stuck_host":
        time.sleep(600)
    if odd and KIND == "surplus":
        agree()
    if not (odd and KIND == "absent_call"):
        agree()
    beat()
    ring((RANK + 1) % 4, (RANK + 1) % 4 if odd and KIND == "wrong_peer" else (RANK - 1) % 4)
    if odd and KIND == "mismatched":
        dist.broadcast(x, 0)
    else:
        gather()
    beat()
    if odd and KIND == "group_order":
        dist.all_reduce(x, group=other)
        dist.barrier()
    else:
        dist.barrier()
        dist.all_reduce(x, group=other)
    beat()
    return True


dist.barrier()
beat()
threading.Thread(target=watch, daemon=True).start()
try:
    for number in range(STEPS):
        if not step(number):
            break
except RuntimeError as error:
    print(RANK, "raised", str(error)[:200], file=sys.stderr)
time.sleep(600)
