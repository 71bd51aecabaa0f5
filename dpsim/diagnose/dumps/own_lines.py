"""Own lines: decides which source files are the program's own, and which belong to torch, to dpsim's recorder or to
Python's own library.

    train.py, site-packages/engine/worker.py    the program, with all packages that it uses
    torch/distributed/distributed_c10d.py       torch
    /usr/lib/python3.11/threading.py            Python's own library, in which a program waits
    threading.py                                the same, as py-spy shortens it

A report names the innermost own line, because the user can read the mistake there.
"""

from __future__ import annotations

import re

_OF_TORCH = re.compile(
    r"(?:^|/)torch/(?:distributed|nn|autograd|_\w+|utils)/|(?:^|/)site-packages/torch/|(?:^|/)real/record/"
    r"|^<(?!stdin|string)|/(?:typing_extensions|contextlib|functools)\.py$"
)

_WAITING = "threading|queue|selectors|socket|ssl|subprocess|runpy|contextlib|functools"
_PACKAGES = "concurrent/futures|asyncio|multiprocessing|importlib"
_OF_PYTHON = re.compile(
    r"/lib(?:64)?/python3\.\d+t?/(?!site-packages/|dist-packages/)|^<frozen "
    rf"|^(?:{_WAITING})\.py$|^(?:{_PACKAGES})/"
)


def is_of_torch(file: str) -> bool:
    """Returns whether a file belongs to torch or to dpsim's recorder, or is no file."""
    return _OF_TORCH.search(file) is not None


def is_own(file: str) -> bool:
    """Returns whether a file is the program's own.

    >>> [is_own(file) for file in ("train.py", "/usr/lib/python3.11/threading.py", "threading.py", "/x/threading.py")]
    [True, False, False, True]
    """
    return not is_of_torch(file) and _OF_PYTHON.search(file) is None


def is_own_line(line: str) -> bool:
    """Returns whether a line such as "train.py:42" is the program's own."""
    return bool(line) and is_own(line.rpartition(":")[0])
