"""Programs that read one source of time or entropy each, and fail if it differs between ranks.

draws(rank, size)       # the source that the argument names
"""

import asyncio
import dataclasses
import datetime
import json
import os
import random
import secrets
import statistics
import sys
import tempfile
import threading
import time
import timeit
import uuid

import numpy
import torch
import torch.distributed as dist


@dataclasses.dataclass
class Stamped:
    at: float = dataclasses.field(default_factory=time.time)


ENTROPY = {
    "random": lambda: random.getrandbits(60),
    "seeded_by_the_system": lambda: random.seed() or random.getrandbits(60),
    "own_random": lambda: random.Random().getrandbits(60),
    "system_random": lambda: random.SystemRandom().getrandbits(60),
    "numpy": lambda: int(numpy.random.randint(1 << 60)),
    "default_rng": lambda: int(numpy.random.default_rng().integers(1 << 60)),
    "random_state": lambda: int(numpy.random.RandomState().randint(1 << 60)),
    "torch": lambda: int(torch.randint(1 << 60, (1,))),
    "torch_seed": lambda: torch.seed() >> 4,
    "urandom": lambda: int.from_bytes(os.urandom(7)),
    "getrandom": lambda: int.from_bytes(os.getrandom(7)),
    "secrets": lambda: int(secrets.token_hex(7), 16),
    "secrets_below": lambda: secrets.randbelow(1 << 60),
    "uuid1": lambda: uuid.uuid1().int >> 68,
    "uuid4": lambda: uuid.uuid4().int >> 68,
    "temporary_name": lambda: int.from_bytes(tempfile.mktemp()[-7:].encode()),
    "pid": os.getpid,
    "samples": lambda: int(statistics.NormalDist().samples(1)[0] * (1 << 50)),
}
"""Sources that differ between processes, each as a number."""

CLOCKS = {
    "time": lambda: time.time(),
    "time_ns": lambda: time.time_ns(),
    "monotonic": lambda: time.monotonic(),
    "monotonic_ns": lambda: time.monotonic_ns(),
    "perf_counter": lambda: time.perf_counter(),
    "perf_counter_ns": lambda: time.perf_counter_ns(),
    "process_time": lambda: time.process_time(),
    "process_time_ns": lambda: time.process_time_ns(),
    "thread_time": lambda: time.thread_time(),
    "thread_time_ns": lambda: time.thread_time_ns(),
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "clock_gettime_ns": lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC),
    "times": lambda: os.times(),
    "now": lambda: datetime.datetime.now(),
    "utcnow": lambda: datetime.datetime.now(datetime.UTC),
    "today": lambda: datetime.datetime.today(),
    "dataclass": lambda: Stamped().at,
    "eval": lambda: eval("time.time()"),
    "event_loop": lambda: asyncio.new_event_loop().time(),
    "timeit": lambda: timeit.timeit("1", number=1),
}
SECONDS = {
    "gmtime": lambda: time.gmtime(),
    "localtime": lambda: time.localtime(),
    "ctime": lambda: time.ctime(),
    "asctime": lambda: time.asctime(),
    "strftime": lambda: time.strftime("%S"),
}
"""Clocks with whole seconds, which two processes often read as equal."""


def same(values):
    return all(torch.equal(one, values[0]) for one in values)


def draws(rank, size):
    value = torch.tensor([ENTROPY[sys.argv[1]]()])
    values = [torch.zeros_like(value) for _ in range(size)]
    dist.all_gather(values, value)
    assert same(values)


def draws_rarely(rank, size):
    """Fails on no rank here, and on others: torch's generator has no seed."""
    missing = float(torch.rand(1)) > 1 - 1e-6
    dist.barrier()
    if missing:
        dist.barrier()


def seeded(rank, size):
    """The control: each generator has a seed of the program."""
    random.seed(7)
    numpy.random.seed(7)
    torch.manual_seed(7)
    own = [random.Random(7).random(), numpy.random.default_rng(7).random()]
    value = torch.tensor([random.random(), numpy.random.rand(), float(torch.rand(1)), *own])
    values = [torch.zeros_like(value) for _ in range(size)]
    dist.all_gather(values, value)
    assert same(values)


def reads(rank, size):
    for read in (CLOCKS | SECONDS).values():
        assert read() is not None
    dist.barrier()


def meets(rank, size):
    """Each way by which a rank learns that another one is further: its clock shows it."""
    group, store = dist.new_group([0, 1]), dist.distributed_c10d._get_default_store()
    for number, way in enumerate((by_broadcast, by_barrier, by_message, by_any_source, by_store, by_group)):
        begun = time.time()
        if rank == 0:
            time.sleep(1 + number)
        way(rank, group, store)
        assert rank == 0 or time.time() - begun >= 1 + number


def by_broadcast(rank, group, store):
    dist.broadcast(torch.ones(1), 0)


def by_barrier(rank, group, store):
    dist.barrier(group)


def by_message(rank, group, store):
    dist.recv(torch.ones(1), 0) if rank else dist.send(torch.ones(1), 1)


def by_any_source(rank, group, store):
    dist.recv(torch.ones(1)) if rank else dist.send(torch.ones(1), 1)


def by_store(rank, group, store):
    store.get("key") if rank else store.set("key", "1")


def by_group(rank, group, store):
    dist.new_group([0, 1])


def binds(rank, size):
    """Attributes of a class that no instance binds. The argument lists them: module and name."""
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    every = [(module, name, getattr(sys.modules[module], name)) for module, name in json.loads(sys.argv[1])]
    bound = [(module, name) for module, name, one in every if type("Kind", (), {"found": one})().found is not one]
    assert not bound, bound
