"""Floats: finds a NaN, or zeros of both signs, in the input of a maximum or minimum. Libraries may keep a NaN or lose
it, and return either zero.

    rank 1 brings a NaN to an all_reduce with max               ->   UNDEFINED:NAN, culprit rank 1, at its call
    rank 0 brings 0.0 to it and rank 1 -0.0, the largest ones   ->   UNDEFINED:ZERO_SIGN, culprit rank 1, at its call

The backend notes which members contributed such a value (`Run.undefined`). Every backend inspects arrays of hosts for a
NaN. Only the simulation also inspects buffers of devices, and compares the zeros of all members.
"""

from __future__ import annotations

from dpsim.checks.finding import Finding, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import KIND, ORDINAL, SITE
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
    own = run_index.collectives[one.communicator].get(one.rank, ())
    calls = [entry for entry in own if entry.raw[KIND] == "collective" and entry.raw[SITE] == one.site]
    return next((entry for entry in calls if entry.raw[ORDINAL] == one.ordinal), None)


def _finding(run_index: RunIndex, name: str, zero: bool, entry: Entry) -> Finding:
    whose = {"rank": entry.rank, "call": entry.record}
    return Finding(
        check="floats",
        klass="UNDEFINED:ZERO_SIGN" if zero else "UNDEFINED:NAN",
        message=fact("brings_minus_zero", **whose) if zero else fact("brings_nan", **whose),
        culprit=run_index.culprit(entry),
        position=run_index.position(entry),
        details=(fact("add_zero", communicator=name) if zero else fact("test_for_nan", communicator=name),),
    )
