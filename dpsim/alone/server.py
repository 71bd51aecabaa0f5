"""A fresh interpreter that imports the modules of a program, and forks a process for each past of a rank.

    python -P -m dpsim.alone.server 5           # 5: the descriptor of a socket to dpsim's process

The server imports no torch, starts no thread and runs no program. So each forked copy is like a process that has just
started. It has another PYTHONHASHSEED than dpsim's process, so a program that depends on the hash of a text runs
differently here. The server ends when dpsim's process does. `dpsim.alone.messages` lists its questions and answers.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import pickle
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dpsim.alone.answers import AloneRun
from dpsim.alone.digest import contents
from dpsim.alone.messages import AloneJob, Differs, Module, NotAlone
from dpsim.alone.past import Past
from dpsim.contract import registry

with suppress(ImportError):  # a system without it has no fork, either
    import resource

MOST_SECONDS = 60
"""CPU seconds of one rank. A rank that waits for another one in a loop of Python would never end."""
AT_ONCE = min(os.cpu_count() or 1, 4)
"""The number of ranks that run at the same time, each in its own process."""


def serve(link: Any) -> None:
    """Answers questions until the socket closes."""
    while True:
        question = pickle.load(link)
        try:
            alone = isinstance(question, AloneJob)
            answer: Any = _alone(question) if alone else contents([module.known_as for module in question])
        except Exception as error:
            answer = NotAlone(f"{type(error).__name__}: {error}")
        pickle.dump(answer, link)
        link.flush()


def _alone(job: AloneJob) -> list[Differs | None] | NotAlone:
    sys.path[:] = job.path
    os.environ.clear()
    os.environ.update(job.environment)
    for module in job.modules:
        _import(module)
    args = pickle.loads(job.args)
    registry.protocol(job.program)
    gc.freeze()  # a collection in a copy would write to, and so copy, all pages that it shares with this process
    found: list[Differs | None] = []
    waiting = job.pasts[::-1]
    running = deque[tuple[Past, _Copy]]()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            past = waiting.pop()
            running.append((past, _Copy(partial(_run, job, args, past))))
        past, copy = running.popleft()
        answer = copy.answer()
        if isinstance(answer, NotAlone):
            for _, other in running:
                other.answer()
            return NotAlone(f"rank {past.rank} alone {answer.why}")
        found.append(answer)
    return found


def _import(module: Module) -> None:
    name, file = module.known_as, module.file
    try:
        found = importlib.import_module(name)
        if not file or os.path.samefile(found.__file__ or os.devnull, file):
            return
    except ImportError:
        if not file:
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not Path(file).is_file():
        raise ImportError(f"the module {module.name} has no file to be imported from")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def _run(job: AloneJob, args: Any, past: Past) -> Differs | None:
    program, prepared = registry.prepared(job.program, args)
    return AloneRun(job.world, past, job.packages).go(program, prepared)


class _Copy:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._result, result = os.pipe()
        self._process = os.fork()
        if self._process:
            os.close(result)
            return
        try:
            _limit()
            try:
                answer = call()
            except Exception as error:
                answer = NotAlone(f"could not begin: {type(error).__name__}: {error}")
            with os.fdopen(result, "wb") as file:
                file.write(pickle.dumps(answer))
        finally:
            os._exit(0)

    def answer(self) -> Any:
        """Waits for the result of the call; a `NotAlone` if the copy gives none."""
        with os.fdopen(self._result, "rb") as file:
            content = file.read()
        _, status = os.waitpid(self._process, 0)
        if content:
            return pickle.loads(content)
        ended = os.waitstatus_to_exitcode(status)
        if ended == -signal.SIGXCPU:
            return NotAlone(f"did not end in {MOST_SECONDS} s")
        return NotAlone(f"ended its process ({ended})")


def _limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = MOST_SECONDS if hard == resource.RLIM_INFINITY else min(MOST_SECONDS, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for dpsim's process, which ends this one
    with suppress(EOFError, OSError):
        serve(socket.socket(fileno=int(sys.argv[1])).makefile("rwb"))


if __name__ == "__main__":
    # Import the module by its name: pickles of `__main__` would not fit the classes of dpsim's process.
    from dpsim.alone.server import main as run

    run()
