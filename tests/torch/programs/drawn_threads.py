"""A program whose argument lists what the threads of each rank do, in order. `tests/torch/thread_oracle.py` explains
the format.
"""

import json
import queue
import sys
import threading

import torch
import torch.distributed as dist

from dpsim import mark


class Shared:
    """The objects that the threads of one rank share."""

    def __init__(self, size):
        self.groups = [dist.new_group(list(range(size))) for _ in range(2)]
        self.locks = [threading.Lock(), threading.Lock()]
        self.queue, self.event = queue.Queue(), threading.Event()
        self.counts = [0, 0]


def live(rank, name, things, shared):
    log, works = [], []
    for what, *more in things:
        value = do(rank, what, more, shared, works)
        if value is not None:
            log.append(value)
            mark.decide(f"{rank}.{name}", list(log))


def do(rank, what, more, shared, works):
    if what == "sum":
        tensor = torch.tensor([more[1]])
        dist.all_reduce(tensor, group=shared.groups[more[0]])
        return int(tensor[0])
    if what == "begin":
        tensor = torch.tensor([more[1]])
        works.append((dist.all_reduce(tensor, group=shared.groups[more[0]], async_op=True), tensor))
    elif what == "end":
        work, tensor = works.pop(0)
        work.wait()
        return int(tensor[0])
    elif what == "send":
        dist.send(torch.tensor([more[0]]), 1 - rank)
    elif what == "recv":
        tensor = torch.tensor([0])
        dist.recv(tensor, 1 - rank)
        return int(tensor[0])
    elif what == "lock":
        shared.locks[more[0]].acquire()
        shared.counts[more[0]] += 1
        return shared.counts[more[0]]
    elif what == "try":
        taken = shared.locks[more[0]].acquire(blocking=False)
        if taken:
            shared.locks[more[0]].release()
        return int(taken)
    elif what == "unlock":
        shared.locks[more[0]].release()
    elif what == "put":
        shared.queue.put(more[0])
    elif what == "get":
        return shared.queue.get()
    elif what == "poll":
        try:
            return shared.queue.get_nowait()
        except queue.Empty:
            return 0
    elif what == "asks":
        return int(shared.event.is_set())
    elif what == "set":
        shared.event.set()
    elif what == "await":
        shared.event.wait()
    return None


def main(rank, size):
    shared = Shared(size)
    first, second = json.loads(sys.argv[1])[rank]
    thread = threading.Thread(target=live, args=(rank, "u", second, shared))
    thread.start()
    live(rank, "m", first, shared)
    thread.join()
