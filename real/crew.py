"""The worker processes of a pool: those that work, those that are leaving, and a reserve.

When a worker is of no more use, the crew sends it SIGKILL, and the worker *leaves*. A GPU driver needs a while to free
the worker's memory. The crew starts replacements meanwhile, but the pool gets them only when all leaving workers have
ended. So no job finds memory or a device occupied by a dead process.

A crew may keep a *reserve*: one more worker per rank, which has already imported torch and opened its device. If
workers have to leave, the reserve takes their place at once, and a new reserve starts during the next job. A reserve
costs a second CUDA context on each GPU, so only users that lose workers often need it, such as tests of failures. The
field `keeps_reserve` turns it on.

A service's worker is like a rank's, without a device: a world of two ranks and two services runs on two GPUs.

    crew = Crew("gloo", "cpu")
    crew.grow(2, 0, settings, os.environ)   # two workers that are Ready
    crew.end()                              # they leave
    crew.grow(2, 1, settings, os.environ)   # two others, and one for a service; the first are gone
    crew.close()
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsim.backend.journal.trouble import is_stopped
from dpsim.contract.world import BackendUnavailable, Lost
from real.child import Child, speaking
from real.clock import Clock
from real.fork_server import LOOKS, POLL_SECONDS, ForkServer
from real.messages import Ready, Refused

SETUP_SECONDS = 180.0
"""The deadline for the start of workers, and for the communicators of a world: torch on a slow machine, NCCL on a large
one.
"""


SETTLE_SECONDS = 1.0
"""How long to wait for the end of a killed process, when another worker has lost its connection to it."""


class ProgramRefused(RuntimeError):
    """A worker could not find the program, or its `prepare` failed. The message has the worker's traceback."""


class Crew:
    """Workers for one kind of device ("cpu", "cuda"). `workers`, by rank, and `services` are those that work."""

    def __init__(self, backend: str, device: str) -> None:
        self.backend = backend
        self.device = device
        self.workers: list[Child] = []
        self.services: list[Child] = []
        self.keeps_reserve = False
        self.server: ForkServer | None = None
        self._reserve: dict[int, Child] = {}
        self._leaving: list[Child] = []

    def forking(self, environment: Mapping[str, str]) -> ForkServer | None:
        """Returns the server that forks workers. None on macOS, whose libraries do not survive a fork."""
        if sys.platform == "darwin":
            return None
        if self.server is None or self.server.has_ended():
            self.end_server()
            self.server = ForkServer(environment, self.device)
        return self.server

    @property
    def all(self) -> list[Child]:
        """Returns the workers that work, ranks first."""
        return [*self.workers, *self.services]

    def lacks(self, size: int, services: int) -> int:
        """Returns how many workers the crew has to start for this number of ranks and services."""
        return max(0, size - len(self.workers)) + max(0, services - len(self.services))

    def grow(self, size: int, services: int, settings: dict[str, Any], environment: Mapping[str, str]) -> None:
        """Starts the missing workers, all at the same time, and waits until they are ready."""
        missing = [*range(len(self.workers), size), *(~index for index in range(len(self.services), services))]
        started = []
        for number in missing:
            (Path(settings["folder"]) / str(number)).unlink(missing_ok=True)  # the socket of a worker that has ended
            child = self._called(number) or self._started(number, settings, environment)
            (self.workers if number >= 0 else self.services).append(child)
            started.append(child)
        ready = self.gather(started, Ready, 0)
        for child in started:
            child.versions = ready[child.rank].versions
        self.wait()
        if self.keeps_reserve:
            for child in self.all:
                if child.rank not in self._reserve:
                    self._reserve[child.rank] = self._started(child.rank, settings, environment)

    def end(self) -> None:
        """Lets all working workers leave."""
        leaving, self.workers, self.services = self.all, [], []
        self._end(leaving)

    def end_all(self) -> None:
        """Lets all workers and the reserve leave, and waits until they have ended."""
        self.end()
        reserve, self._reserve = self._reserve, {}
        self._end([*reserve.values()])
        self.wait()

    def wait(self) -> None:
        """Waits until all leaving workers have ended."""
        while self._leaving:
            self._leaving[-1].wait()
            self._leaving.pop()

    def end_server(self) -> None:
        """Ends the fork server, and with it all its workers."""
        if self.server is not None:
            self.server.close()
            self.server = None

    def gather(self, children: Sequence[Child], kind: type[Any], number: int) -> dict[int, Any]:
        """Returns the reply of each worker, by its number: a message of that kind about that job."""
        answers: dict[int, Any] = {}
        clock, looks = Clock(POLL_SECONDS), 0
        while len(answers) < len(children):
            pending = [child for child in children if child.rank not in answers]
            ready = speaking(pending, POLL_SECONDS)
            stopped = [] if ready else [child for child in pending if is_stopped(child.process.pid)]
            looks = looks + 1 if stopped else 0
            if looks == LOOKS or clock.seconds() > SETUP_SECONDS:
                who = ", ".join(child.name for child in stopped or pending)
                why = "was stopped" if stopped else f"does not answer for {SETUP_SECONDS:g} s"
                raise Lost(f"{self.backend}: during set-up (no {kind.__name__}) the process of {who} {why}")
            for child in ready:
                message = child.receive()
                if message is None:
                    how = child.how_it_ended()  # waits, since its socket closes before the process has ended
                    self._refuse_lost(children)
                    ended = f"the worker of {child.name} ended during set-up ({how})"
                    raise BackendUnavailable(f"{self.backend}: {ended}; its output says why")
                if isinstance(message, Refused) and message.number == number:
                    if message.stage == "lost":
                        raise Lost(f"{self.backend}: {child.name} could not start: {message.why}")
                    if message.stage == "machine":
                        self._settle(children)
                    self._refuse_lost(children)
                    error = ProgramRefused if message.stage == "program" else BackendUnavailable
                    raise error(f"{self.backend}: {child.name} could not start\n{message.why}")
                if isinstance(message, kind) and message.number == number:
                    answers[child.rank] = message
        return answers

    def _settle(self, children: Sequence[Child]) -> None:
        """The worker that refuses may only have lost its connection to one that the machine has just ended."""
        clock = Clock(POLL_SECONDS)
        while clock.seconds() < SETTLE_SECONDS and not any(child.taken_away() for child in children):
            time.sleep(SETTLE_SECONDS / 50)

    def _refuse_lost(self, children: Sequence[Child]) -> None:
        """If the machine ended a worker during set-up, refusals of other workers are consequences."""
        for child in children:
            taken = child.taken_away()
            if taken:
                raise Lost(f"{self.backend}: the process of {child.name} {taken} during set-up")

    def _called(self, rank: int) -> Child | None:
        child = self._reserve.pop(rank, None)
        if child is None or not child.has_ended():
            return child
        self._end([child])
        return None

    def _started(self, rank: int, settings: dict[str, Any], environment: Mapping[str, str]) -> Child:
        device = settings["device"] if rank >= 0 else "none"
        return Child(rank, {**settings, "device": device}, environment, self.forking(environment))

    def _end(self, children: Sequence[Child]) -> None:
        """Kills all of them before it waits for any."""
        for child in children:
            child.end()
            self._leaving.append(child)
