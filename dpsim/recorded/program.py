"""The program `recorded`: each rank makes the calls that a job made, one for each row of text, in order.

    protocol:
      name: recorded
      params:
        groups: {default_pg: [0, 1]}
        calls:
        - ["all_reduce default_pg 16 float32 sum @train.py:42", ...]      # of rank 0
        - [...]

A call whose end the job recorded is awaited at once, and all others after the last row. So each rank makes every call
that it made in the job. The place of a call is the recorded line, or this file. All buffers contain zeros.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from dpsim.backend.journal.elsewhere import set_place
from dpsim.contract.dtypes import numpy_dtype
from dpsim.contract.interface import HostCommunicator, Rank
from dpsim.contract.ops import Domain
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.recorded.rows import CallRow, parsed

_NO_WORD = re.compile(r"[^!-~]")
"""Matches the characters of a file's name that a site cannot have."""


class RecordedParams(BaseModel):
    """The parameters of the program: the groups and calls of a job."""

    groups: dict[str, list[int]]
    """The members of each group, as ranks of the job."""
    calls: list[list[str]] = Field(min_length=1, max_length=4096)
    """The calls of each rank, in order: `all_reduce default_pg 16 float32 sum @train.py:42`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for rank, own in enumerate(self.calls):
            for at, text in enumerate(own):
                row = parsed(text)
                members = self.groups.get(row.group)
                if row.step < 0 and (members is None or rank not in members):
                    raise ValueError(f"calls[{rank}][{at}]: rank {rank} is no member of a group {row.group!r}")
                if members is not None and row.peer >= 0 and row.peer not in members:
                    raise ValueError(f"calls[{rank}][{at}]: rank {row.peer} is no member of the group {row.group!r}")
        for name, members in self.groups.items():
            if len({*members}) != len(members) or not all(0 <= one < len(self.calls) for one in members):
                raise ValueError(f"groups: {name}: {members} are no ranks of {len(self.calls)}, each once")
        return self


class RecordedCallsOfRanks(NamedTuple):
    """The result of `prepare`: the rows of each rank, and the members of each group."""

    rows: tuple[tuple[CallRow, ...], ...]
    groups: dict[str, tuple[int, ...]]


@register_protocol("recorded")
class RecordedProgram(Program[RecordedCallsOfRanks]):
    """Makes the calls of a job that was recorded (`dpsim import`)."""

    Params = RecordedParams

    @staticmethod
    def ranks(params: RecordedParams) -> int:
        return len(params.calls)

    def prepare(self, args: Arguments[RecordedParams]) -> RecordedCallsOfRanks:
        rows = tuple(tuple(map(parsed, own)) for own in args.params.calls)
        return RecordedCallsOfRanks(rows, {name: tuple(members) for name, members in args.params.groups.items()})

    def groups(self, prepared: RecordedCallsOfRanks) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        return [(name, "host", [members]) for name, members in prepared.groups.items()]

    async def run(self, rank: Rank, prepared: RecordedCallsOfRanks) -> None:
        opened: list[Awaitable[Any]] = []
        for row in prepared.rows[rank.rank]:
            if row.step >= 0:
                rank.step = row.step
                continue
            work = made(rank.host(row.group), row)
            if row.is_open:
                opened.append(work)
            else:
                await work
        for work in opened:
            await work


def made(group: HostCommunicator, row: CallRow) -> Awaitable[Any]:
    """Starts the call of a row on the rank's group, and returns the work to await. The recorded line is its place."""
    site = f"{_NO_WORD.sub('?', row.line) or row.op}.{row.op}"
    if row.line:
        set_place(site, ((row.op, row.line),))
    dtype = numpy_dtype(row.dtype)
    if row.op == "recv":
        return group.recv(row.elements, row.dtype, row.peer, site=site)  # type: ignore[arg-type]  # checked by its row
    array = np.zeros(row.elements, dtype)
    how: dict[str, Any] = {"op": row.reduction} if row.reduction else {}
    if row.op == "barrier":
        return group.barrier(site=site)
    if row.op == "send":
        return group.send(array, row.peer, site=site)
    if row.op in ("broadcast", "gather"):
        return getattr(group, row.op)(array, row.peer, site=site)  # type: ignore[no-any-return]
    if row.op == "scatter":
        return group.scatter(np.zeros(row.elements * group.size, dtype), row.peer, site=site)
    if row.op == "reduce":
        return group.reduce(array, row.peer, site=site, **how)
    if row.op == "all_to_all":
        return group.all_to_all(np.zeros(group.size, dtype), site=site)  # no job records the sizes of the pieces
    if row.op == "reduce_scatter":
        sizes = [len(piece) for piece in np.array_split(array, group.size)]
        return group.reduce_scatter(array, sizes=sizes, site=site, **how)
    return getattr(group, row.op)(array, site=site, **how)  # type: ignore[no-any-return]
