"""The folders of the last failures stay, and older ones go, while other processes write theirs.

    begin(folder / "drawn-ab2cb8e2")        # it is the newest from now on
    publish(folder, "drawn-ab2cb8e2")       # when it is written: `latest` leads there, and the oldest go

A folder is as old as its last failure. One that a process writes is among the newest, so no other process removes it.
A lock holds while the link changes and folders go: the folder of `latest` never does. A folder goes by another name
first, so no reader finds half of it. Only folders that have a report are the work of dpsim, and go.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LATEST = "latest"
KEPT = 50
"""Failures whose folders stay."""

REPORT = "report.txt"
TRIES = 3
GONE = ".gone-"
"""How the name of a folder begins that goes."""


def begin(own: Path) -> None:
    """Make the folder of a failure, or let it be the newest again. Raises OSError."""
    for _ in range(TRIES):
        own.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # an old one, which another process has removed just now
            os.utime(own)
            return
    os.utime(own)


def publish(folder: Path, name: str, kept: int = KEPT) -> None:
    """The folder of that name is complete: let `latest` lead there, and remove all but the newest."""
    with suppress(OSError), _locked(folder):
        if (folder / name).is_dir():
            _link(folder / LATEST, name)
        for old in _oldest(folder, kept):
            away = old.with_name(f"{GONE}{os.getpid()}-{old.name}")
            with suppress(OSError):
                old.rename(away)
        for away in folder.glob(f"{GONE}*"):  # of a process that was killed, too
            shutil.rmtree(away, ignore_errors=True)


def _oldest(folder: Path, kept: int) -> list[Path]:
    latest = (folder / LATEST).resolve()
    found = []
    for path in folder.iterdir():
        with suppress(OSError):
            if not path.is_symlink() and not path.name.startswith(".") and (path / REPORT).is_file():
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)[kept:] if path.resolve() != latest]


def _link(path: Path, name: str) -> None:
    """Let the link lead to the newest folder. A system without links has none."""
    beside = path.with_name(f".{path.name}-{os.getpid()}")
    with suppress(OSError):
        beside.unlink(missing_ok=True)
        beside.symlink_to(name, target_is_directory=True)
        os.replace(beside, path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time. A system without such locks has none."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
