"""The server of lone ranks as dpsim's process sees it. dpsim starts the server at the first job and keeps it.

    answer = ask(job)                   # a list: for each rank a `Differs` or None; a text says why there is no answer
    there = held(modules)               # the contents of the modules in the server, by name

dpsim starts another server if a module has changed since this one imported it. A forked copy of dpsim's process also
starts its own server.
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
"""Seconds in which the server has to answer for all ranks of a job together."""


class AloneServer:
    """The server process and the socket to it. `stamps`: the stamp of each module at the time of its import."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        ours.settimeout(ANSWER_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dpsim.alone.server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the first run has printed the program's output already
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONHASHSEED": seed},
            )
        self._socket, self._link = ours, ours.makefile("rwb")
        self.parent = os.getpid()
        self.stamps: dict[Module, Any] = {}
        self.asked = 0

    def fits(self, modules: Sequence[Module]) -> bool:
        """Whether this process started the server, the server lives, and no module has changed since its import."""
        if self.parent != os.getpid() or self._process.poll() is not None:
            return False
        return all(self.stamps.get(module, stamp(module)) == stamp(module) for module in modules)

    def ask(self, question: Any) -> Any:
        """Sends a question and returns the answer; a `NotAlone` if the server ended, or gave none in ANSWER_SECONDS."""
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
        """Kills the server process, if this process started it."""
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
    """Runs the ranks of a job alone. Returns for each rank its first difference or None; or a text that says why there
    is no result. If a server that has imported other modules before refuses the job, dpsim asks a fresh one.
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
    """Returns what the modules contain in the server (`dpsim.alone.digest`); empty without an answer."""
    answer = _served(modules).ask(list(modules))
    return answer if isinstance(answer, dict) else {}


def stamp(module: Module) -> Any:
    """Returns time and size of a module's file, which differ after a change; None without a file."""
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
    """Ends the server, if there is one."""
    global _server
    if _server is not None:
        _server.close()
        _server = None
