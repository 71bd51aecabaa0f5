"""Floats: finds a NaN, or zeros of both signs, in the input of a maximum or minimum. Libraries may keep a NaN or lose
it, and return either zero.

    rank 1 brings a NaN to an all_reduce with max               ->   UNDEFINED:NAN, culprit rank 1, at its call
    rank 0 brings 0.0 to it and rank 1 -0.0, the largest ones   ->   UNDEFINED:ZERO_SIGN, culprit rank 1, at its call

The backend notes which members contributed such a value (`Run.undefined`). Every backend inspects arrays of hosts for a
NaN. Only the simulation also inspects buffers of devices, and compares the zeros of all members.
"""

from __future__ import annotations

from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import COLLECTIVE_REDUCE, KIND, ORDINAL, SITE
from dpsim.contract.undefined import Undefined


def check(run_index: RunIndex) -> list[Finding]:
    """Returns one finding for each site and communicator, for the first member that contributed such a value there: a
    NaN if there is one.
    """
    first: dict[tuple[str, str], list[tuple[bool, Entry]]] = {}
    for one in run_index.run.undefined:
        entry = _entry(run_index, one)
        if entry is not None:
            first.setdefault((one.communicator, one.site), []).append((one.zero, entry))
    return [_finding(run_index, name, *min(entries, key=_position)) for (name, _), entries in first.items()]


def _position(brought: tuple[bool, Entry]) -> tuple[bool, int, int, int]:
    zero, entry = brought
    return zero, entry.step, entry.at, entry.rank


def _entry(run_index: RunIndex, one: Undefined) -> Entry | None:
    """Returns the call of the member that contributed the value, or None."""
    own = run_index.collectives[one.communicator].get(one.rank, ())
    calls = [entry for entry in own if entry.raw[KIND] == "collective" and entry.raw[SITE] == one.site]
    return next((entry for entry in calls if entry.raw[ORDINAL] == one.ordinal), None)


def _finding(run_index: RunIndex, name: str, zero: bool, entry: Entry) -> Finding:
    record, how = entry.record, entry.raw[COLLECTIVE_REDUCE]
    value, pair = ("-0.0", "0.0 and -0.0") if zero else ("a NaN", "a NaN and a number")
    test = "isnan before the call, and reduce a flag beside it"
    cure = "add 0.0 to the input, which turns -0.0 into 0.0" if zero else f"test the input with {test}"
    return Finding(
        check="floats",
        klass="UNDEFINED:ZERO_SIGN" if zero else "UNDEFINED:NAN",
        message=f"rank {entry.rank} brings {value} to {record.site} ({record.describe()}, step {record.step}): "
        f"the {how} of {pair} depends on their order",
        culprit=run_index.culprit(entry),
        position=run_index.position(entry),
        details=(f"{name}: {cure}",),
    )
