"""The warm parent: a process that imports torch and the modules of ranks, and forks a child for each rank.

    python -m dpsim.torch.child DESCRIPTOR FOLDER

`dpsim.torch.nursery` starts this process and sends requests on the socket DESCRIPTOR:

    ["take", spares]     -> ["child", process] and a descriptor: the pipe of a child
    ["end", process]        kill the child, without an answer
    ["how", process]     -> ["ended", signal, code]
    ["warm", modules]       import these modules, without an answer

A fork copies only one thread, and OpenMP hangs in a child whose parent has computed. So the warm parent starts no
thread and computes nothing with tensors. When dpsim closes the socket, the warm parent kills its children and exits. It
also removes FOLDER, which has their temporary files, because dpsim itself may have been killed.
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
    """The children of the warm parent. `ready`: children that dpsim has not taken yet. `living`: all that still run."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.ready: list[tuple[int, socket.socket]] = []
        self.spares = 0
        self.living: set[int] = set()

    def serve(self) -> None:
        """Answers requests until the socket closes. Forks children in advance while no request waits."""
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
        """Sends a child and its pipe to dpsim. `spares`: how many children to keep ready, or 0 for no change."""
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
        """Imports modules, so that later children have them. Ignores a module whose import fails."""
        for name in modules:
            if name in sys.modules:
                continue
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        while self.ready:  # these children lack the modules
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
    """Runs a child until its process ends."""
    from dpsim.torch.child import rank
    from dpsim.torch.wire import Pipe

    try:
        rank.begin(Pipe(pipe))
    finally:
        os._exit(70)


def settle() -> None:
    """Freezes all objects, so that a child collects garbage without writing to memory pages of the parent."""
    from dpsim.torch.child import imports, rank  # noqa: F401  # a child runs them

    imports.known()
    gc.collect()
    gc.freeze()


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    clocks.install()
    try:
        import torch

        from dpsim.torch.child import drawn, installed, pickled

        drawn.install()
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
    except OSError:  # dpsim was killed while this process sent an answer
        pass
    finally:
        parent.close()
        shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
