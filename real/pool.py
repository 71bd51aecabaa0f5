"""The pool, in the parent: one worker process per rank or service, reused for later jobs and replaced only if
necessary.

A world of n ranks runs on the first n workers, and the pool grows for a larger world. The same applies to services,
whose workers have no device. The parent owns everything that must outlive a worker: the communicators' store, the
deadlines, and the folder of journals and mailbox sockets. It creates no CUDA context.

All sockets listen only on the loopback interface: the store (without authentication), gloo, NCCL, stores of programs. A
store that a program left open stays open until all ranks have ended.

After a run with a problem, the pool first reads the journals, since they are the evidence. Then it makes the workers
usable again:

- All ranks have reported, but there were faults, a rank raised or aborted a communicator, or calls did not match
  (`matched`). Then the pool starts a new generation number, so no worker uses old communicators again.
- A rank is stuck, and recovery is "abort" (NCCL). The workers give up, abort their communicators and show that the
  device is idle. This takes about a second.
- That failed, a worker reports its process as spoiled, a rank died, or a rank is stuck and recovery is "kill" (gloo).
  Then the pool kills all workers, and forks others when it needs them (`crew`).
- The machine took a resource away (`Run.lost`): the pool kills all workers as well. If this happens during set-up, the
  pool raises `Lost` and returns no run. The next run then gets a new store, too.

The pool kills all workers, not only the guilty ones: that is always right, and a partly new pool is one more state.

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
"""The deadline for an abort. It took 0.5 s; the worker allows 5 s until the device is idle."""

DESCRIPTORS, DESCRIPTORS_A_RANK = 64, 4
"""Descriptors that must be free at a start: a base, and some per rank. A pool of four ranks ran with 38."""

MOST_GENERATIONS = 16
"""The pool replaces the workers after this number of generations: abandoned communicators occupy threads."""

MOST_COMMUNICATORS = 32
"""The pool keeps at most this number of different communicators; an NCCL one occupies device memory."""

# Defaults for the environment of NCCL workers. The parent enforces the deadlines, and a worker aborts its
# communicators itself. So torch's watchdog must neither kill the process nor write dumps when it sees an aborted one.
# CUDA loads all kernels at the start: loaded at its first launch, a kernel waits for streams that hang.
NCCL_ENVIRONMENT = {
    "CUDA_MODULE_LOADING": "EAGER",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}

# All ranks are on this machine, whatever interface the user's environment names.
LOOPBACK = {"NCCL_SOCKET_IFNAME": "=lo"}


class Pool:
    """Workers for one kind of device ("cpu", "cuda") and one way of recovery ("kill", "abort")."""

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
        """Runs a world. After any error, Ctrl-C included, the pool uses no worker again. The note of an interrupt has
        the ranks' positions.

        Raises SharedState for a program that changes state which its ranks share in the simulation.
        """
        try:
            home = self._grow(world.size, len(world.services))
            with tempfile.TemporaryDirectory(prefix="job-", dir=home) as folder, listening(world.strangers):
                return self._run(world, program, args, progress, Path(folder))
        except SharedState:  # the run has ended
            raise
        except ProgramRefused:  # some workers refused; others wait for their Go
            self._replace()
            raise
        except BaseException as error:
            self._end()
            self._store = None  # drop the store, which may be the cause
            if isinstance(error, OSError):  # a socket, a pipe, a process or a file of the pool, not of the program
                raise Lost(f"{self.backend}: {error}") from error
            raise

    def kill(self) -> None:
        """Ends all workers, and waits until they have ended. The next run starts new ones."""
        self._replace()
        if self._is_ours:
            self.crew.end_all()

    def _end(self) -> None:
        self.kill()
        if self._is_ours:
            self.crew.end_server()

    def close(self) -> None:
        """Ends all workers, the fork server, and the store."""
        self._end()
        self._store = None
        if self._folder is not None and self._is_ours:
            self._folder.remove()
            self._folder = None
        atexit.unregister(self.close)

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers, by rank; those of services follow."""
        return [child.process.pid for child in self.crew.all]

    @property
    def _is_ours(self) -> bool:
        """Whether this process owns the workers: a process forked from the owner has only a copy of its memory."""
        return os.getpid() == self._owner

    # ---- start

    def _grow(self, size: int, services: int) -> Path:
        """Starts the missing workers. Returns the folder for the pool's files."""
        if any(child.has_ended() for child in self.crew.all):  # a worker ended while the pool was idle
            self._replace()
        missing = self.crew.lacks(size, services)
        if not missing and self._folder is not None:
            return self._folder.path
        needed = DESCRIPTORS + DESCRIPTORS_A_RANK * missing
        if free_descriptors(needed) < needed:  # torch would otherwise abort, or wait without end
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
            self.crew.forking(environment)  # imports torch at the same time as this process
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
        journals, times = read_timed_journals(paths)  # before the pool aborts or kills anything
        for path in paths:
            self._chains.update(read_chains(path))
        watch.look_at_threads(journals)
        world = with_made(world, journals)
        self._known.update(by_workers(spec, world.size) for spec in world.communicators)
        with self.spent.on("recovery"):
            self._recover(watch, world, all_matched(journals, world))
        if watch.changed:
            raise SharedState(min(watch.changed))  # the first name, as in the simulation
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
        """Lets workers close the stores that programs left open; returns whether they did."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        for child in watch.listening:
            child.send(Leave(self._number))
        return all(self._has_recovered(child, deadline) for child in watch.listening)

    def _abort(self) -> bool:
        """Lets all workers give up and abort, if recovery is "abort"; returns whether they can be used again."""
        if self._recovery == "kill":
            return True  # all have ended their job
        deadline = time.monotonic() + RECOVERY_SECONDS
        try:
            for child in self.crew.all:
                child.link.send(AbortJob(self._number))
            return all(self._has_recovered(child, deadline) for child in self.crew.all)
        except OSError:  # one has ended meanwhile
            return False

    def _has_recovered(self, child: Child, deadline: float) -> bool:
        while speaking([child], max(0.0, deadline - time.monotonic())):
            message = child.receive()
            if message is None or isinstance(message, Recovered):
                return message is not None and message.clean
        return False

    def _replace(self) -> None:
        if self._is_ours:
            self.crew.end()
            self._renew()
            self._oldest = self._generation

    def _renew(self) -> None:
        self._generation += 1
        self._known.clear()


def _path() -> list[str]:
    """Returns the module search path; "" becomes the present folder, since a worker may run in another one."""
    return [entry or os.getcwd() for entry in sys.path]
