"""The processes of a pool: those that work, those that leave, and a reserve.

A worker that is of no more use is sent SIGKILL and *leaves*: a driver needs a while to take back its part of a GPU.
Those that replace it start meanwhile. They are handed to the pool when all that leave are gone, so no job finds memory
or a device that a dead process still holds.

A crew may keep a *reserve*: one more worker a rank, with torch and its device at hand. It is asked for when those that
work have to go, and a new one starts beside the next job. A second context on each GPU is its price, so it is for who
loses workers often, as tests of failures do. No reserve is kept unless `keeps_reserve` is set.

    crew = Crew("gloo", "cpu")
    crew.grow(2, settings, os.environ)      # two workers that are Ready
    crew.end()                              # they leave
    crew.grow(2, settings, os.environ)      # two others; the first are gone
    crew.close()
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsim.backend.trouble import is_stopped
from dpsim.world import BackendUnavailable, Lost
from real.child import Child, speaking
from real.clock import Clock
from real.fork_server import LOOKS, POLL_SECONDS, ForkServer
from real.messages import Ready, Refused

SETUP_SECONDS = 180.0
"""For the start of the workers, and for the communicators of a world: torch on a slow machine, NCCL on a large one."""


class ProgramRefused(RuntimeError):
    """A worker could not find the program, or its `prepare` failed. The message has the worker's traceback."""


class Crew:
    """Workers for one kind of device ("cpu", "cuda"). `workers`: those that work, by rank."""

    def __init__(self, backend: str, device: str) -> None:
        self.backend = backend
        self.device = device
        self.workers: list[Child] = []
        self.keeps_reserve = False
        self.server: ForkServer | None = None
        self._reserve: dict[int, Child] = {}
        self._leaving: list[Child] = []

    def forking(self, environment: Mapping[str, str]) -> ForkServer | None:
        """What forks the workers. None on macOS, whose libraries do not survive a fork."""
        if sys.platform == "darwin":
            return None
        if self.server is None or self.server.has_ended():
            self.end_server()
            self.server = ForkServer(environment, self.device)
        return self.server

    def grow(self, size: int, settings: dict[str, Any], environment: Mapping[str, str]) -> None:
        """Start the workers that are missing, all at the same time, and wait until they are ready."""
        missing = range(len(self.workers), size)
        for rank in missing:
            (Path(settings["folder"]) / str(rank)).unlink(missing_ok=True)  # the socket of a worker that is gone
            self.workers.append(self._called(rank) or self._started(rank, settings, environment))
        for rank, ready in self.gather(self.workers[missing.start :], Ready, 0).items():
            self.workers[rank].versions = ready.versions
        self.wait()
        if self.keeps_reserve:
            for rank in range(len(self.workers)):
                if rank not in self._reserve:
                    self._reserve[rank] = self._started(rank, settings, environment)

    def end(self) -> None:
        """All that work leave."""
        leaving, self.workers = self.workers, []
        self._end(leaving)

    def end_all(self) -> None:
        """The reserve as well; and wait until all are gone."""
        self.end()
        reserve, self._reserve = self._reserve, {}
        self._end([*reserve.values()])
        self.wait()

    def wait(self) -> None:
        """Until those that leave are gone."""
        while self._leaving:
            self._leaving[-1].wait()
            self._leaving.pop()

    def end_server(self) -> None:
        """End what forks the workers, and with it all of them."""
        if self.server is not None:
            self.server.close()
            self.server = None

    def gather(self, children: Sequence[Child], kind: type[Any], number: int) -> dict[int, Any]:
        """The answer of each worker, by rank: a message of that kind about that job."""
        answers: dict[int, Any] = {}
        clock, looks = Clock(POLL_SECONDS), 0
        while len(answers) < len(children):
            pending = [child for child in children if child.rank not in answers]
            ready = speaking(pending, POLL_SECONDS)
            stopped = [] if ready else [child for child in pending if is_stopped(child.process.pid)]
            looks = looks + 1 if stopped else 0
            if looks == LOOKS or clock.seconds() > SETUP_SECONDS:
                ranks = ", ".join(str(child.rank) for child in stopped or pending)
                why = "was stopped" if stopped else f"does not answer for {SETUP_SECONDS:g} s"
                raise Lost(f"{self.backend}: during set-up (no {kind.__name__}) the process of rank {ranks} {why}")
            for child in ready:
                message = child.receive()
                if message is None:
                    self._refuse_lost(children)
                    ended = f"the worker of rank {child.rank} ended during set-up ({child.how_it_ended()})"
                    raise BackendUnavailable(f"{self.backend}: {ended}; its output says why")
                if isinstance(message, Refused) and message.number == number:
                    if message.stage == "lost":
                        raise Lost(f"{self.backend}: rank {child.rank} could not start: {message.why}")
                    self._refuse_lost(children)
                    error = ProgramRefused if message.stage == "program" else BackendUnavailable
                    raise error(f"{self.backend}: rank {child.rank} could not start\n{message.why}")
                if isinstance(message, kind) and message.number == number:
                    answers[child.rank] = message
        return answers

    def _refuse_lost(self, children: Sequence[Child]) -> None:
        """Raise Lost if a worker was taken away during set-up: then what another one says came of that."""
        for child in children:
            taken = child.taken_away()
            if taken:
                raise Lost(f"{self.backend}: the process of rank {child.rank} {taken} during set-up")

    def _called(self, rank: int) -> Child | None:
        """That of the reserve, unless it has ended there."""
        child = self._reserve.pop(rank, None)
        if child is None or not child.has_ended():
            return child
        self._end([child])
        return None

    def _started(self, rank: int, settings: dict[str, Any], environment: Mapping[str, str]) -> Child:
        return Child(rank, settings, environment, self.forking(environment))

    def _end(self, children: Sequence[Child]) -> None:
        """Send them all away before any is waited for."""
        for child in children:
            child.end()
            self._leaving.append(child)
