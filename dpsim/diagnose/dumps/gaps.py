"""Gaps: finds what a folder of dumps lacks, and describes it for the report.

    gloo_rank_0, and no nccl_rank_0      rank 0 counts as a rank without a dump
    nccl_rank_1.gz                       a dump that dpsim did not read

Each library of a process has its own recorder. Without the dump of NCCL, a rank looks as if it had made no call of
NCCL, and the judgement would blame it. If one file has calls of several libraries, its recorder is that of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dpsim.contract.words import middle_cut, ranks_text
from dpsim.diagnose.dumps.beginning import HEAD, is_dump
from dpsim.diagnose.dumps.wrong_names import DumpFile

GZIP = b"\x1f\x8b"

DEFAULT_GROUP = "default_pg"
"""The description of the group of all ranks."""


def partial_ranks(files: Mapping[int, Sequence[DumpFile]]) -> dict[int, str]:
    """Returns the ranks that lack the dump of a library although they are members of one of its groups, by rank in
    words. A file without calls may be of any library.
    """
    of_files = {rank: [_libraries(file) for file in own] for rank, own in files.items()}
    if any(len(one) > 1 for own in of_files.values() for one in own):
        return {}
    libraries = {rank: {library for one in own for library in one} for rank, own in of_files.items() if all(own)}
    found = {}
    for key, members in _members(files).items():
        library = key.partition(":")[0]
        for rank in [rank for rank, own in libraries.items() if library not in own and rank in members]:
            found[rank] = f"rank {rank} left a dump of {' and '.join(sorted(libraries[rank]))} and none of {library}"
    return found


def _libraries(file: DumpFile) -> set[str]:
    return {key.partition(":")[0] for key in file.recorded.described}


def _members(files: Mapping[int, Sequence[DumpFile]]) -> dict[str, Iterable[int]]:
    """Returns the ranks of each group that has a call, as far as they are known."""
    listed = {name: ranks for own in files.values() for file in own for name, ranks in file.listed.items()}
    found: dict[str, Iterable[int]] = {}
    for own in files.values():
        for file in own:
            for key, description in file.recorded.described.items():
                everyone = files if description == DEFAULT_GROUP else ()
                found[key] = listed.get(key.partition(":")[2], everyone)
    return found


def unread(file: Path) -> str:
    """Returns a line about a file whose name does not end with a rank; empty if it is no dump, or unreadable."""
    try:
        with file.open("rb") as opened:
            head = opened.read(HEAD)
    except OSError:
        return ""
    if not is_dump(head) and not head.startswith(GZIP):
        return ""
    return f"dpsim did not read {middle_cut(file.name, 60)}: expected a plain dump whose name ends with its rank"


def missing_line(missing: Sequence[int], said: Iterable[str]) -> list[str]:
    """Returns the line about ranks without a dump, unless the report says so already."""
    return [f"{ranks_text(missing)} left no dump"] if missing and not any("left no dump" in one for one in said) else []
