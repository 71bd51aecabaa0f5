"""Programs in which a second thread of a rank makes calls. Most have a twin with one mistake."""

import queue
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch
import torch.distributed as dist


def _beside(work, *given):
    thread = threading.Thread(target=work, args=given)
    thread.start()
    return thread


def _summed(value, size, group=None):
    tensor = torch.full((2,), float(value))
    dist.all_reduce(tensor, group=group)
    assert tensor[0] == value * size


def two_groups(rank, size):
    """The thread uses its own group."""
    own = dist.new_group(list(range(size)))
    thread = _beside(_summed, 10, size, own)
    _summed(1, size)
    thread.join()


def one_group(rank, size):
    """The bug: both threads call on one group, and a race on each rank decides which call is first."""
    failed = []

    def work():
        try:
            _summed(10, size)
        except AssertionError as error:
            failed.append(error)

    thread = _beside(work)
    _summed(1, size)
    thread.join()
    assert not failed


def one_group_in_two_orders(rank, size):
    """Forces one schedule of `one_group`, in which the thread's call is first on rank 1."""
    first = threading.Event()

    def work():
        if rank == 0:
            first.wait()
        waits = dist.all_reduce(torch.full((2,), 10.0), async_op=True)
        first.set()
        waits.wait()

    thread = _beside(work)
    if rank == 1:
        first.wait()
    tensor = torch.ones(2)
    waits = dist.all_reduce(tensor, async_op=True)
    first.set()
    waits.wait()
    thread.join()
    assert tensor[0] == size


def _prefetched(size, batches, group):
    loaded = queue.Queue(2)

    def load():
        for number in range(batches):
            batch = torch.full((2,), float(number))
            dist.broadcast(batch, 0, group=group)
            loaded.put(batch)
        loaded.put(None)

    thread = _beside(load)
    while (batch := loaded.get()) is not None:
        dist.all_reduce(batch)
    thread.join()


def prefetch(rank, size):
    """A thread receives the batches on its own group, up to two batches ahead."""
    _prefetched(size, 3, dist.new_group(list(range(size))))


def prefetch_twin(rank, size):
    """The mistake: rank 1 loads one batch less."""
    _prefetched(size, 3 - (rank == 1), dist.new_group(list(range(size))))


def two_workers(rank, size):
    """Each worker has its own group, and a lock protects their output."""
    groups, lock = [dist.new_group(list(range(size))) for _ in range(2)], threading.Lock()

    def work(number):
        _summed(number, size, groups[number])
        with lock:
            print(number)

    threads = [_beside(work, number) for number in range(2)]
    for thread in threads:
        thread.join()


def two_workers_twin(rank, size):
    """The mistake: both workers call on one group, and the lock may order their calls differently on each rank."""
    lock = threading.Lock()

    def work(number):
        with lock:
            dist.all_reduce(torch.ones(1 + number))

    threads = [_beside(work, number) for number in range(2)]
    for thread in threads:
        thread.join()


def two_locks(rank, size, both=True):
    """Both threads acquire the locks in the same order."""
    first, second = threading.Lock(), threading.Lock()
    own = dist.new_group(list(range(size)))

    def work():
        with first, second:
            print("both")
        _summed(1, size, own)

    thread = _beside(work)
    with first if both else second, second if both else first:
        print("both")
    _summed(1, size)
    thread.join()


def two_locks_twin(rank, size):
    """The mistake: the main thread acquires the locks in the opposite order."""
    two_locks(rank, size, both=False)


def pool(rank, size):
    own = dist.new_group(list(range(size)))
    with ThreadPoolExecutor(1) as executor:
        sums = [executor.submit(_summed, value, size, own) for value in (1, 2)]
        _summed(3, size)
        for one in sums:
            one.result()


def pool_twin(rank, size):
    """The mistake: two workers call on one group."""
    own = dist.new_group(list(range(size)))
    with ThreadPoolExecutor(2) as executor:
        for one in [executor.submit(_summed, value, size, own) for value in (1, 2)]:
            one.result()


def _daemon(size, wants):
    own, wanted, done = dist.new_group(list(range(size))), queue.Queue(), threading.Event()

    def work():
        while True:
            _summed(wanted.get(), size, own)
            done.set()

    threading.Thread(target=work, daemon=True).start()
    if wants:
        wanted.put(1)
        done.wait()


def daemon(rank, size):
    """A daemon thread waits for another item when the rank ends."""
    _daemon(size, True)


def daemon_twin(rank, size):
    """The mistake: rank 1 calls for no item."""
    _daemon(size, rank != 1)


def beats(rank, size):
    """A thread wakes every second until an event stops it."""
    own, stop = dist.new_group(list(range(size))), threading.Event()

    def work():
        while not stop.wait(1.0):
            pass
        _summed(1, size, own)

    thread = _beside(work)
    _summed(1, size)
    stop.set()
    thread.join()


def beats_twin(rank, size):
    """The mistake: rank 1 does not set the event."""
    own, stop = dist.new_group(list(range(size))), threading.Event()

    def work():
        stop.wait()
        _summed(1, size, own)

    thread = _beside(work)
    _summed(1, size)
    if rank != 1:
        stop.set()
    thread.join()


def notified(rank, size, looks=True):
    """A thread waits for a notification, unless it has already arrived."""
    own, ready, came = dist.new_group(list(range(size))), threading.Condition(), []

    def work():
        _summed(1, size, own)
        with ready:
            if not (looks and came):
                ready.wait()

    thread = _beside(work)
    with ready:
        came.append(1)
        ready.notify()
    _summed(1, size)
    thread.join()


def notified_twin(rank, size):
    """The mistake: the thread waits even if the notification has arrived, so it may lose the notification."""
    notified(rank, size, looks=False)


def receives(rank, size, daemon=True):
    """A thread receives until its rank ends."""
    own, heard = dist.new_group(list(range(size))), threading.Event()

    def work():
        while True:
            dist.recv(torch.ones(1), 1 - rank, group=own)
            heard.set()

    threading.Thread(target=work, daemon=daemon).start()
    dist.send(torch.ones(1), 1 - rank, group=own)
    heard.wait()


def receives_twin(rank, size):
    """The mistake: the thread is no daemon, so Python waits for it."""
    receives(rank, size, daemon=False)


def waits_elsewhere(rank, size, waits=True):
    """Both threads wait for one call of the main thread."""
    _beside(_summed, 1, size, dist.new_group(list(range(size)))).join()
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, async_op=True)
    if waits:
        thread = _beside(work.wait)
        work.wait()
        thread.join()
        assert tensor[0] == size


def waits_elsewhere_twin(rank, size):
    waits_elsewhere(rank, size, waits=False)


def quiet(rank, size):
    """A thread that makes no call: two ranks have one schedule, as without the thread."""
    loaded = queue.Queue()
    thread = _beside(lambda: [loaded.put(number) for number in range(3)])
    for _ in range(3):
        _summed(loaded.get(), size)
    thread.join()


def ends_first(rank, size):
    """Two threads without a lock: each rank reduces in the order in which they ran."""
    done = []
    threads = [_beside(done.append, length) for length in (2, 3)]
    for thread in threads:
        thread.join()
    for length in done:
        dist.all_reduce(torch.ones(length))


def finishes_first(rank, size):
    """Two jobs of a pool: each rank reduces in the order in which they end."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(int, length) for length in (2, 3)]
        for job in as_completed(jobs):
            dist.all_reduce(torch.ones(job.result()))


def _saved(size, group):
    from torch.distributed import checkpoint

    folder = str(Path(tempfile.gettempdir()) / "saved_by_a_thread")
    saving = checkpoint.async_save({"w": torch.ones(4)}, checkpoint_id=folder, process_group=group)
    _summed(1, size)
    saving.result()


def saved(rank, size):
    """A thread saves on its own group."""
    _saved(size, dist.new_group(list(range(size)), backend="gloo"))


def saved_twin(rank, size):
    """The mistake: a thread saves on the group that the training uses."""
    _saved(size, None)


def wait_for_each_other(rank, size):
    """Two threads of a rank wait for an item that the other one would put after its own."""
    ours, theirs = queue.Queue(), queue.Queue()
    other = threading.Thread(target=lambda: theirs.put(ours.get()))
    other.start()
    ours.put(theirs.get())
