"""The fork server: a process that has imported torch and only forks. Each worker is a copy of it.

An import of torch takes two seconds of a core, with CUDA four, and an import of the installed protocols a quarter of a
second. A pool restarts all its workers after every hang on CPUs and every crash on GPUs. A fork takes only some 20 ms.
The copy gets the present environment and output of the parent, as a new process would. Only values that the imports
read from the environment are those of the server's start.

The fork server has no process groups, streams or threads, so a fork is safe. A process that has started CUDA must not
fork. So the server does not start CUDA; each worker starts it for itself. If an installed protocol used a GPU during
its import in the server, the copy detects this. It then executes a new Python in its place.

The fork server is the parent process of the workers, so dpsim asks it how they ended. The server ends with dpsim's
process, and the workers end, too (`worker.listen`). If dpsim's process was killed, the server removes the pool's
folder. The server reaps a worker only when dpsim asks, so until then no other process gets the worker's pid. If a
signal ended or stopped the server, dpsim raises `Lost`, and its workers are lost, too.

    server = ForkServer(os.environ, "cpu")
    process = server.start(settings, os.environ, [socket, lifeline])       # like a Popen: pid, poll, wait, kill
    server.close()                                                         # ends all its workers

Prior art: Android's zygote; vLLM, which forks its workers as long as no code has started CUDA.
`multiprocessing.forkserver` takes twice as long to start a process, and imports the user's main module in it. Its
processes get the environment and the output of the server's start.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

from dpsim.backend.journal.trouble import is_stopped, limit
from dpsim.contract import registry
from dpsim.contract.world import Lost
from real.clock import Clock
from real.folder import remove_stale

OUTPUTS = 1, 2
"""Descriptors that a worker gets from the parent, as they are at the worker's start."""


START_SECONDS = 180.0
"""The deadline for its first reply: it imports torch, and the machine may be slow."""

POLL_SECONDS = 1.0

TIDY_SECONDS = 10.0
"""How long to wait until a killed parent and its workers have ended."""

LOOKS = 3
"""A process counts as stopped if it is stopped for this number of seconds in a row."""


class Start(NamedTuple):
    """A request to fork a worker; the message carries `descriptors` file descriptors. The reply is its process id."""

    settings: dict[str, Any]
    environment: dict[str, str]
    descriptors: int


class AwaitWorker(NamedTuple):
    """A request to wait for a worker's end. The reply is its exit status, as in Popen, or None if it has not ended by
    then.
    """

    process: int
    seconds: float


# ---- the parent's side


class ForkServer:
    """The server process, and the requests to it."""

    def __init__(self, environment: Mapping[str, str], device: str) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            limit(ours.fileno(), START_SECONDS)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "real.fork_server", str(theirs.fileno()), device],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
            self._link = Connection(ours.detach())

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends the server, and with it its workers."""
        self._link.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(START_SECONDS)

    def start(self, settings: dict[str, Any], environment: Mapping[str, str], descriptors: Sequence[int]) -> Forked:
        """Forks a worker. Raises Lost if the server has ended."""
        given = *descriptors, *OUTPUTS
        with self._asking():
            self._link.send(Start(settings, dict(environment), len(given)))
            for descriptor in given:
                send_handle(self._link, descriptor, self.pid)
            return Forked(self, self._answer(START_SECONDS))

    def wait(self, process: int, seconds: float) -> int | None:
        """Returns how a worker ended; if the server has ended, the worker was killed."""
        try:
            with self._asking():
                self._link.send(AwaitWorker(process, seconds))
                status: int | None = self._answer(seconds + START_SECONDS)
                return status
        except Lost:
            return -signal.SIGKILL

    def _answer(self, seconds: float) -> Any:
        """Returns the server's reply. Waits at most `seconds`, and not for a server that is stopped."""
        clock, looks = Clock(POLL_SECONDS), 0
        while not self._link.poll(POLL_SECONDS):
            looks = looks + 1 if is_stopped(self.pid) else 0
            if looks == LOOKS or clock.seconds() > seconds:
                raise TimeoutError("it was stopped" if looks else f"no answer for {seconds:g} s")
        return self._link.recv()

    @contextlib.contextmanager
    def _asking(self) -> Any:
        """If a request is interrupted, the server is of no more use: its next reply would belong to that request."""
        try:
            yield
        except (EOFError, OSError) as error:
            code = self._process.poll()
            self.close()
            how = str(error) or "its socket closed" if code is None else f"exit status {code}"
            raise Lost(f"the process that forks the workers was lost ({how})") from error
        except BaseException:
            self.close()
            raise


class Forked:
    """A worker, with the methods of a `subprocess.Popen` that its parent uses."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._server.wait(self.pid, 0.0)
        return self._status

    def wait(self, timeout: float = 60.0) -> int:
        if self._status is None:
            self._status = self._server.wait(self.pid, timeout)
        if self._status is None:
            raise subprocess.TimeoutExpired("real.worker", timeout)
        return self._status

    def kill(self) -> None:
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


# ---- the server's side


def serve(link: Connection) -> None:
    """Serves requests until the parent has ended."""
    parent = os.getppid()
    while True:
        # A process that the parent forked may keep the socket open, so the server also checks its parent's pid.
        while not link.poll(1.0):
            if os.getppid() != parent:
                return
        question = link.recv()
        if isinstance(question, AwaitWorker):
            link.send(_waited(question))
            continue
        descriptors = [recv_handle(link) for _ in range(question.descriptors)]
        process = os.fork()
        if not process:
            link.close()
            _become(question, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(process)


def _waited(question: AwaitWorker) -> int | None:
    deadline = time.monotonic() + question.seconds
    while True:
        process, status = os.waitpid(question.process, os.WNOHANG)
        if process:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.001)


def command(settings: dict[str, Any]) -> list[str]:
    """Returns the command that starts a worker as a new process."""
    # -P: Python must not search the current folder for modules.
    return [sys.executable, "-P", "-m", "real.worker", json.dumps(settings)]


def _become(question: Start, descriptors: Sequence[int]) -> None:
    """Turns this copy into a worker; does not return."""
    try:
        link, lifeline, *outputs = descriptors
        for given, own in zip(outputs, OUTPUTS, strict=True):
            os.dup2(given, own)
            os.close(given)
        os.environ.clear()
        os.environ.update(question.environment)
        work({**question.settings, "socket": link, "lifeline": lifeline})
    finally:
        os._exit(1)


def work(settings: dict[str, Any]) -> None:
    """Runs a worker in this copy. If CUDA does not work in the copy, it runs in a new Python, with the same
    descriptors.
    """
    import torch

    from real import worker

    if settings["device"] == "cuda" and torch.cuda._is_in_bad_fork():
        for descriptor in (settings["socket"], settings["lifeline"]):
            os.set_inheritable(descriptor, True)
        os.execv(sys.executable, command(settings))
    worker.work(settings)


def tidy(parent: int) -> None:
    """The parent ended without ending this process: removes the pool's folder when the parent, its lock and its workers
    have gone.
    """
    deadline = time.monotonic() + TIDY_SECONDS
    while time.monotonic() < deadline and (os.getppid() == parent or _has_children()):
        time.sleep(0.01)
    remove_stale()


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    for module in ("torch.distributed", "msgspec.msgpack", f"real.{sys.argv[2]}", "real.worker"):  # as a worker would
        importlib.import_module(module)
    registry.protocols()  # and the installed protocols; if an import fails, it fails again in the job that needs it
    parent = os.getppid()
    with contextlib.suppress(EOFError, OSError):
        serve(Connection(int(sys.argv[1])))
    tidy(parent)


if __name__ == "__main__":
    # Under its own name: a program's place of an error omits frames of this package.
    from real.fork_server import main as run

    run()
