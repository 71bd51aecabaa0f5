"""Feeds damaged input to a reader, which must return a result or raise one clear error.

    fuzzed("traces", SEEDS, read_a_trace, seconds=10)

A separate process reads damaged copies of the seeds until the time is over. The test fails, and names the bytes, if the
reader does one of these:

* it raises an exception other than `BadInput` and the allowed ones, or runs out of 500 MB more than at the start;
* its error has a control character, or more than a few lines;
* it uses ten seconds of a core for one input;
* it opens a file for writing or outside of its folders, starts a process, or opens a connection.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpsim.contract.words import BadInput
from tests import ROOT
from tests.properties import of_night

MEGABYTES, CORE_SECONDS, MOST_LINES = 500, 10.0, 12

seconds = pytest.mark.parametrize(
    "seconds", [0.5, pytest.param(10, marks=pytest.mark.slow), pytest.param(of_night(600), marks=pytest.mark.nightly)]
)
"""The durations in the quick, the slow and the nightly suite."""

PIECES = [
    *(b"", b"\0", b"\n", b"\r\n", b"\t", b"\x1b[31m", b"\x7f", b"\xff", b"\xc2\x85", b"\xe2\x80\xae", b"\xed\xa0\x80"),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"'",
        b",",
        b":",
        b"-",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!x ",
        b"null",
        b"true",
        b"1e999",
    ),
    *(b"[" * 900, b"{" * 900, b'{"a":' * 100, b"9" * 400, b"9" * 4_300, b"9" * 5_000, b"-1", b"0", b"1.5", b"NaN"),
    *(
        b"/etc/shadow",
        b"../../x",
        b"\\u001b",
        b"\\ud800",
        b"x" * 70_000,
        b"16000000",
        b"1000000",
        b"999999999999999999999",
    ),
]

CALLS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.connect", "socket.bind")
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.symlink", "os.link", "os.truncate")


def damaged(seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """Returns a copy of a seed with a few changes."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        size = draw.choice((0, 1, 2, 4, 16, 200))
        what = draw.randrange(6)
        if what == 0:
            data[at : at + size] = draw.choice(PIECES)
        elif what == 1:
            data[at:at] = draw.choice(PIECES)
        elif what == 2:
            del data[at : at + size]
        elif what == 3:
            data[at:at] = data[at : at + size] * draw.choice((1, 2, 50))
        elif what == 4 and data:
            data[draw.randrange(len(data))] = draw.randrange(256)
        else:
            other = draw.choice(seeds)
            begin = draw.randrange(len(other) + 1)
            data[at : at + size] = other[begin : begin + draw.choice((4, 40, 400))]
    return bytes(data)


def fuzzed(
    name: str,
    seeds: Sequence[bytes],
    read: Callable[[bytes, Path], object],
    seconds: float,
    allowed: tuple[type[BaseException], ...] = (),
    make: Callable[[Sequence[bytes], random.Random], bytes] = damaged,
) -> int:
    """Returns the number of inputs that were read. `read` gets each input with an empty folder. Raises AssertionError
    if the reader breaks a rule.
    """
    with tempfile.TemporaryDirectory() as folder:
        told, tells = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(told)
                said = _child(name, seeds, read, seconds, (BadInput, *allowed), make, Path(folder))
                os.write(tells, said.encode("utf-8", "backslashreplace")[:60_000])
            finally:
                os._exit(0)
        os.close(tells)
        with open(told, "rb") as pipe:
            said = pipe.read().decode()
        os.waitpid(child, 0)
    assert said.isdecimal(), f"{name}: {said or 'the process was ended'}"
    return int(said)


def _child(
    name: str,
    seeds: Sequence[bytes],
    read: Callable[[bytes, Path], object],
    seconds: float,
    allowed: tuple[type[BaseException], ...],
    make: Callable[[Sequence[bytes], random.Random], bytes],
    folder: Path,
) -> str:
    """Reads until the time is over. Returns the number of inputs, or a description of the broken rule."""
    for seed in seeds:  # imports and caches of the first use
        with contextlib.suppress(*allowed):
            read(seed, folder)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (MEGABYTES << 20), hard))
    touched = _watched(folder)
    draw, count, end = random.Random(f"{name} {seconds}"), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        data, begun, wrong = make(seeds, draw), time.process_time(), ""
        try:
            read(data, folder)
        except allowed as error:
            text = str(error)
            if not all(line.isprintable() for line in text.split("\n")) or text.count("\n") > MOST_LINES:
                wrong = f"an error that a terminal would obey, or of too many lines: {text[:2_000]!r}"
        except BaseException:
            wrong = traceback.format_exc()
        spent = time.process_time() - begun
        if spent > CORE_SECONDS:
            wrong = f"it took {spent:.1f} s"
        if touched:
            wrong = f"it touched {touched[:3]}"
        if wrong:
            return f"input {count}: {data[:1_500]!r} ({len(data)} bytes): {wrong}"
        count += 1
    return str(count)


def _watched(folder: Path) -> list[str]:
    """Returns a list that from now on collects actions of this process that no reader may do."""
    touched: list[str] = []
    system = "/proc/self", "/dev/null", "/usr/share/zoneinfo"
    # Packages may lie outside of the environment: a user's own, or those of another one that it builds on.
    roots = tuple({str(ROOT), str(folder), sys.prefix, sys.base_prefix, *filter(None, sys.path), *system})

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, flags = os.path.realpath(os.fsdecode(arguments[0])), arguments[2] or 0
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not path.startswith(roots) or (writes and not path.startswith(str(folder))):
                touched.append(f"open {path[:200]!r}")
        elif event in CALLS or (event in CHANGES and not str(arguments[0]).startswith(str(folder))):
            touched.append(f"{event} {str(arguments)[:200]}")

    sys.addaudithook(hook)
    return touched
