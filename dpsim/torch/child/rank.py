"""The main function of a child, the process of a rank: it sets up the rank, runs the user's program, and reports the
end.

The process has the environment variables of torchrun. A script runs as `__main__`. A function of a file is called with
the rank and the number of ranks, or with fewer arguments if it takes fewer. For a function, this module creates the
process group before the call. The last message to dpsim is one of these:

    ["done", files]                             the program ended
    ["exited", code, chain]                     it called sys.exit with a code that is not 0
    ["raised", name, text, chain]               it raised an exception
    ["uncovered", text, chain]                  it made a call that dpsim does not simulate
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import runpy
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from dpsim.torch.child import clocks, drawn, files, installed, threads, works
from dpsim.torch.child.frames import raised_at
from dpsim.torch.child.pipe import ANSWERS, open_pipe, refused_in_threads, say, tell
from dpsim.torch.child.uncovered import CannotRun, NotCovered
from dpsim.torch.wire import Pipe, checked

PRINT = "DPSIM_TORCH_PRINT"
"""An environment variable. If it is set, ranks print to the output of dpsim; otherwise their output is discarded."""
LOCAL = "127.0.0.1"
PORT = "29401"
HEAD, TAIL = 500, 1_400
"""The characters of an exception's text that stay at its beginning and at its end, because a journal keeps 2,000."""


def begin(pipe: Pipe) -> NoReturn:
    """Waits for a job, runs the program and ends the process."""
    message, _ = pipe.receive()
    _, rank, size, file, function, args, held, inverted = checked(message, ANSWERS)
    open_pipe(pipe)
    become(rank, size)
    if inverted:
        drawn.invert_hashes()
    if held:
        threads.hold()
    else:
        threads.watch()
    try:
        _run(rank, size, Path(file), function, [str(one) for one in args])
        works.finish()
        if held:
            threads.join_rest()
        with suppress(Exception):
            threading._shutdown()  # type: ignore[attr-defined]  # what Python does at the end of a process
        if refused_in_threads:
            raise refused_in_threads[0]
        tell(["done", files.written()])
    except NotCovered as error:
        say(["uncovered", str(error), raised_at(error.__traceback__)])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if code:
            tell(["exited", code, raised_at(error.__traceback__)])
        else:
            tell(["done", files.written()])
    except BaseException as error:
        tell(["raised", type(error).__name__, cut_in_the_middle(str(error)), raised_at(error.__traceback__)])
    os._exit(0)


def become(rank: int, size: int) -> None:
    """Sets the environment variables of a rank, and fixes what would differ between runs: seeds, clock, memory."""
    number, count = str(rank), str(size)
    os.environ.update(RANK=number, LOCAL_RANK=number, ROLE_RANK=number, GROUP_RANK="0", TORCHELASTIC_RESTART_COUNT="0")
    os.environ.update(WORLD_SIZE=count, LOCAL_WORLD_SIZE=count, ROLE_WORLD_SIZE=count, GROUP_WORLD_SIZE="1")
    os.environ.update(MASTER_ADDR=LOCAL, MASTER_PORT=PORT, TORCHELASTIC_RUN_ID="dpsim", TORCHELASTIC_MAX_RESTARTS="0")
    if not os.environ.get(PRINT):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    drawn.begin(rank)
    clocks.begin()
    files.watch()
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # torch fills uninitialized memory


def _run(rank: int, size: int, file: Path, function: str, args: list[str]) -> None:
    sys.argv = [str(file), *args]
    _compiled(file)
    if not function:
        sys.path.insert(0, str(file.parent))
        runpy.run_path(str(file), run_name="__main__")
        return
    called = _function(file, function)
    installed.begin_world(rank, size)
    called(*(rank, size)[: _takes(called)])
    if dist.is_initialized():
        installed.leave_world()


def _compiled(file: Path) -> None:
    try:
        compile(file.read_bytes(), str(file), "exec")
    except (SyntaxError, ValueError) as error:
        raise CannotRun(f"{file.name} is not Python: {error}") from None


def _function(file: Path, name: str) -> Callable[..., Any]:
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    try:
        found: Any = importlib.import_module(".".join(parts))
    except Exception as error:
        at = "".join(f"{place}: " for _, place in raised_at(error.__traceback__)[:1])
        raise CannotRun(f"{file.name} cannot be imported: {at}{type(error).__name__}: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CannotRun(f"{file.name} has no function {name}; expected one that it defines by `def`")
    return found  # type: ignore[no-any-return]


def _takes(called: Callable[..., Any]) -> int:
    kinds = [one.kind for one in inspect.signature(called).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 2
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(sum(kind in plain for kind in kinds), 2)


def cut_in_the_middle(text: str) -> str:
    """Returns a text without its middle, because the last line often names the exception of a traceback in the text.

    >>> cut_in_the_middle("short"), cut_in_the_middle("a" * 1_000 + "b" * 2_000)[495:535]
    ('short', 'aaaaa ... 1,100 characters cut ... bbbbb')
    """
    left = len(text) - HEAD - TAIL
    return text if left <= 50 else f"{text[:HEAD]} ... {left:,} characters cut ... {text[-TAIL:]}"
