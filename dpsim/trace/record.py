"""Writing a trace: header, body, places; all or nothing.

    dpsim run quickstart --trace quickstart.jsonl

Line 1 is the header (`dpsim.trace.header`), then comes one line for each record (`dpsim.trace.form`). Two lines follow
that the digest does not cover, because they may differ between backends or after an edit elsewhere. They say where in
the source each site lies, by kind of record, and what the exceptions of ranks said. If the backend knows the calls that
led there, a third line has them. For a run that did not end, a line has the last step that each program set. A rank
before the first op of a step has no record of that step. A run in time has one with the times of its records. Traces of
older versions of dpsim lack these three lines.

    {"section":"places","places":{"collective":{"dp.agree":["dpsim/vllm/data_parallel/step.py:114"], ...}, ...}}
    {"section":"messages","messages":{"3":"the second dispatch pads 8 agreed tokens to 16 in mode FULL"}}
    {"section":"chains","chains":{"app/step.py:114":[["agree","app/step.py:114"],["run","app/loop.py:9"]],...}}
    {"section":"steps","steps":{"0":3,"1":4}}
    {"section":"times","times":{"written":[[12,40,0,...],...],"over":[[3,91000,...],...]}}

A run of the simulation without time has one more section, the schedule, with a separate digest. `dpsim replay` makes
the same run again from it.

    {"section":"schedule","schedule":{"strategy":"dpor","digest":"5be0...","steps":["rank 2 delivers wake[0]",...]}}

A writer never copies the journals, so a trace of millions of records takes little memory. The file appears under its
name when it is complete and on the disk, and not at all when writing fails or is interrupted. `check_writable` tries
the folder *before* a long run. Where the user names a link, the writer replaces the file that it leads to. `kept` in
`dpsim.campaign.files` chooses the name itself, and takes a link away first.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsim.contract.chain import Chain
from dpsim.contract.ops import KIND, RAISED_MESSAGE, SITE, WHERE, RawRecord
from dpsim.contract.world import Run
from dpsim.trace.appearing import appearing, temporary
from dpsim.trace.form import UNWRITTEN, lines
from dpsim.trace.header import PREFIX, Header
from dpsim.trace.schedule import Schedule
from dpsim.trace.times import content_of


def write_trace(
    path: str | os.PathLike[str],
    run: Run,
    *,
    scenario: Mapping[str, Any],
    verdict: str,
    klass: str | None,
    versions: Mapping[str, str] | None = None,
    schedule: Schedule | None = None,
) -> Header:
    """Write the trace of a run to `path`; the answer is the header, with the body's digest and length.

    `scenario`: plain data, as YAML has it. `klass`: the class of the primary finding. `versions` are added to those of
    the run. `schedule`: of a run without time.

    Raises OSError if the file cannot be written, TraceError for a decision that a trace cannot hold. In both cases
    there is no file, or the old one.
    """
    header = Header.of(run, scenario=scenario, verdict=verdict, klass=klass, versions=versions)
    total = hashlib.sha256()
    with appearing(_target(Path(path))) as file:
        file.write(header.line())
        for rank, journal in enumerate(run.journals):
            for line in lines(rank, journal):
                total.update(line)
                file.write(line)
        file.write(_section("places", places_of(run.journals)))
        file.write(_section("messages", messages_of(run.journals)))
        if chains := chains_of(run):
            file.write(_section("chains", chains))
        if steps := steps_of(run):
            file.write(_section("steps", steps))
        if times := content_of(run):
            file.write(_section("times", times))
        if schedule is not None:
            file.write(_section("schedule", schedule.content()))
        file.seek(len(PREFIX))
        file.write(total.hexdigest().encode())
    return replace(header, digest=total.hexdigest())


def places_of(journals: Sequence[Sequence[RawRecord]]) -> dict[str, dict[str, list[str]]]:
    """kind -> site -> its places in the source, all sorted."""
    table: dict[str, dict[str, list[str]]] = {}
    for kind, site, where in sorted({(raw[KIND], raw[SITE], raw[WHERE]) for journal in journals for raw in journal}):
        if where and kind != UNWRITTEN:
            table.setdefault(kind, {}).setdefault(site, []).append(where)
    return table


def messages_of(journals: Sequence[Sequence[RawRecord]]) -> dict[str, str]:
    """rank -> what its exception said. An exception ends a journal."""
    last = {rank: journal[-1] for rank, journal in enumerate(journals) if journal}
    return {str(rank): raw[RAISED_MESSAGE] for rank, raw in last.items() if raw[KIND] == "raised"}


def chains_of(run: Run) -> dict[str, Chain]:
    """place -> the calls that led there first, of the places of this run."""
    if not run.chains:
        return {}
    places = {raw[WHERE] for journal in run.journals for raw in journal}
    return {place: run.chains[place] for place in sorted(places & run.chains.keys())}


def steps_of(run: Run) -> dict[str, int]:
    """rank -> the highest step that its program has set; empty for a run that ended, or that does not know."""
    return {} if run.finished else {str(rank): step for rank, step in enumerate(run.steps_set)}


def check_writable(path: str | os.PathLike[str]) -> None:
    """Whether a trace could be written to `path`. Raises OSError that says why not; leaves nothing behind."""
    tried = temporary(_target(Path(path)))
    tried.unlink(missing_ok=True)
    with tried.open("xb"):
        pass
    tried.unlink()


def _target(path: Path) -> Path:
    """The file itself where `path` is a link to one. Raises OSError where no file can be."""
    loop = OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    try:
        target = path.resolve()
    except RuntimeError:  # what Python 3.11 and 3.12 raise
        raise loop from None
    if target.is_symlink():  # what Python 3.13 leaves of it
        raise loop
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; a file name is needed", str(path))
    if target.exists() and not target.is_file():
        raise OSError(
            errno.EINVAL, "not a regular file; a trace is written beside its name and then renamed", str(path)
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    return target


def _section(name: str, content: Mapping[str, Any]) -> bytes:
    return (json.dumps({"section": name, name: content}, separators=(",", ":")) + "\n").encode()
