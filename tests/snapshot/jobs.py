"""The rows of jobs: dumps of flight recorders and recordings, which `dpsim explain` and `dpsim import` read.

jobs.tar.xz has the files of the jobs that the tests of these readers make (`tests.snapshot.collecting`). A member is
`NAME/0/FILE`, or `NAME/1/FILE` for later dumps of the same job. The times of the files are kept, because the reader of
stacks compares them.

If DPSIM_DATA names the folder of real data, its dumps have rows, too, such as `real-missing`.

A job that a command refuses has a row, too: what is refused must not change silently.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests import ROOT
from tests.cli.commands import dpsim_
from tests.snapshot.row import Found
from tests.snapshot.worlds import replace_text

ARCHIVE = ROOT / "tests" / "snapshot" / "jobs.tar.xz"
REAL = "real-"

Files: TypeAlias = list[tuple[str, bytes, float]]
"""The files of a job: name below the job's folder, content, and time of the last change."""


@cache
def kept() -> dict[str, Files]:
    """Returns the files of all jobs by the job's name."""
    found: dict[str, Files] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            job, _, name = member.name.partition("/")
            data = archive.extractfile(member)
            assert data is not None
            found.setdefault(job, []).append((name, data.read(), member.mtime))
    return found


def keep(jobs: Mapping[str, Files]) -> None:
    """Writes the archive."""
    with tarfile.open(ARCHIVE, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as archive:
        for job, files in sorted(jobs.items()):
            for name, data, time in files:
                member = tarfile.TarInfo(f"{job}/{name}")
                member.size, member.mtime = len(data), time  # a float keeps fractions
                archive.addfile(member, io.BytesIO(data))


def names() -> list[str]:
    """Returns the names of the jobs of the archive, and of the real ones."""
    return sorted([*kept(), *(f"{REAL}{folder.name}" for folder in _data().glob("*/"))])


def absent(name: str) -> bool:
    """Returns whether a row cannot be computed here, because its data are elsewhere."""
    return name.startswith(REAL) and not (_data() / name.removeprefix(REAL)).is_dir()


def _data() -> Path:
    return Path(os.environ.get("DPSIM_DATA", "/nonexistent")) / "flight_recorder"


def explain(name: str) -> Found:
    """Explains a job, and imports it as a scenario."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job"
        if name.startswith(REAL):
            shutil.copytree(_data() / name.removeprefix(REAL), job / "0")
        for file, data, time in kept().get(name, ()):
            path = job / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (time, time))
        answer = dpsim_("explain", *sorted(job.iterdir()), "--json")
        if answer.code:
            found: dict[str, Any] = {"verdict": "refused", "code": answer.code, "message": answer.err}
        else:
            found = answer.json
        output = Path(folder) / "imported.yaml"
        imported = dpsim_("import", job / "0", "-o", output)
        found["imported"] = {"code": imported.code, "scenario": _scenario(output)}
        return replace_text(Found(found), folder)


def _scenario(file: Path) -> Any:
    """Returns the content of a scenario file, or None if the command wrote none."""
    return yaml.safe_load(file.read_text()) if file.exists() else None
