"""The warm parent: it imports torch and what ranks import, forks children, and computes nothing.

    python -m dpsim.torch.child DESCRIPTOR FOLDER

Started by `dpsim.torch.nursery`, which sends requests on the socket of that descriptor:

    ["take", spares]     -> ["child", process] and a descriptor: the pipe of a child
    ["end", process]        end it, without an answer
    ["how", process]     -> ["ended", signal, code]
    ["warm", modules]       import these, without an answer

A fork keeps only one thread, and OpenMP hangs in a child whose parent has computed. So this process starts no thread
and touches no tensor. When the socket closes, it ends with all of its children. Then it removes the folder of their
temporary files, because dpsim's process may have been killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from dpsim.torch.child import clocks

PR_SET_PDEATHSIG = 1
LONGEST = 1 << 16


class Parent:
    """The children that are ready, and those that were handed out."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.ready: list[tuple[int, socket.socket]] = []
        self.spares = 0
        self.living: set[int] = set()

    def serve(self) -> None:
        """Answer until the socket closes; fork ahead while there is nothing to answer."""
        while True:
            if len(self.ready) < self.spares and not select.select([self.control], [], [], 0)[0]:
                self.ready.append(self.fork())
                continue
            content = self.control.recv(LONGEST)
            if not content:
                return
            name, argument = json.loads(content)
            getattr(self, f"on_{name}")(argument)

    def on_take(self, spares: int) -> None:
        """Hand out a child."""
        self.spares = spares or self.spares
        process, pipe = self.ready.pop(0) if self.ready else self.fork()
        with pipe:
            socket.send_fds(self.control, [json.dumps(["child", process]).encode()], [pipe.fileno()])

    def on_end(self, process: int) -> None:
        if process in self.living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            self.living.discard(process)

    def on_how(self, process: int) -> None:
        status = os.waitpid(process, 0)[1] if process in self.living else 0
        self.living.discard(process)
        ended = ["ended", os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, status >> 8]
        self.control.send(json.dumps(ended).encode())

    def on_warm(self, modules: list[str]) -> None:
        """A module that starts a thread, or that cannot be imported by itself, is imported by the children alone."""
        for name in modules:
            if name in sys.modules:
                continue
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        while self.ready:  # forked before: the next ones have the modules
            process, pipe = self.ready.pop()
            pipe.close()
            self.on_end(process)
        settle()

    def fork(self) -> tuple[int, socket.socket]:
        ours, its = socket.socketpair()
        process = os.fork()
        if process:
            its.close()
            self.living.add(process)
            return process, ours
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for pipe in (ours, self.control, *(other for _, other in self.ready)):
            pipe.close()
        live(its)

    def close(self) -> None:
        for process in list(self.living):
            self.on_end(process)


def live(pipe: socket.socket) -> NoReturn:
    """What a child does until it ends."""
    from dpsim.torch.child import rank
    from dpsim.torch.wire import Pipe

    try:
        rank.begin(Pipe(pipe))
    finally:
        os._exit(70)


def settle() -> None:
    """What was imported stays: the collector of a child does not look through it, and copies no page for that."""
    from dpsim.torch.child import imports, rank  # noqa: F401  # a child runs them

    imports.known()
    gc.collect()
    gc.freeze()


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    clocks.install()
    try:
        import torch

        from dpsim.torch.child import installed, pickled

        installed.install()
        pickled.install()
    except Exception as error:
        control.send(json.dumps(["failed", f"{type(error).__name__}: {error}"]).encode())
        return
    settle()
    threads: Any = threading.active_count()
    control.send(json.dumps(["ready", torch.__version__, threads]).encode())
    parent = Parent(control)
    try:
        parent.serve()
    except OSError:  # the other end was killed while it was answered
        pass
    finally:
        parent.close()
        shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
