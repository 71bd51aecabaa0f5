"""The server of lone ranks, as the parent sees it: started when it is first needed, and kept.

    answer = ask(job)                   # for each rank a `Differs` or None; or why there is none, as text
    there = held(modules)               # what the modules hold in the server

A module that has changed since the server imported it needs another server, and so does a process that was forked.
"""

from __future__ import annotations

import atexit
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dpsim.alone.messages import AloneJob, Differs, Module, NotAlone

ANSWER_SECONDS = 600.0
"""For all ranks of a job together."""


class AloneServer:
    """The server process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        ours.settimeout(ANSWER_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dpsim.alone.server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what a program prints it has printed before
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONHASHSEED": seed},
            )
        self._socket, self._link = ours, ours.makefile("rwb")
        self.parent = os.getpid()
        self.stamps: dict[Module, Any] = {}
        self.asked = 0

    def fits(self, modules: Sequence[Module]) -> bool:
        """Whether it is ours, lives, and has no module that is another one by now."""
        if self.parent != os.getpid() or self._process.poll() is not None:
            return False
        return all(self.stamps.get(module, stamp(module)) == stamp(module) for module in modules)

    def ask(self, question: Any) -> Any:
        """Its answer; a `NotAlone` if there is none."""
        self.asked += 1
        try:
            pickle.dump(question, self._link)
            self._link.flush()
            return pickle.load(self._link)
        except TimeoutError:
            why = f"the process gave no answer for {ANSWER_SECONDS:g} s"
        except (EOFError, OSError):
            why = "the process ended"
        except BaseException:
            self.close()
            raise
        self.close()
        return NotAlone(why)

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._link.close()
        self._socket.close()
        if self.parent == os.getpid():
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ANSWER_SECONDS)


_server: AloneServer | None = None
atexit.register(lambda: close())


def ask(job: AloneJob) -> list[Differs | None] | str:
    """For each rank of a job its difference or None; or why nothing is known, in words. A server that has imported
    other modules before may refuse what a new one does not.
    """
    if not hasattr(os, "fork"):
        return "this machine has no fork"
    try:
        used = _served(job.modules)
        old = used.asked > 0
        answer = used.ask(job)
        if old and isinstance(answer, NotAlone):
            close()
            answer = _served(job.modules).ask(job)
    except OSError as error:
        return f"no process could be started: {error}"
    if isinstance(answer, NotAlone):
        return answer.why
    found: list[Differs | None] = answer
    return found


def held(modules: Sequence[Module]) -> dict[str, str]:
    """What modules hold in the server, by name; empty where it does not know."""
    answer = _served(modules).ask(list(modules))
    return answer if isinstance(answer, dict) else {}


def stamp(module: Module) -> Any:
    """Tells whether the file of a module has changed."""
    try:
        status = os.stat(module.file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _served(modules: Sequence[Module]) -> AloneServer:
    global _server
    if _server is None or not _server.fits(modules):
        if _server is not None:
            _server.close()
        _server = AloneServer()
    _server.stamps.update({module: stamp(module) for module in modules})
    return _server


def close() -> None:
    """End the server, if there is one."""
    global _server
    if _server is not None:
        _server.close()
        _server = None
