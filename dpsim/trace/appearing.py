"""A file that appears under its name when it is complete and on the disk, and not at all when writing fails.

    with appearing(Path("x.jsonl")) as file:
        file.write(b"...")

It is written beside its name and renamed over it. So whatever had that name is replaced: of a link the link, and the
file that it led to stays as it is. The temporary file is always a new one, for the same reason. The way of temporary
file, fsync and rename: Pillai et al., All file systems are not created equal, OSDI 2014.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def appearing(target: Path) -> Iterator[BinaryIO]:
    """A file to write to, which appears as `target` if all goes well."""
    beside = temporary(target)
    try:
        beside.unlink(missing_ok=True)  # of a process that was killed
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def temporary(target: Path) -> Path:
    """Where the file is until then."""
    return target.with_name(f".dpsim-trace-{os.getpid()}.tmp")
