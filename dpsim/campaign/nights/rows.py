"""Rows: reads and writes the files of nights. Each night has one file, named by its date, with one result in each line.

    append(Path("nights/2026-11-27.jsonl"), NightRow(part="swarm", name="wake", verdict="held"))
    nights(Path("nights"))      # {"2026-11-26": [NightRow(...), ...], "2026-11-27": [...]}

A row is on disk before the next one begins, and no row ever changes. A second run of the same night appends rows. The
first row of a run lists the parts that it should run, and declares with count 0 what worlds may reach.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError

from dpsim.contract.words import BadInput, printable
from dpsim.trace.strict_json import loads

SCHEMA_VERSION = 1
"""The version increases if a key changes its meaning."""

DATE = re.compile(r"\d{4}-\d\d-\d\d")
LONGEST_LINE = 1 << 26

BEGINS = "begin"


class NightRefused(BadInput):
    """A folder or a line is no night."""


class Found(BaseModel):
    """A failure. `what` is equal for the same failure in two nights. `show` is the command that shows it, or empty."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    what: str
    message: str = ""
    show: str = ""


class NightRow(BaseModel):
    """The result of a part for one scenario, variant or test. `lost`: what the machine could not do. `left_out`: why
    the part did nothing. `reached`: by kind and name, the number of worlds that reached it. `seed`: of the random
    choices.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: NonNegativeInt = SCHEMA_VERSION
    part: str
    name: str
    verdict: str = ""
    worlds: NonNegativeInt = 0
    schedules: NonNegativeInt = 0
    seconds: NonNegativeFloat = 0.0
    seed: int | None = None
    failures: tuple[Found, ...] = ()
    lost: str = ""
    left_out: str = ""
    reached: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)


def file_of(folder: Path, night: str) -> Path:
    """Returns the file of a night. Raises NightRefused for a text that is no date."""
    if not DATE.fullmatch(night):
        raise NightRefused(f"--night: {night!r} is no date; expected one such as 2026-11-27")
    return folder / f"{night}.jsonl"


def append(file: Path, row: NightRow) -> None:
    """Appends a row, which is on disk at the return. Ends a line that was left open. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"schema_version": row.schema_version, **row.model_dump(exclude_defaults=True)}
    line = json.dumps(content, separators=(",", ":"))  # in ASCII: a text may have what UTF-8 lacks
    with file.open("a+b") as out:
        open_line = out.tell() > 0 and _last_byte(file) != b"\n"
        out.write(b"\n" * open_line + f"{line}\n".encode())
        out.flush()
        os.fsync(out.fileno())


def nights(folder: Path) -> dict[str, list[NightRow]]:
    """Returns the rows by date, the earliest first. Raises NightRefused if there are none, or a line is damaged."""
    if not folder.is_dir():
        raise NightRefused(f"{folder}: no such folder; expected one in which `dpsim campaign nightly` wrote nights")
    files = sorted(file for file in folder.glob("*.jsonl") if DATE.fullmatch(file.stem))
    if not files:
        raise NightRefused(f"{folder}: no night is in it, and no file is named as 2026-11-27.jsonl is")
    return {file.stem: read(file) for file in files}


def read(file: Path) -> list[NightRow]:
    """Returns the rows of a night. Raises OSError, and NightRefused for a damaged line."""
    rows = []
    with file.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(LONGEST_LINE), b""), 1):
            try:
                row = NightRow.model_validate(loads(line))
            except ValueError as error:
                raise NightRefused(f"{file}: line {number} is no row of a night: {_why(error)}; delete it") from None
            if row.schema_version != SCHEMA_VERSION:
                raise NightRefused(
                    f"{file}: line {number} has schema_version {row.schema_version}; this dpsim reads "
                    f"{SCHEMA_VERSION}: move the file to another folder"
                )
            rows.append(row)
    return rows


def _why(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return printable(str(error))[:200]
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return printable(f"{place}: {first['msg']}" if place else first["msg"])[:200]


def _last_byte(file: Path) -> bytes:
    with file.open("rb") as own:
        own.seek(-1, os.SEEK_END)
        return own.read(1)
