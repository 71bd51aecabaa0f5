"""Collects the dumps and recordings that tests read, into the archive of the part `jobs`: a plugin of pytest.

    python -m pytest -q -p tests.snapshot.collecting tests/diagnose/dumps tests/diagnose/recordings tests/recorded

Tests make these jobs by hand, so they exist only while a test runs. The archive keeps their files, and so a later
change of a test or of a maker changes no row. The readers are replaced before a test module can import them.

A job is collected once, whatever the number of tests that read it. Of a test with many jobs the first MOST are kept. A
run of the plugin replaces the archive: make the rows of the part anew after it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpsim.diagnose.dumps import reading
from dpsim.diagnose.recordings import job
from tests.snapshot.jobs import Files, keep

MOST = 4
_seen: set[str] = set()
_collected: dict[str, Files] = {}
_numbers: Counter[str] = Counter()


def collected(folders: tuple[Path, ...]) -> None:
    """Keeps the files of a job that the running test reads, if no test read them before. Real data are not copied."""
    real = os.environ.get("DPSIM_DATA")
    if real and any(folder.is_relative_to(real) for folder in folders):
        return
    files: Files = []
    for number, folder in enumerate(folders):
        for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if file.is_file():
                files.append((f"{number}/{file.relative_to(folder)}", file.read_bytes(), file.stat().st_mtime))
    sum_of_all = hashlib.sha256(repr([(name, data) for name, data, _ in files]).encode()).hexdigest()
    test = re.sub(r".*/test_(\w+)\.py::(\w+).*", r"\1.\2", os.environ.get("PYTEST_CURRENT_TEST", "none").split(" ")[0])
    if files and sum_of_all not in _seen and _numbers[test] < MOST:
        _seen.add(sum_of_all)
        _numbers[test] += 1
        _collected[f"{test}-{_numbers[test]}"] = files


def around(read: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a reader that collects what it reads."""

    def reads(*folders: Path, **more: Any) -> Any:
        collected(tuple(map(Path, folders)))
        return read(*folders, **more)

    return reads


reading.read_dumps = around(reading.read_dumps)
job.recorded_job = around(job.recorded_job)


def pytest_sessionfinish() -> None:
    keep(_collected)
