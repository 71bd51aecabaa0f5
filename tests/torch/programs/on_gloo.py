"""Runs program functions on the real gloo, each rank in a process, and prints how each run ended.

    python on_gloo.py 3 averages skips          {"averages": "ended", "skips": "hangs"}

A rank that is done waits until all are. Otherwise gloo would tell its peers that the process ended, and a hang would
turn into an error.
"""

import json
import os
import sys
import tempfile
import time
import traceback

import limits
import plain
import threads
import timeouts
import torch
import torch.distributed as dist
import typed

SECONDS = float(os.environ.get("GLOO_SECONDS", "12"))


def live(name, rank, size, folder):
    code = 1
    try:
        torch.set_num_threads(1)
        store = dist.FileStore(os.path.join(folder, "store"), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        module = next(one for one in (typed, threads, limits, timeouts, plain) if hasattr(one, name))
        getattr(module, name)(rank, size)
        code = 0
    except BaseException:
        traceback.print_exc()
    open(os.path.join(folder, f"{rank}.{code}"), "w").close()
    while not os.path.exists(os.path.join(folder, "over")):
        time.sleep(0.02)
    os._exit(code)


def outcome(name, size):
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(size):
            child = os.fork()
            if not child:
                live(name, rank, size, folder)
            children.append(child)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            done = [one for one in os.listdir(folder) if one[0].isdigit()]
            if len(done) == size:
                break
            time.sleep(0.02)
        done = [one for one in os.listdir(folder) if one[0].isdigit()]
        open(os.path.join(folder, "over"), "w").close()
        for child in children:
            if len(done) < size:
                os.kill(child, 9)
            os.waitpid(child, 0)
    if any(one.endswith(".1") for one in done):
        return "raised"
    return "ended" if len(done) == size else "hangs"


if __name__ == "__main__":
    _, ranks, *names = sys.argv
    print(json.dumps({name: outcome(name, int(ranks)) for name in names}))
