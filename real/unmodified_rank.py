"""A rank of an unmodified program of torch.distributed, as torchrun would start it. A warm process forks it.

    python -P -m real.unmodified_rank

The process imports torch, prints a line, and then forks a child for each job, a line of JSON on its standard input. It
prints the id of the child. When its input ends, it ends, and the kernel ends its children.

The child appends what it did to a file of the job: decisions (`dpsim.mark`), and how the program ended. Then it
waits until the parent kills it. If its process ended before its peers, gloo would raise an error in a peer that hangs.
Before each call of torch.distributed the child sleeps for a drawn time (`real.pauses`). On SIGUSR1 it writes where its
main thread stands.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import importlib
import inspect
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

from dpsim import mark
from real.pauses import Pauses

PR_SET_PDEATHSIG = 1

PAUSED = ("all_", "barrier", "batch_", "broadcast", "destroy", "gather", "irecv", "isend", "monitored", "new_group")
PAUSED_TOO = ("recv", "reduce", "scatter", "send")
"""The beginnings of the names of functions of torch.distributed that communicate."""


def serve() -> None:
    """Forks a child for each job until the parent has ended."""
    import torch.distributed  # noqa: F401  # the children have it

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children leave at once
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            live(json.loads(line))
        print(child, flush=True)


class Notes(mark.Listener):
    """Writes what the program did, in the form of records of a journal, each with its time in a line."""

    def __init__(self, file: Path) -> None:
        self.file = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.number = 0
        self.counts: Counter[str] = Counter()

    def step(self, number: int) -> None:
        self.number = number

    def decide(self, label: str, value: Any, group: Any) -> None:
        fields = ["decision", self.number, "main", label, self.counts[label], user_line(inspect.currentframe())]
        self.counts[label] += 1
        self.write([*fields, "world", value, False])

    def write(self, fields: list[Any]) -> None:
        os.write(self.file, f"{json.dumps([time.monotonic_ns(), fields], default=repr)}\n".encode())

    def ended(self, error: BaseException | None) -> None:
        """Notes how the program ended."""
        if error is None:
            fields = ["finished", self.number, "main", "end", 0, ""]
        else:
            trace, frame = error.__traceback__, None
            while trace is not None:
                frame, trace = (
                    trace.tb_frame if is_user_file(trace.tb_frame.f_code.co_filename) else frame,
                    trace.tb_next,
                )
            where = "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            fields = ["raised", self.number, "main", type(error).__name__, 0, where, str(error)[:2_000]]
        self.write(fields)


def is_user_file(name: str) -> bool:
    """Returns whether a file belongs to the program, and not to Python, a library or dpsim.

    >>> is_user_file("/home/me/train.py"), is_user_file("/usr/lib/python3/site-packages/torch/x.py")
    (True, False)
    """
    own = (os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__)), os.path.dirname(mark.__file__))
    return "site-packages" not in name and not name.startswith(("<", *own))


def user_line(frame: Any) -> str:
    """Returns file and line of the innermost frame of the program."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def live(job: dict[str, Any]) -> NoReturn:
    """Runs the program of a job in this process, writes what it did, and waits for the end."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    rank, size = int(job["rank"]), int(job["size"])
    notes = Notes(Path(job["folder"]) / f"{rank}.notes")
    mark.listen(notes)
    error: BaseException | None = None
    try:
        become(job, rank, size)
        run_target(Path(job["file"]), job["function"], job["args"], rank, size)
        threading._shutdown()  # type: ignore[attr-defined]  # what Python does at the end of a process
    except SystemExit as exit:
        error = exit if exit.code not in (None, 0) else None
    except BaseException as raised:
        error = raised
    notes.ended(error)
    (Path(job["folder"]) / f"{rank}.over").touch()
    while True:
        time.sleep(60)


def become(job: dict[str, Any], rank: int, size: int) -> None:
    """Sets the environment of a rank, as torchrun does, draws new seeds, and adds pauses."""
    import numpy
    import torch

    number, count = str(rank), str(size)
    os.environ.update(RANK=number, LOCAL_RANK=number, ROLE_RANK=number, GROUP_RANK="0", TORCHELASTIC_RESTART_COUNT="0")
    os.environ.update(WORLD_SIZE=count, LOCAL_WORLD_SIZE=count, ROLE_WORLD_SIZE=count, GROUP_WORLD_SIZE="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]), TORCHELASTIC_USE_AGENT_STORE="True")
    os.environ.update(TORCHELASTIC_RUN_ID="dpsim", TORCHELASTIC_MAX_RESTARTS="0", OMP_NUM_THREADS="1")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    stack = os.open(Path(job["folder"]) / f"{rank}.stack", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    numpy.random.seed()
    torch.seed()
    torch.set_num_threads(1)
    os.chdir(job["cwd"])
    add_pauses(Pauses(int(job["seed"]), rank))


def add_pauses(pauses: Pauses) -> None:
    """Lets each function of torch.distributed that communicates sleep first."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    counts: Counter[str] = Counter()

    def paused(name: str, real: FunctionType) -> Any:
        @functools.wraps(real)
        def call(*args: Any, **named: Any) -> Any:
            counts[name] += 1
            pauses.sleep(threading.current_thread().name, name, counts[name])
            return real(*args, **named)

        return call

    for name, real in list(vars(distributed_c10d).items()):
        if isinstance(real, FunctionType) and name.startswith((*PAUSED, *PAUSED_TOO)):
            wrapped = paused(name, real)
            for module in (distributed_c10d, dist):
                if getattr(module, name, None) is real:
                    setattr(module, name, wrapped)


def run_target(file: Path, function: str, args: list[str], rank: int, size: int) -> None:
    """Runs a script as `__main__`, or a function of a file in a process group."""
    sys.argv = [str(file), *args]
    if not function:
        sys.path.insert(0, str(file.parent))
        runpy.run_path(str(file), run_name="__main__")
        return
    import torch.distributed as dist

    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    called: Any = importlib.import_module(".".join(parts))
    for part in function.split("."):
        called = getattr(called, part)
    dist.init_process_group("gloo")
    kinds = [one.kind for one in inspect.signature(called).parameters.values()]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes = 2 if inspect.Parameter.VAR_POSITIONAL in kinds else min(sum(kind in plain for kind in kinds), 2)
    called(*(rank, size)[:takes])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    serve()
