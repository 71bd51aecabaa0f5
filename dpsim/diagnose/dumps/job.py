"""Job: combines the dumps of all ranks into groups with the calls of their members, and transfers between two ranks.

    job = job_of(read_dumps(folder))
    job.groups["nccl:0"].calls[2]       # the collectives of rank 2 in the group "0", in order
    job.lines["nccl:1", 0, 2].sends     # what rank 0 sent to rank 2 there

Dumps of NCCL list the ranks of each group. Dumps of gloo do not: there, the members are the ranks that called the
group, and the default group has all ranks. A rank that is in a group and left no dump is missing.

An operation is over if the field `retired` is true. If a library never sets it, the state `completed` counts. NCCL
completes the operations of a group in order, so all operations before a finished one are over as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import NamedTuple, TypeAlias

from dpsim.diagnose.dumps.beside import NOTHING, Beside
from dpsim.diagnose.dumps.entries import RecordedCall, Shape
from dpsim.diagnose.dumps.reading import RANKS, Dumps, RankDump

DEFAULT = ("default_pg", "0")
"""The description and the name of the group of all ranks."""

LineKey: TypeAlias = tuple[str, int, int]
"""A group, the sending rank, and the receiving rank."""


class DumpGroup(NamedTuple):
    """A process group.

    `kind` is the common name of such groups ("tp" of "tp3"). `listed`: a dump lists the members. `calls`: the
    collectives by rank.
    """

    key: str
    name: str
    kind: str
    members: tuple[int, ...]
    listed: bool
    calls: dict[int, list[RecordedCall]]


class DumpLine(NamedTuple):
    """The transfers from one rank to another in a group."""

    key: LineKey
    sends: list[RecordedCall]
    receives: list[RecordedCall]


class DumpedJob(NamedTuple):
    """A job from its dumps.

    `ranks`: all known ranks. `missing`: those without a dump. `calls`: by rank, in order. `hidden`: the ranks with
    operations that their recorder does not show. `gaps`: what the folder lacks, in lines.
    """

    dumps: dict[int, RankDump]
    ranks: tuple[int, ...]
    missing: tuple[int, ...]
    calls: dict[int, list[RecordedCall]]
    groups: dict[str, DumpGroup]
    lines: dict[LineKey, DumpLine]
    hidden: tuple[int, ...]
    beside: Beside = NOTHING
    gaps: tuple[str, ...] = ()

    def peer(self, call: RecordedCall) -> int:
        """Returns the other rank of a transfer."""
        return _rank_at(self.groups[call.group].members, call.shape.peer)

    def unfinished(self, rank: int) -> Iterator[RecordedCall]:
        return (call for call in self.calls[rank] if not call.over)


def job_of(dumps: Dumps) -> DumpedJob:
    """Returns the job that some dumps describe."""
    calls = _settled({rank: dump.calls for rank, dump in dumps.ranks.items()})
    by_group: dict[str, dict[int, list[RecordedCall]]] = {}
    for rank, own in calls.items():
        for call in own:
            members = by_group.setdefault(call.group, {})
            mine = members.setdefault(rank, [])
            if not call.shape.is_transfer:
                mine.append(call)
    ranks = _ranks(dumps, calls)
    names = _names(dumps.described)
    groups = {
        key: DumpGroup(key, names[key], kind_of(dumps.described[key]), *_members(dumps, key, own, ranks), own)
        for key, own in by_group.items()
    }
    missing = tuple(rank for rank in ranks if rank not in dumps.ranks)
    lines = _lines(calls, groups)
    return DumpedJob(dumps.ranks, ranks, missing, calls, groups, lines, _hidden(calls), dumps.beside, dumps.gaps)


def _ranks(dumps: Dumps, calls: dict[int, list[RecordedCall]]) -> tuple[int, ...]:
    """Returns all ranks: those that a group lists, or else all up to the highest rank with a dump.

    An all_gather of the default group may show that there are more.
    """
    listed = {rank for members in dumps.members.values() for rank in members}
    last = max(dumps.ranks)
    if not listed:
        everyone = {key for key, said in dumps.described.items() if said == DEFAULT[0]}
        shapes = {call.shape for own in calls.values() for call in own if call.group in everyone}
        last = max([last, *(size - 1 for shape in shapes if (size := _gathered(shape)) <= RANKS)])
    return tuple(sorted({*listed, *dumps.ranks, *(range(last + 1) if not listed else ())}))


def _gathered(shape: Shape) -> int:
    """Returns the number of members of an all_gather, computed from its sizes; 0 if they do not show it."""
    inputs, outputs = (sum(map(prod, dims)) for dims in shape.dims)
    gathers = shape.op.lstrip("_").startswith(("all_gather", "allgather"))
    return outputs // inputs if gathers and inputs > 0 and outputs > 0 and outputs % inputs == 0 else 0


def kind_of(description: str) -> str:
    """Returns the common name of groups of one kind.
    >>> kind_of("dp[0, 1]"), kind_of("default_pg"), kind_of("tp3")
    ('dp', 'default_pg', 'tp')
    """
    return re.sub(r"[\[(].*|[-_.: ]*\d+", "", description) or description


def _names(described: dict[str, str]) -> dict[str, str]:
    """Returns the names of groups: their description, if it is not empty and no other group has it."""
    often: dict[str, int] = {}
    for said in described.values():
        often[said] = often.get(said, 0) + 1
    names = {}
    for key, said in described.items():
        library, _, name = key.partition(":")
        plain = said if said and said != "undefined" else f"group {name}"
        alone = often[said] == 1 and plain == said
        names[key] = plain if alone else f"{plain} ({name or library})" if plain == said else plain
    taken: dict[str, int] = {}
    for name in names.values():
        taken[name] = taken.get(name, 0) + 1
    return {key: name if taken[name] == 1 else f"{name} of {key.partition(':')[0]}" for key, name in names.items()}


def _members(
    dumps: Dumps, key: str, calls: dict[int, list[RecordedCall]], ranks: tuple[int, ...]
) -> tuple[tuple[int, ...], bool]:
    """Returns the members of a group, and whether a dump lists them."""
    name = key.partition(":")[2]
    listed = dumps.members.get(name)
    if listed is not None and {*calls} <= {*listed}:
        return listed, True
    if dumps.described[key] == DEFAULT[0] or (name == DEFAULT[1] and len(calls) > 1):
        return ranks, False
    return tuple(sorted(calls)), False


def _rank_at(members: tuple[int, ...], position: int) -> int:
    return members[position] if 0 <= position < len(members) else position


def _settled(calls: dict[int, list[RecordedCall]]) -> dict[int, list[RecordedCall]]:
    """Returns the calls. A call counts as over if a later call of its group is over."""
    settled = {}
    for rank, own in calls.items():
        if all(call.over for call in own):
            settled[rank] = own
            continue
        last: dict[str, int] = {}
        for at, call in enumerate(own):
            if call.over and call.group.startswith("nccl") and not call.shape.is_transfer:
                last[call.group] = at
        settled[rank] = [
            call if call.over or call.shape.is_transfer or at > last.get(call.group, -1) else call._replace(over=True)
            for at, call in enumerate(own)
        ]
    return settled


def _lines(calls: dict[int, list[RecordedCall]], groups: dict[str, DumpGroup]) -> dict[LineKey, DumpLine]:
    lines: dict[LineKey, DumpLine] = {}
    for rank, own in calls.items():
        for call in own:
            if call.shape.is_transfer:
                peer = _rank_at(groups[call.group].members, call.shape.peer)
                sends = call.shape.op == "send"
                key = call.group, *((rank, peer) if sends else (peer, rank))
                line = lines.setdefault(key, DumpLine(key, [], []))
                (line.sends if sends else line.receives).append(call)
    return lines


def _hidden(calls: dict[int, list[RecordedCall]]) -> tuple[int, ...]:
    """Returns the ranks whose count of operations has a gap, because the recorder does not show gloo's transfers."""
    found = []
    for rank, own in calls.items():
        last: dict[str, RecordedCall] = {}
        for call in own:
            before = last.get(call.group)
            steps = 0 if before is None else call.record - before.record
            if before is not None and call.op_id - before.op_id > max(steps, 1):
                found.append(rank)
                break
            last[call.group] = call
    return tuple(found)
