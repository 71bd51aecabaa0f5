"""Trouble of the machine: it lacks memory, disk space or another resource. Such a run proves nothing about a protocol,
so there is no verdict.

    trouble(OSError(errno.ENOSPC, ...))     # "no space left on device": the run is lost
    trouble(ValueError("count"))            # "": a finding
    is_stopped(4711)                        # SIGSTOP, a debugger: it will not answer
    is_ending(4711)                         # its end is a matter of time
    free_descriptors(80)                    # 17 of them: no start of a pool
    limit(link.fileno(), 60.0)              # a read of the rest of a message fails after 60 seconds

A lack of memory, disk space, descriptors or threads is the machine's, wherever it is in the chain of an exception. A
signal ends a process from outside: the out-of-memory killer, a limit, a batch system, a user. Only the signals in
`FAULTS`, an exit status and an error of CUDA come from the program. A backend reports trouble in `Run.lost`, or raises
`dpsim.contract.world.Lost` where there is no run yet.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from pathlib import Path

from dpsim.contract.world import Lost

TAKEN_AWAY = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE)
"""Error numbers which mean that the machine, or a limit of this process, is exhausted."""

FAULTS = ("SIGABRT", "SIGBUS", "SIGSEGV", "SIGILL", "SIGFPE")
"""Signals that a process causes itself. Any other one comes from outside."""

NO_THREAD = "can't start new thread"
"""The message of Python's exception if it cannot start a thread; the exception has no special type."""

AGAIN = os.strerror(errno.EAGAIN)
"""The whole message of C++ in this case."""

NO_ROOM = ("failed to map segment from shared object", "cannot allocate memory", "std::bad_alloc", "bad allocation")
"""Messages of the loader of shared libraries, and of C++ libraries, when memory is exhausted."""


def trouble(error: BaseException) -> str:
    """Returns what the machine lacked when this was raised; empty if it is no trouble of the machine."""
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and not any(link is one for one in seen):
        seen.append(link)
        lacked = _lacked(link)
        if lacked:
            return lacked
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return ""


def _lacked(error: BaseException) -> str:
    if isinstance(error, Lost):
        return str(error)
    if isinstance(error, MemoryError):
        return "no memory"
    if isinstance(error, OSError) and error.errno in TAKEN_AWAY:
        return _words(error.errno) + (f": {error.filename}" if error.filename else "")
    if type(error) in (RuntimeError, SystemError, ImportError, OSError):  # C and C++ libraries raise no better ones
        text_of_error = str(error)
        if NO_THREAD in text_of_error or text_of_error.strip() == AGAIN:
            return "no thread"
        if any(text in text_of_error for text in NO_ROOM):
            return "no memory"
        return next((_words(code) for code in TAKEN_AWAY if os.strerror(code) in text_of_error), "")
    return ""


def _words(code: int | None) -> str:
    return os.strerror(code or 0).lower()


def is_stopped(process: int) -> bool:
    """Whether a process is stopped (SIGSTOP, a debugger). False if the system has no /proc."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


ENDING = 0x4 | 0x8 | 0x200
"""Flags of Linux for a process that exits, waits for a core file, or writes one."""


def is_ending(process: int) -> bool:
    """Whether a process is ending, or has ended and its parent has not waited for it. A driver takes seconds to free
    GPU memory, and a core file takes as long, while the sockets of the process are still open. False if the system has
    no /proc.
    """
    try:
        flags = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[6])
    except (OSError, IndexError, ValueError):
        return False
    return bool(flags & ENDING)


def free_descriptors(most: int) -> int:
    """Returns how many descriptors this process can still open, counted up to `most`."""
    with contextlib.ExitStack() as opened:
        for count in range(most):
            try:
                descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                return count
            opened.callback(os.close, descriptor)
    return most


def limit(descriptor: int, seconds: float) -> None:
    """Lets reads and writes fail with OSError after this time, since a stopped process would block the other side."""
    time = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(descriptor)) as same:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            same.setsockopt(socket.SOL_SOCKET, option, time)
