"""Starts the warm parent: a process that has imported torch and forks a child process for each rank.

    seat = nursery().seat(job, 0)           # starts the children of all ranks of a job, and returns that of rank 0
    seat.pipe                               # the socket to the child
    seat.leave()                            # ends the child

The import of torch takes seconds, and a fork milliseconds. So the warm parent lives until dpsim's process ends. It
forks a few children in advance. One that no run has taken is unused, because it has received no answer yet.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.contract.words import BadInput
from dpsim.contract.world import Lost
from dpsim.torch import wire

PARENT = "dpsim.torch.child"
START_SECONDS = 300.0
"""How long dpsim waits for the import of torch: a busy machine is slow."""
LONGEST = 1 << 16
"""The largest message between dpsim and the warm parent, in bytes."""

FIXED = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""With these, numerical libraries start no threads, whose locks would stay locked after a fork."""


INVERTED = 2


class NoTorch(BadInput):
    """torch is not installed, or its import fails."""


class RanksJob(NamedTuple):
    """What each of `size` ranks runs, with `args`: a script, or a function of a file. `threads`: dpsim schedules those
    of a rank, `ordered`: in one order. `hashes`: odd ranks have another hash seed (1), and invert `hash` (`INVERTED`).
    """

    size: int
    file: str
    function: str
    args: tuple[str, ...]
    threads: bool = False
    ordered: bool = False
    hashes: int = 0


class HowEnded(NamedTuple):
    """How a process ended: the number of the signal, or 0, and the exit code."""

    signal: int
    code: int


class Seat:
    """The child process of one rank. `times`: one dictionary of all children of a run (`dpsim.torch.times`)."""

    def __init__(self, owner: Nursery, process: int, pipe: socket.socket, times: dict[Any, int]) -> None:
        self._owner = owner
        self.times = times
        self.process = process
        self.pipe = wire.Pipe(pipe)

    def leave(self) -> None:
        """Closes the pipe and ends the process. A process that has already ended is no error."""
        self.pipe.close()
        self._owner.end(self.process)

    def how_ended(self) -> HowEnded:
        """Returns how the process ended. Call it only after the process has closed its pipe."""
        return self._owner.how_ended(self.process)


class Nursery:
    """A warm parent and its children, with one hash seed and a folder for temporary files. Raises NoTorch and Lost."""

    def __init__(self, hash_seed: int, folder: Path) -> None:
        if importlib.util.find_spec("torch") is None:
            raise NoTorch("torch is not installed here; install it: pip install -e '.[real]' in a clone of dpsim")
        self._seats: dict[tuple[RanksJob, int], Seat] = {}
        self._warm: set[str] = set()
        self.folder = folder
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = {"TMPDIR": str(self.folder), "PYTHONHASHSEED": str(hash_seed)}
        environment = {**os.environ, **FIXED, **dict.fromkeys(ONE_THREAD, "1"), **own}
        with its:
            command = [sys.executable, "-m", PARENT, str(its.fileno()), str(self.folder)]
            path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
            self._process = subprocess.Popen(
                command,
                env={**environment, "PYTHONPATH": path},
                pass_fds=[its.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        self._control = ours
        ours.settimeout(START_SECONDS)
        self.torch = str(self._expect("ready")[1])

    @property
    def process(self) -> int:
        """The process id of the warm parent."""
        return self._process.pid

    def seat(self, job: RanksJob, rank: int) -> Seat:
        """Returns the child of a global rank. Starts all children of the job, and ends those of other jobs."""
        if (job, rank) not in self._seats:
            self._start(job)
        return self._seats.pop((job, rank))

    def _start(self, job: RanksJob) -> None:
        self.empty()
        for left in self.folder.iterdir():
            _remove(left)
        times: dict[Any, int] = {}
        for rank in range(job.size):
            owner = nursery(rank % 2) if job.hashes else self
            seat = self._seats[job, rank] = owner._taken(2 * job.size if rank == 0 else 0, times)
            with suppress(wire.Closed):
                seat.pipe.send(
                    ["run", rank, job.size, job.file, job.function, [*job.args], job.threads, owner.turns(job)]
                )
                seat.pipe.flush()

    def turns(self, job: RanksJob) -> bool:
        """Returns whether the children of this warm parent invert the hashes of text in a job."""
        return job.hashes == INVERTED and self is not nursery()

    def _taken(self, spares: int, times: dict[Any, int]) -> Seat:
        """Takes a child. `spares`: how many children the warm parent keeps ready from now on, or 0 for no change."""
        self._send(["take", spares])
        answer, descriptors = self._received(1)
        if answer[0] != "child" or len(descriptors) != 1:
            raise Lost(f"the parent of ranks could not fork: {answer[-1]}")
        return Seat(self, int(answer[1]), socket.socket(fileno=descriptors[0]), times)

    def warm(self, modules: list[str]) -> None:
        """Sends the names of modules that a rank imported to the warm parent, which imports them for later children."""
        new = [one for one in modules if one not in self._warm]
        self._warm.update(new)
        for at in range(0, len(new), 200):
            self._send(["warm", new[at : at + 200]])

    def end(self, process: int) -> None:
        """Ends a child."""
        with suppress(Lost):
            self._send(["end", process])

    def how_ended(self, process: int) -> HowEnded:
        """Returns how a child ended. Call it only after the child has closed its pipe."""
        self._send(["how", process])
        return HowEnded(*self._expect("ended")[1:3])

    def empty(self) -> None:
        """Ends the children that no run has taken."""
        while self._seats:
            self._seats.popitem()[1].leave()

    def close(self) -> None:
        """Ends the warm parent and its children."""
        self._seats.clear()
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _send(self, message: list[Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError as error:
            raise self._lost() from error

    def _expect(self, name: str) -> list[Any]:
        message, _ = self._received(0)
        if message[0] == "failed":
            raise NoTorch(f"torch cannot be used here: {message[1]}")
        if message[0] != name:
            raise wire.Garbled(f"the parent of ranks answered {message!r} where {name} was expected")
        return message

    def _received(self, most: int) -> tuple[list[Any], list[int]]:
        try:
            content, descriptors, _, _ = socket.recv_fds(self._control, LONGEST, most)
        except OSError as error:
            raise self._lost() from error
        if not content:
            raise self._lost()
        message = json.loads(content)
        if not (isinstance(message, list) and message and isinstance(message[0], str)):
            raise wire.Garbled(f"the parent of ranks said {str(message)[:200]}")
        return message, descriptors

    def _lost(self) -> Lost:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is None:
            return Lost("the parent of ranks does not answer")
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        _forget(self)
        return Lost(f"the parent of ranks ended: {how}")


_open: dict[tuple[int, int], Nursery] = {}
"""Maps a process id of dpsim and a hash seed to a warm parent, because a fork of dpsim needs another one."""
_folders: dict[int, Path] = {}
"""Maps a process id of dpsim to the folder for temporary files, which ranks of all hash seeds share."""


def nursery(hash_seed: int = 0) -> Nursery:
    """Returns this process's warm parent with a hash seed, and starts it if needed. Raises NoTorch and Lost."""
    process = os.getpid()
    if (process, hash_seed) not in _open:
        if process not in _folders:
            _folders[process] = Path(tempfile.mkdtemp(prefix="dpsim-ranks-"))
        _open[process, hash_seed] = Nursery(hash_seed, _folders[process])
    return _open[process, hash_seed]


def _forget(one: Nursery) -> None:
    for key, other in list(_open.items()):
        if other is one:
            del _open[key]


@atexit.register
def close() -> None:
    """Ends the warm parents of this process."""
    for process, hash_seed in list(_open):
        if process == os.getpid():
            _open.pop((process, hash_seed)).close()
    if os.getpid() in _folders:
        _remove(_folders.pop(os.getpid()))


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
