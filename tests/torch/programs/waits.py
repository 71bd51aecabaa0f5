"""Programs that sleep or wait, and compare their clocks before and after it, as real processes could.

beside(rank, size)      # two threads sleep at once. The argument is the longest time that this may take.
"""

import asyncio
import datetime
import multiprocessing
import queue
import select
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist


def works(rank, size):
    begun = time.process_time() + time.thread_time() + time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
    time.sleep(1)
    if rank == 0:
        time.sleep(1)
    dist.barrier()
    worked = time.process_time() + time.thread_time() + time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) - begun
    assert 0 < worked < float(sys.argv[1])


def in_vain(rank, size):
    """Rank 0 waits six seconds in vain. The argument is the time-out of the group that it joins later."""
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=float(sys.argv[1])))
    if rank == 0:
        assert not threading.Event().wait(1)
        try:
            queue.Queue().get(timeout=1)
        except queue.Empty:
            select.select([], [], [], 1)
        condition = threading.Condition()
        with condition:
            assert not condition.wait_for(lambda: False, 1)
        ours, theirs = multiprocessing.Pipe()
        assert not ours.poll(1)
        theirs.close()
        with subprocess.Popen(["sleep", "60"], stdout=-1, stderr=-1) as child:
            try:
                child.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                child.kill()
    dist.all_reduce(torch.ones(1), group=group)


def beside(rank, size):
    begun = time.monotonic()
    threads = [threading.Thread(target=time.sleep, args=(1,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= time.monotonic() - begun < float(sys.argv[1])
    dist.barrier()


def beside_in_calls(rank, size):
    begun = time.monotonic()
    groups = [dist.new_group() for _ in range(2)]
    threads = [threading.Thread(target=sleep_and_reduce, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= time.monotonic() - begun < float(sys.argv[1])


def sleep_and_reduce(group):
    time.sleep(1)
    dist.all_reduce(torch.ones(1), group=group)


def in_a_loop(rank, size):
    begun = time.monotonic()
    asyncio.run(sleeps())
    assert 3 <= time.monotonic() - begun < float(sys.argv[1])
    dist.barrier()


async def sleeps():
    await asyncio.gather(asyncio.sleep(3), asyncio.sleep(1))
    with_executor = asyncio.get_running_loop().run_in_executor(None, int)
    await asyncio.wait_for(with_executor, 0.1)


def in_processes(rank, size):
    with multiprocessing.Pool(1) as pool:
        assert pool.map(abs, range(-2, 0)) == [2, 1]
    dist.barrier()


class Ways:
    """Ways in which a thread learns that another one has slept for a second."""

    def __init__(self):
        self.lock, self.event, self.items, self.queue = (
            threading.Lock(),
            threading.Event(),
            queue.SimpleQueue(),
            queue.Queue(),
        )
        self.slept = False
        self.thread = threading.Thread(target=self.sleep)

    def sleep(self):
        time.sleep(1)
        with self.lock:
            self.slept = True
        self.items.put(1)
        self.queue.put(1)
        self.event.set()

    def by_join(self):
        self.thread.join()
        return True

    def by_event(self):
        return self.event.wait()

    def by_queue(self):
        return self.queue.get()

    def by_items(self):
        return self.items.get()

    def by_lock(self):
        with self.lock:
            return self.slept

    def by_look(self):
        return self.event.is_set()

    def by_life(self):
        return not self.thread.is_alive()

    def by_time_out(self):
        self.thread.join(3)
        return not self.thread.is_alive() or not threading.Event().wait(3)


def learns(rank, size):
    ways, begun = Ways(), time.monotonic()
    ways.thread.start()
    if getattr(ways, sys.argv[1])():
        assert time.monotonic() - begun >= 1
    ways.thread.join()
    dist.barrier()
