"""The warm parent, as dpsim sees it: a process that has imported torch and forks a child for each rank.

    seat = nursery().seat(job, 0)           # starts the ranks of a job together, and hands out one of them
    seat.pipe                               # the socket on which the rank's process speaks
    seat.leave()                            # ends the process

A cold import of torch takes seconds, a fork milliseconds. The parent starts with the first job and lives as long as
this process. It keeps a few children ready, so those of the next schedule are forked while this one runs. A seat that
no run took is as new: nothing answered its process yet.
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
"""For the import of torch, on a machine that does much else."""
LONGEST = 1 << 16
"""Bytes of a message between dpsim and the parent."""

FIXED = {"PYTHONHASHSEED": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Libraries start no threads. A fork keeps one thread, and what the others held stays locked."""


class NoTorch(BadInput):
    """torch cannot be imported in this environment."""


class RanksJob(NamedTuple):
    """What each rank of a world runs: a script, or a function of a file. `args`: those of the command line. `threads`:
    threads of its process make calls.
    """

    size: int
    file: str
    function: str
    args: tuple[str, ...]
    threads: bool = False


class HowEnded(NamedTuple):
    """How a process ended: by a signal, or with an exit code."""

    signal: int
    code: int


class Seat:
    """The process of one rank."""

    def __init__(self, owner: Nursery, process: int, pipe: socket.socket) -> None:
        self._owner = owner
        self.process = process
        self.pipe = wire.Pipe(pipe)

    def leave(self) -> None:
        """End the process. One that has ended already is no error."""
        self.pipe.close()
        self._owner.end(self.process)

    def how_ended(self) -> HowEnded:
        """How the process ended, which closed its pipe."""
        return self._owner.how_ended(self.process)


class Nursery:
    """A warm parent and its children. Raises NoTorch where there is no torch, and Lost where the parent ends."""

    def __init__(self) -> None:
        if importlib.util.find_spec("torch") is None:
            raise NoTorch("torch is not installed here; install it: pip install -e '.[real]' in a clone of dpsim")
        self._seats: dict[tuple[RanksJob, int], Seat] = {}
        self._warm: set[str] = set()
        self.folder = Path(tempfile.mkdtemp(prefix="dpsim-ranks-"))
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, **FIXED, **dict.fromkeys(ONE_THREAD, "1"), "TMPDIR": str(self.folder)}
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
        self.torch = str(self._heard("ready")[1])

    @property
    def process(self) -> int:
        """The number of the parent's process."""
        return self._process.pid

    def seat(self, job: RanksJob, rank: int) -> Seat:
        """The process of a rank. All ranks of the job start together; those of another job end."""
        if (job, rank) not in self._seats:
            self._start(job)
        return self._seats.pop((job, rank))

    def _start(self, job: RanksJob) -> None:
        self.empty()
        for left in self.folder.iterdir():
            _remove(left)
        for rank in range(job.size):
            self._tell(["take", 2 * job.size if rank == 0 else 0])
            answer, descriptors = self._received(1)
            if answer[0] != "child" or len(descriptors) != 1:
                raise Lost(f"the parent of ranks could not fork: {answer[-1]}")
            seat = Seat(self, int(answer[1]), socket.socket(fileno=descriptors[0]))
            self._seats[job, rank] = seat
            with suppress(wire.Closed):
                seat.pipe.send(["run", rank, job.size, job.file, job.function, [*job.args], job.threads])
                seat.pipe.flush()

    def warm(self, modules: list[str]) -> None:
        """Modules that a rank imported: the parent imports them too, and later children have them."""
        new = [one for one in modules if one not in self._warm]
        self._warm.update(new)
        for at in range(0, len(new), 200):
            self._tell(["warm", new[at : at + 200]])

    def end(self, process: int) -> None:
        """End a child."""
        with suppress(Lost):
            self._tell(["end", process])

    def how_ended(self, process: int) -> HowEnded:
        """How a child ended, which has closed its pipe."""
        self._tell(["how", process])
        return HowEnded(*self._heard("ended")[1:3])

    def empty(self) -> None:
        """End the children that no run took."""
        while self._seats:
            self._seats.popitem()[1].leave()

    def close(self) -> None:
        """End the parent and its children."""
        self._seats.clear()
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        _remove(self.folder)

    def _tell(self, message: list[Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError as error:
            raise self._lost() from error

    def _heard(self, name: str) -> list[Any]:
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


_open: dict[int, Nursery] = {}
"""That of this process, by its number: a process that was forked gets another one."""


def nursery() -> Nursery:
    """The one of this process. Raises NoTorch and Lost."""
    own = _open.get(os.getpid())
    if own is None:
        own = _open[os.getpid()] = Nursery()
    return own


def _forget(one: Nursery) -> None:
    for process, other in list(_open.items()):
        if other is one:
            del _open[process]


@atexit.register
def close() -> None:
    """End the parent of this process, if there is one."""
    own = _open.pop(os.getpid(), None)
    if own is not None:
        own.close()


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
