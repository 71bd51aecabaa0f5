"""A file that appears under its name only when it is complete and on the disk. If writing fails, it does not appear.

    with appearing(Path("x.jsonl")) as file:
        file.write(b"...")

If the target is a link, the rename replaces the link, and the file behind the link does not change. Prior art for
temporary file, fsync and rename: Pillai et al., All file systems are not created equal, OSDI 2014.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def appearing(target: Path) -> Iterator[BinaryIO]:
    """Yields a binary file to write to. At the end of the block it becomes `target`, unless the block raises."""
    beside = temporary(target)
    try:
        beside.unlink(missing_ok=True)  # a killed process with this number may have left it
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
    """Returns the path of the temporary file that this process writes for `target`."""
    return target.with_name(f".dpsim-trace-{os.getpid()}.tmp")
