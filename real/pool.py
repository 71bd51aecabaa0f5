"""The parent's side: a worker process for each rank or service, kept warm, replaced when there is no other way.

A world of n ranks runs on the first n workers; the pool grows when a larger world comes. So it is with services, whose
workers have no device. The parent owns what must outlive a worker: the communicators' store, the deadlines, and the
folder of the journals and of the mailboxes' sockets. It makes no CUDA context.

All sockets listen on the loopback interface alone: the store, which has no authentication, gloo and NCCL, and the
stores of programs. A store that a program left open is there until all have ended, and not longer.

After a run that did not go well the evidence, the journals, is read first. Then:

- All have reported, but there were faults, a rank raised or aborted a communicator, or ranks made calls that the others
  did not make (`matched`). Then a new generation begins, so that no old communicator is used again.
- A rank is stuck, and recovery is "abort" (NCCL): the workers give up, abort their communicators and show that the
  device is idle. Takes about a second.
- That was not clean, a worker calls its process spoiled, a rank died, or a rank is stuck and recovery is "kill" (gloo).
  Then the pool kills all workers, and starts others when it needs them (`crew`). They are forked, which takes less than
  a second on a CPU.
- The machine took something away (`Run.lost`): the same. Where that was during set-up there is no run but `Lost`, and
  the next one gets a new store too.

The pool kills all of them, and not only the guilty, by choice. That is always right, and a half-new pool would be one
more state to reason about.

Prior art: PyTorch's MultiProcContinuousTest (spawn once, test ids over a pipe; no restart), pytest-xdist (restart of
crashed workers).
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dpsim.backend.journal.repetition import repeating
from dpsim.backend.journal.trouble import free_descriptors
from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.contract.chain import Chain
from dpsim.contract.registry import modules
from dpsim.contract.rules.made_groups import with_made
from dpsim.contract.rules.shared_state import SharedState
from dpsim.contract.world import CommunicatorSpec, Lost, Progress, Run, World
from real.chain_file import read_chains
from real.child import Child, speaking
from real.communicators import by_workers
from real.crew import Crew, ProgramRefused
from real.folder import PoolFolder
from real.journal_reader import read_journal, read_timed_journals, step_set
from real.matched import all_matched
from real.messages import AbortJob, Go, Job, Leave, Prepared, Recovered
from real.ports import listening
from real.spent import Spent
from real.store import loopback_store
from real.watch import JobWatch

RECOVERY_SECONDS = 8.0
"""For an abort. It returned in 0.5 s where it was measured, and the worker allows 5 s until the device is idle."""

DESCRIPTORS, DESCRIPTORS_A_RANK = 64, 4
"""What must be free before workers are started. A pool of four ranks ran with 38, libraries of torch included."""

MOST_GENERATIONS = 16
"""Abandoned communicators hold threads and sockets. After this number of generations the workers are replaced."""

MOST_COMMUNICATORS = 32
"""At most this number of different communicators is kept; an NCCL one holds device memory."""

# For the NCCL workers, where the environment does not say otherwise. The parent owns the deadlines, and a worker aborts
# its
# communicators itself. So torch's watchdog must neither kill the process nor write dumps when it sees an aborted one.
NCCL_ENVIRONMENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}


# All ranks are on this machine, whatever its environment says of interfaces to others.
LOOPBACK = {"NCCL_SOCKET_IFNAME": "=lo"}


class Pool:
    """Workers of one kind of device ("cpu", "cuda") and one way of recovery ("kill", "abort")."""

    def __init__(self, backend: str, device: str, recovery: str) -> None:
        self.backend = backend
        self.crew = Crew(backend, device)
        self.spent = Spent()
        self._recovery = recovery
        self._store: Any = None
        self._folder: PoolFolder | None = None
        self._owner = 0
        self._generation = 0
        self._oldest = 0
        self._number = 0
        self._secret = secrets.token_hex(16)
        self._known: set[CommunicatorSpec] = set()
        self._chains: dict[str, Chain] = {}

    def run(self, world: World, program: str, args: Any, progress: Progress | None) -> Run:
        """Run a world. After any error, Ctrl-C included, no worker is used again; an interrupt says where every rank
        stood.

        Raises SharedState for a program that keeps state where its ranks may share it, as the simulation does.
        """
        try:
            home = self._grow(world.size, len(world.services))
            with tempfile.TemporaryDirectory(prefix="job-", dir=home) as folder, listening(world.strangers):
                return self._run(world, program, args, progress, Path(folder))
        except SharedState:  # the run has ended
            raise
        except ProgramRefused:  # by some; others wait for their Go
            self._replace()
            raise
        except BaseException as error:
            self._end()
            self._store = None  # whatever was wrong with it
            if isinstance(error, OSError):  # a socket, a pipe, a process, a file: nothing of the program's
                raise Lost(f"{self.backend}: {error}") from error
            raise

    def kill(self) -> None:
        """End all workers, and wait until they are gone. The next run starts new ones."""
        self._replace()
        if self._is_ours:
            self.crew.end_all()

    def _end(self) -> None:
        self.kill()
        if self._is_ours:
            self.crew.end_server()

    def close(self) -> None:
        """End all workers, what forks them, and the store."""
        self._end()
        self._store = None
        if self._folder is not None and self._is_ours:
            self._folder.remove()
            self._folder = None
        atexit.unregister(self.close)

    @property
    def processes(self) -> list[int]:
        """The workers' process ids, by rank; those of services behind them."""
        return [child.process.pid for child in self.crew.all]

    @property
    def _is_ours(self) -> bool:
        """Not where this process was forked from the owner: it has the memory, but the workers are not its own."""
        return os.getpid() == self._owner

    # ---- start

    def _grow(self, size: int, services: int) -> Path:
        """Start what is missing. The answer is the folder for whatever belongs to the pool."""
        if any(child.has_ended() for child in self.crew.all):  # while it was idle: somebody killed it
            self._replace()
        missing = self.crew.lacks(size, services)
        if not missing and self._folder is not None:
            return self._folder.path
        needed = DESCRIPTORS + DESCRIPTORS_A_RANK * missing
        if free_descriptors(needed) < needed:  # torch would abort, or wait without end
            free = f"{needed} file descriptors are needed, and {free_descriptors(needed)} are free (see ulimit -n)"
            raise Lost(f"{self.backend}: no start of {missing} workers: {free}")
        with self.spent.on("start"):
            return self._start(size, services)

    def _start(self, size: int, services: int) -> Path:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(_path())
        device = self.crew.device
        if device == "cuda":
            environment = {**NCCL_ENVIRONMENT, **environment, **LOOPBACK}
        if self._folder is None:
            self._owner = os.getpid()
            self.crew.forking(environment)  # imports torch while we do
            self._folder = PoolFolder()
            atexit.register(self.close)
        self._store = self._store or loopback_store()
        settings: dict[str, Any] = {"device": device, "recovery": self._recovery, "port": self._store.port}
        settings["folder"] = str(self._folder.path)
        self.crew.grow(size, services, settings, environment)
        return self._folder.path

    # ---- one job

    def _run(self, world: World, program: str, args: Any, progress: Progress | None, folder: Path) -> Run:
        self._number += 1
        children = [*self.crew.workers[: world.size], *self.crew.services[: len(world.services)]]
        paths = [folder / f"rank-{actor}.journal" for actor in range(world.actors)]
        job = Job(self._number, self._generation, world, program, args, modules(), _path(), self._secret, "")
        for child, path in zip(children, paths, strict=True):
            child.send(job._replace(journal=str(path)))
        with self.spent.on("set-up"):
            self.crew.gather(children, Prepared, self._number)
        for child in children:
            child.send(Go(self._number))
        watch = JobWatch(children, paths, world, self._number, progress)
        try:
            with self.spent.on("run"):
                watch.observe()
        except KeyboardInterrupt as error:
            error.add_note(whereabouts([read_journal(path) for path in paths]))
            raise
        journals, times = read_timed_journals(paths)  # before anything is aborted or killed
        for path in paths:
            self._chains.update(read_chains(path))
        watch.look_at_threads(journals)
        world = with_made(world, journals)
        self._known.update(by_workers(spec, world.size) for spec in world.communicators)
        with self.spent.on("recovery"):
            self._recover(watch, world, all_matched(journals, world))
        if watch.changed:
            raise SharedState(min(watch.changed))  # the first name, as where all ranks share one process
        return Run(
            backend=self.backend,
            journals=journals,
            ends=watch.ends,
            waited_ns=watch.waited_ns,
            elapsed_ns=watch.elapsed_ns,
            observed=watch.observed,
            versions=children[0].versions,
            lost=watch.lost,
            services=world.services,
            undefined=watch.undefined,
            steps_set=tuple(map(step_set, paths)),
            chains=dict(self._chains),
            times=times,
            endless=repeating(journals) if watch.late else (),
        )

    # ---- afterwards

    def _recover(self, watch: JobWatch, world: World, matched: bool) -> None:
        """Make the workers fit for the next job."""
        left = self._leave(watch)
        finished = all(end == "finished" for end in watch.ends)
        if (
            finished
            and matched
            and left
            and not (world.faults or watch.spoiled or watch.aborted)
            and len(self._known) <= MOST_COMMUNICATORS
        ):
            return
        lost = bool(watch.lost) or "died" in watch.ends or ("blocked" in watch.ends and self._recovery == "kill")
        worn = self._generation - self._oldest >= MOST_GENERATIONS
        if lost or worn or watch.spoiled or not left or not self._abort():
            self._replace()
        else:
            self._renew()

    def _leave(self, watch: JobWatch) -> bool:
        """Have those stores closed that programs left open; and say whether they are."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        for child in watch.listening:
            child.send(Leave(self._number))
        return all(self._has_recovered(child, deadline) for child in watch.listening)

    def _abort(self) -> bool:
        """Have all workers give up and abort, where that is their way; and say whether they can be used again."""
        if self._recovery == "kill":
            return True  # all have ended by themselves
        deadline = time.monotonic() + RECOVERY_SECONDS
        try:
            for child in self.crew.all:
                child.link.send(AbortJob(self._number))
            return all(self._has_recovered(child, deadline) for child in self.crew.all)
        except OSError:  # one has ended by now
            return False

    def _has_recovered(self, child: Child, deadline: float) -> bool:
        """Whether the worker says so in time."""
        while speaking([child], max(0.0, deadline - time.monotonic())):
            message = child.receive()
            if message is None or isinstance(message, Recovered):
                return message is not None and message.clean
        return False

    def _replace(self) -> None:
        """Have other workers next time."""
        if self._is_ours:
            self.crew.end()
            self._renew()
            self._oldest = self._generation

    def _renew(self) -> None:
        """Use no communicator again."""
        self._generation += 1
        self._known.clear()


def _path() -> list[str]:
    """Where this process looks for modules. "" is the current folder, which may be another when a worker looks."""
    return [entry or os.getcwd() for entry in sys.path]
