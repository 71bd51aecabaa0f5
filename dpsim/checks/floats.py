"""Floats: finds a NaN in the input of a maximum or minimum. Libraries may keep the NaN or lose it.

    rank 1 brings a NaN to an all_reduce with max   ->   UNDEFINED:NAN, culprit rank 1, at its call

The backend notes which members contributed a NaN (`Run.undefined`). Every backend inspects arrays of hosts. Only the
simulation also inspects buffers of devices.
"""

from __future__ import annotations

from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import COLLECTIVE_REDUCE, KIND, ORDINAL, SITE
from dpsim.contract.undefined import Undefined


def check(run_index: RunIndex) -> list[Finding]:
    """Returns one finding for each site and communicator, for the first member that contributed a NaN there."""
    first: dict[tuple[str, str], list[Entry]] = {}
    for one in run_index.run.undefined:
        entry = _entry(run_index, one)
        if entry is not None:
            first.setdefault((one.communicator, one.site), []).append(entry)
    return [_finding(run_index, name, min(entries, key=_position)) for (name, _), entries in first.items()]


def _position(entry: Entry) -> tuple[int, int, int]:
    return entry.step, entry.at, entry.rank


def _entry(run_index: RunIndex, one: Undefined) -> Entry | None:
    """Returns the call of the member that contributed the NaN, or None."""
    own = run_index.collectives[one.communicator].get(one.rank, ())
    calls = [entry for entry in own if entry.raw[KIND] == "collective" and entry.raw[SITE] == one.site]
    return next((entry for entry in calls if entry.raw[ORDINAL] == one.ordinal), None)


def _finding(run_index: RunIndex, name: str, entry: Entry) -> Finding:
    record, how = entry.record, entry.raw[COLLECTIVE_REDUCE]
    return Finding(
        check="floats",
        klass="UNDEFINED:NAN",
        message=f"rank {entry.rank} brings a NaN to {record.site} ({record.describe()}, step {record.step}): "
        f"the {how} of a NaN and a number depends on their order",
        culprit=run_index.culprit(entry),
        position=run_index.position(entry),
        details=(f"{name}: test the input with isnan before the call, and reduce a flag beside it",),
    )
