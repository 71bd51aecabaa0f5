"""Tests which exceptions mean that the machine lacks something, such as memory or disk space, and which are errors of
the protocol.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dpsim.backend.graphs.kernel_call import KernelCall, KernelError
from dpsim.backend.journal.trouble import free_descriptors, is_ending, is_stopped, limit, trouble


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "no memory"),
        (OSError(errno.ENOSPC, "", "trace.jsonl"), "no space left on device: trace.jsonl"),
        (OSError(errno.EDQUOT, ""), os.strerror(errno.EDQUOT).lower()),
        (OSError(errno.EMFILE, ""), "too many open files"),
        (RuntimeError("can't start new thread"), "no thread"),
        (RuntimeError("Resource temporarily unavailable"), "no thread"),
        (RuntimeError("recv: Resource temporarily unavailable"), ""),
        (
            RuntimeError("alloc_cpu.cpp: DefaultCPUAllocator: Error code 12 (Cannot allocate memory)"),
            "cannot allocate memory",
        ),
        (OSError(errno.EFBIG, "", "x.jsonl"), "file too large: x.jsonl"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "no memory"),
        (ImportError("libtorch_cpu.so: cannot open shared object file"), ""),
        (OSError("libc.so.6: cannot allocate memory in static TLS block"), "no memory"),
        (RuntimeError("std::bad_alloc"), "no memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), ""),
        (ValueError("No space left on device"), ""),
        (OSError(errno.ENOENT, ""), ""),
        (OSError("of no number"), ""),
        (KeyError(12), ""),
    ],
    ids=repr,
)
def test_the_text_of_trouble_names_what_the_exception_lacks(error: Exception, said: str) -> None:
    assert trouble(error) == said


def test_trouble_is_found_anywhere_in_the_chain_of_exceptions() -> None:
    def exhaust() -> None:
        raise MemoryError

    with pytest.raises(KernelError) as raised:
        KernelCall((0, "k", 0), exhaust, [], [], (), None).run([], [])
    assert trouble(raised.value) == "no memory"
    cycle = ValueError()
    cycle.__context__ = cycle
    assert trouble(cycle) == ""
    hidden = ValueError()
    hidden.__context__, hidden.__suppress_context__ = MemoryError(), True
    assert trouble(hidden) == ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_process_that_was_stopped() -> None:
    command = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    with subprocess.Popen([sys.executable, "-c", command]) as one:
        os.waitpid(one.pid, os.WUNTRACED)
        assert is_stopped(one.pid)
        assert not is_stopped(os.getpid())
        os.kill(one.pid, signal.SIGCONT)
    assert not is_stopped(one.pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_process_that_is_about_to_be_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as one:
        assert not is_ending(one.pid)
        one.kill()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        assert is_ending(one.pid), "the process has ended, and its parent has not waited for it"
    assert not is_ending(one.pid)
    assert not is_ending(os.getpid())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")
def test_descriptors_that_are_free() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = set(os.listdir("/proc/self/fd"))
    assert free_descriptors(9) == 9
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before)) + 1, hard))
    try:
        free = free_descriptors(1 << 12)
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(free)]
        assert free_descriptors(9) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for one in held:
        os.close(one)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_wait_for_the_rest_of_a_message_ends() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        limit(ours.fileno(), 0.01)
        with pytest.raises(OSError, match="temporarily unavailable"):
            os.read(ours.fileno(), 1)
        with pytest.raises(OSError, match="temporarily unavailable"):
            _fill(ours.fileno())


def _fill(descriptor: int) -> None:
    while True:
        os.write(descriptor, bytes(1 << 20))
