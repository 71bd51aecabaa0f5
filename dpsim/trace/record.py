"""Writes a trace: header, body, and sections behind the body. The file appears only when it is complete.

    dpsim run quickstart --trace quickstart.jsonl

Line 1 is the header (`dpsim.trace.header`). Then comes one line for each record (`dpsim.trace.form`). The sections
behind them are not part of the digest, because they may differ between backends or after an edit elsewhere:

    places      where in the source each site is, by kind of record
    messages    the texts of the exceptions of ranks
    chains      the calls that led to each place, if the backend knows them
    steps       for a run that did not end, the last step that each program set
    times       for a timed run (not an explored one), the times of its records

    {"section":"places","places":{"collective":{"dp.agree":["dpsim/vllm/data_parallel/step.py:114"], ...}, ...}}
    {"section":"messages","messages":{"3":"the second dispatch pads 8 agreed tokens to 16 in mode FULL"}}
    {"section":"chains","chains":{"app/step.py:114":[["agree","app/step.py:114"],["run","app/loop.py:9"]],...}}
    {"section":"steps","steps":{"0":3,"1":4}}
    {"section":"times","times":{"written":[[12,40,0,...],...],"over":[[3,91000,...],...]}}
    {"section":"schedule","schedule":{"strategy":"dpor","digest":"5be0...","steps":["rank 2 delivers wake[0]",...]}}

The schedule of an explored run has its own digest. Traces of older versions lack chains, steps and times.

The writer does not copy the journals. `check_writable` tries the folder *before* a long run. If the user names a link,
the writer replaces the file behind it; `kept` in `dpsim.campaign.files` chooses the name itself and first removes a
link. If writing fails or a user interrupts it, no file appears.
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
    """Writes the trace of a run to `path`, and returns its header. `scenario`: plain data, as in YAML. `klass`: of the
    primary finding. `versions`: added to those of the run. Raises OSError, and TraceError for a decision that a trace
    cannot contain; then an earlier file stays as it was.
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
    """Returns for each kind of record, and each site, its places in the source, sorted."""
    table: dict[str, dict[str, list[str]]] = {}
    for kind, site, where in sorted({(raw[KIND], raw[SITE], raw[WHERE]) for journal in journals for raw in journal}):
        if where and kind != UNWRITTEN:
            table.setdefault(kind, {}).setdefault(site, []).append(where)
    return table


def messages_of(journals: Sequence[Sequence[RawRecord]]) -> dict[str, str]:
    """Returns for each rank that raised the text of its exception, which is the last record of its journal."""
    last = {rank: journal[-1] for rank, journal in enumerate(journals) if journal}
    return {str(rank): raw[RAISED_MESSAGE] for rank, raw in last.items() if raw[KIND] == "raised"}


def chains_of(run: Run) -> dict[str, Chain]:
    """Returns for each place of the run the calls that led there first."""
    if not run.chains:
        return {}
    places = {raw[WHERE] for journal in run.journals for raw in journal}
    return {place: run.chains[place] for place in sorted(places & run.chains.keys())}


def steps_of(run: Run) -> dict[str, int]:
    """Returns for each rank the highest step that its program set; empty if the run ended or has no steps."""
    return {} if run.finished else {str(rank): step for rank, step in enumerate(run.steps_set)}


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises OSError, with the reason, if a trace could not be written to `path`. It leaves no file behind."""
    tried = temporary(_target(Path(path)))
    tried.unlink(missing_ok=True)
    with tried.open("xb"):
        pass
    tried.unlink()


def _target(path: Path) -> Path:
    """Returns `path`, or the file behind it if `path` is a link. Raises OSError if no file can be there."""
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
