"""Wrong names: refuses files whose name ends with the rank of another process.

    nccl_rank_1, which lists the group of ranks 0, 2       a dump of another rank
    nccl_rank_3, a copy of nccl_rank_1                     two ranks never make two calls at the same nanoseconds
    nccl_rank_0 and old_nccl_rank_0, of two attempts       their first calls have different times

A file under a wrong name could make the judgement blame the wrong rank, or call a job finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.entries import DumpError, RecordedCall, RecordedCalls

EPOCH_NS = 10**18
"""Real times are larger, in ns since 1970. Files that a user writes by hand may have equal times in all ranks."""

EXPECTED = "expected the dumps of one job, each with its rank at the end of the name"


class DumpFile(NamedTuple):
    """The content of a file. `name`: for messages. `listed`: the ranks of each group by its name."""

    name: str
    recorded: RecordedCalls
    listed: Mapping[str, tuple[int, ...]]


FirstCalls: TypeAlias = tuple[tuple[str, int, int], ...]


def library_of(call: RecordedCall) -> str:
    """Returns the library of a call, such as "nccl"."""
    return call.group.partition(":")[0]


def refuse_wrong_names(files: Mapping[int, Sequence[DumpFile]]) -> None:
    """Raises a DumpError that names the file. `files`: by rank, as the names of the files say."""
    seen: dict[FirstCalls, tuple[int, str]] = {}
    for rank, own in files.items():
        times: dict[tuple[str, int], tuple[int, str]] = {}
        for file in own:
            _refuse_other_rank(file, rank)
            _refuse_copy(file, rank, seen)
            if len(own) > 1:
                _refuse_other_process(file, rank, times)


def _refuse_other_rank(file: DumpFile, rank: int) -> None:
    for ranks in file.listed.values():
        if rank not in ranks:
            raise DumpError(
                f"{file.name}: lists a group of {ranks_text(ranks)}, so it is no dump of rank {rank}; {EXPECTED}"
            )


def _refuse_copy(file: DumpFile, rank: int, seen: dict[FirstCalls, tuple[int, str]]) -> None:
    calls = file.recorded.calls[:2]
    if len(calls) < 2 or calls[0].created < EPOCH_NS:
        return
    first = tuple((call.group, call.record, call.created) for call in calls)
    known, name = seen.setdefault(first, (rank, file.name))
    if known != rank:
        raise DumpError(f"{file.name}: has the calls of {name}, so one of the two has a wrong name; {EXPECTED}")


def _refuse_other_process(file: DumpFile, rank: int, times: dict[tuple[str, int], tuple[int, str]]) -> None:
    for call in file.recorded.calls:
        created, name = times.setdefault((library_of(call), call.record), (call.created, file.name))
        if created != call.created:
            raise DumpError(
                f"{file.name}: call {call.record} has another time than in {name}. One of the two is of another "
                f"process than rank {rank}, or of another attempt; {EXPECTED}"
            )
