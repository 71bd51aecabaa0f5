"""Reading: reads a folder of dumps. The number at the end of a file's name is the rank.

    comm_lib_trace_rank_0  comm_lib_trace_rank_1  ...     as NCCL's watchdog writes them
    nccl_rank_0.json  gloo_rank_0.json  ...               as an engineer dumps two recorders of a rank

A rank may have several files: of several recorders, of two times, or in both formats. The reader merges them, so that
each entry occurs once. A file is a pickle of plain data (`plain_pickle`), or JSON. The reader ignores other files.

A damaged file, one that is no dump, or one under a wrong name raises a `DumpError`, which names the file and the
expected content. A rank without a file is no error, because it is evidence: its process may have died.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.contract.words import middle_cut
from dpsim.diagnose.dumps.beside import NOTHING, Beside, read_beside
from dpsim.diagnose.dumps.entries import DumpError, EntryReader, RecordedCall, RecordedCalls
from dpsim.diagnose.dumps.gaps import partial_ranks, unread
from dpsim.diagnose.dumps.plain_pickle import EndsEarly, NotPlain, cut_off, plain
from dpsim.diagnose.dumps.wrong_names import DumpFile, library_of, refuse_wrong_names
from dpsim.trace.strict_json import ends_early, loads

LARGEST = 1 << 29
"""The largest number of bytes of a file."""

RANKS = 1 << 20
"""The largest number of ranks. A higher number in a name is a date or a process id."""

_NAME = re.compile(r"(?:.*[^0-9])?(\d{1,9})(?:\.(?:json|pkl|pickle|bin|dump))?")
_VERSION = re.compile(r"2\.\d{1,4}")

TO_DO = "a file that is no dump has to leave the folder; then its rank counts as one without a dump"

AGAIN = (
    "was the rank killed while it wrote? Fetch the dump again. If its rest is lost, "
    "the file has to leave the folder; then its rank counts as one without a dump"
)


class RankDump(NamedTuple):
    """The content of a rank's recorders.

    `calls`: in the order of its clock. `wrapped`: libraries whose ring buffer has overwritten its first entries.
    `written_ns`: the time of its newest file. `moved`: files of two times differ.
    """

    rank: int
    calls: list[RecordedCall]
    wrapped: frozenset[str]
    written_ns: int
    moved: bool


class Dumps(NamedTuple):
    """The dumps of a job.

    `members`: the ranks of each group that any dump lists. `described`: the description of each group. `beside`: other
    evidence. `gaps`: what the folders lack, in lines.
    """

    ranks: dict[int, RankDump]
    members: dict[str, tuple[int, ...]]
    described: dict[str, str]
    beside: Beside = NOTHING
    gaps: tuple[str, ...] = ()


def read_dumps(*folders: Path) -> Dumps:
    """Returns the dumps of folders. Raises DumpError or OSError."""
    by_rank: dict[int, list[Path]] = {}
    gaps: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "there is no such folder"
            raise DumpError(f"{folder}: {what}; expected a folder of dumps, a file for each rank")
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            found = _NAME.fullmatch(path.name)
            if found and int(found[1]) < RANKS:
                by_rank.setdefault(int(found[1]), []).append(path)
            else:
                gaps.append(unread(path))
    if not by_rank:
        raise DumpError(
            f"{folders[0]}: no dump in it; expected files of torch's flight recorder whose names end with a rank, "
            "such as comm_lib_trace_rank_0 (docs/a-job-hangs.md)"
        )
    with _without_collector():
        dumps = _combined(by_rank, folders[0])
    return dumps._replace(beside=read_beside(folders), gaps=(*filter(None, gaps), *dumps.gaps))


def _combined(by_rank: Mapping[int, Sequence[Path]], folder: Path) -> Dumps:
    """Returns the dumps of files, given by rank. Raises DumpError or OSError."""
    reader, members, described = EntryReader(), dict[str, tuple[int, ...]](), dict[str, str]()
    files = {rank: [_read(reader, path) for path in paths] for rank, paths in sorted(by_rank.items())}
    refuse_wrong_names(files)
    partial = partial_ranks(files)
    if len(partial) == len(files):
        lacking = "; ".join(islice(partial.values(), 2))
        raise DumpError(f"{folder}: {lacking}; expected for each rank the dumps of all its libraries")
    ranks = {}
    for rank, own in files.items():
        for file in own:
            for group, ranks_of in file.listed.items():
                members.setdefault(group, ranks_of)
            described.update(file.recorded.described)
        if rank not in partial:
            written_ns = max(path.stat().st_mtime_ns for path in by_rank[rank])
            ranks[rank] = _merged(rank, [file.recorded for file in own], written_ns)
    gaps = tuple(f"{line}, so it counts as a rank without a dump" for line in partial.values())
    return Dumps(ranks, members, described, gaps=gaps)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Switches Python's garbage collector off, because a million new objects without cycles would make it slow."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read(reader: EntryReader, file: Path) -> DumpFile:
    """Returns the content of a file. Raises DumpError."""
    name = middle_cut(file, 200)
    size = file.stat().st_size
    if size > LARGEST:
        raise DumpError(f"{name}: {size:,} bytes; expected a dump of at most {LARGEST:,}")
    content = _content(file.read_bytes(), name)
    if type(content) is not dict or "entries" not in content:
        raise DumpError(f"{name}: no `entries`; expected a dump of torch's flight recorder. {TO_DO}")
    version = content.get("version")
    if type(version) is not str or not _VERSION.fullmatch(version):
        shown_version = repr(version[:40]) if type(version) is str else "none"
        raise DumpError(f"{name}: `version` is {shown_version}; expected '2.10' or another 2.x (torch 2.5 and newer)")
    return DumpFile(name, reader.read(content["entries"], name), _members(content.get("pg_config"), name))


def _content(data: bytes, name: str) -> Any:
    if not data:
        raise DumpError(f"{name}: the file is empty; expected a dump of torch's flight recorder. {TO_DO}")
    try:
        return plain(data) if data[:1] == b"\x80" else loads(data)
    except EndsEarly as error:
        raise DumpError(f"{name}: {error}: {AGAIN}") from None
    except NotPlain as error:
        raise DumpError(f"{name}: {error}. {TO_DO}") from None
    except ValueError as error:
        if data.lstrip().startswith(b"{") and ends_early(error):
            raise DumpError(f"{name}: {cut_off(data)}: {AGAIN}") from None
        if isinstance(error, json.JSONDecodeError):
            said = f"{error.msg.removesuffix(' at')} at column {error.colno}"
            raise DumpError(f"{name}:{error.lineno}: neither JSON nor a pickle: {said}. {TO_DO}") from None
        raise DumpError(f"{name}: neither JSON nor a pickle: {middle_cut(error)}. {TO_DO}") from None


def _members(config: Any, name: str) -> dict[str, tuple[int, ...]]:
    """Returns the ranks of each group by its name. Dumps of gloo list none."""
    if config is None:
        return {}
    found = {}
    try:
        for group, description in config.items():
            ranks = json.loads(description["ranks"]) if type(description["ranks"]) is str else description["ranks"]
            if not (type(ranks) is list and all(type(rank) is int and 0 <= rank < RANKS for rank in ranks)):
                raise ValueError(f"`ranks` of the group {middle_cut(group, 40)!r} is no list of ranks")
            if type(group) is str and ranks:
                found[group] = tuple(ranks)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DumpError(
            f"{name}: `pg_config`: {middle_cut(error)}; expected name, desc and ranks of each group"
        ) from None
    return found


def _merged(rank: int, recorded: list[RecordedCalls], written_ns: int) -> RankDump:
    """Returns the calls of all files of a rank, each once."""
    if len(recorded) == 1:
        alone = recorded[0].calls
        libraries = dict.fromkeys(library_of(call) for call in alone)
        starts = (next(call for call in alone if library_of(call) == one) for one in libraries)
        lost = frozenset(library_of(call) for call in starts if call.record > 0)
        return RankDump(rank, alone, lost, written_ns, False)
    calls: dict[tuple[str, int, int], RecordedCall] = {}
    seen: list[Mapping[tuple[str, int, int], bool]] = []
    for one in recorded:
        own = {(library_of(call), call.record, call.created): call for call in one.calls}
        seen.append({key: call.over for key, call in own.items()})
        for key, call in own.items():
            known = calls.get(key)
            calls[key] = call if known is None else _fuller(known, call)
    merged = [*calls.values()]
    merged.sort(key=lambda call: (call.created, call.record))
    first: dict[str, int] = {}
    for library, record, _ in calls:
        first[library] = min(first.get(library, record), record)
    wrapped = frozenset(library for library, record in first.items() if record > 0)
    return RankDump(rank, merged, wrapped, written_ns, _moved(seen))


def _fuller(one: RecordedCall, other: RecordedCall) -> RecordedCall:
    """Returns one of two entries of a call: the one with a stack. It is over if either is."""
    kept = one if one.place.line else other
    return kept._replace(over=one.over or other.over, ended=one.ended or other.ended)


def _moved(seen: list[Mapping[tuple[str, int, int], bool]]) -> bool:
    """Returns whether two dumps of one recorder differ: the rank has begun or finished a call between them."""
    for at, one in enumerate(seen):
        for other in seen[at + 1 :]:
            if one.keys() & other.keys() and one != other:
                return True
    return False
