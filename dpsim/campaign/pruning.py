"""Pruning: keeps the folders of the last failures and removes older ones, while other processes may write theirs.

    begin(folder / "drawn-ab2cb8e2")        # it is the newest from now on
    publish(folder, "drawn-ab2cb8e2")       # when it is written: `latest` leads there, and the oldest go

The age of a folder counts from its last failure. `begin` makes a folder one of the newest, so no other process removes
it while it is written. `publish` holds a lock while it changes the link and removes folders, and it never removes the
folder to which `latest` leads. It renames a folder before it removes the files, so that no reader finds half of them.
It removes only folders with a report, because dpsim wrote only these.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LATEST = "latest"
KEPT = 50

REPORT = "report.txt"
TRIES = 3
GONE = ".gone-"
"""The beginning of the name of a folder that is being removed."""


def begin(own: Path) -> None:
    """Creates the folder of a failure, or makes it the newest again. Raises OSError."""
    for _ in range(TRIES):
        own.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process has just removed an old one
            os.utime(own)
            return
    os.utime(own)


def publish(folder: Path, name: str, kept: int = KEPT) -> None:
    """Lets `latest` lead to the complete folder of that name, and removes all but the newest folders."""
    with suppress(OSError), _locked(folder):
        if (folder / name).is_dir():
            _link(folder / LATEST, name)
        for old in _oldest(folder, kept):
            away = old.with_name(f"{GONE}{os.getpid()}-{old.name}")
            with suppress(OSError):
                old.rename(away)
        for away in folder.glob(f"{GONE}*"):  # also those that a killed process left
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
    """Lets the link lead to the newest folder. On a system without links there is none."""
    beside = path.with_name(f".{path.name}-{os.getpid()}")
    with suppress(OSError):
        beside.unlink(missing_ok=True)
        beside.symlink_to(name, target_is_directory=True)
        os.replace(beside, path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Excludes other processes. On a system without file locks it does nothing."""
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
