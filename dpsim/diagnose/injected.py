"""Faults and delays that never happened: an address that nobody came to, or a change that changed nothing.

A planted fault that is not applied would pass as a healthy run, so a typo in an address must not go unnoticed.

    faults: rank 1 never came to dp.agre[5]; did you mean dp.agree?
"""

from __future__ import annotations

import difflib

from dpsim.world import At, Run, World


def never_applied(world: World, run: Run) -> list[str]:
    """One line for each fault or delay of the world that left no trace in the journals. Empty if all happened."""
    lines = []
    for what, rank, at in [
        *((fault.describe(), fault.rank, fault.at) for fault in world.faults),
        *(("delay", delay.rank, delay.at) for delay in world.delays),
    ]:
        if not _happened(run, rank, at, what.partition(" ")[0]):
            lines.append(f"{what}: {_why(run, rank, at)}")
    return lines


def _happened(run: Run, rank: int, at: At, kind: str) -> bool:
    for raw in run.journals[rank]:
        if raw[0] == "injected" and raw[5].startswith(kind):
            if at.communicator is not None:
                if raw[5].endswith(f" at {at}"):
                    return True
            elif at.site is None:
                if raw[2] == "start":
                    return True
            elif raw[2] == at.site and at.ordinal in (None, raw[3]):
                return True
    return False


def _why(run: Run, rank: int, at: At) -> str:
    journal = run.journals[rank]
    if at.communicator is not None:
        calls = sum(raw[0] == "collective" and raw[6] == at.communicator for raw in journal)
        if at.seq is not None and at.seq < calls:
            return f"rank {rank} came to {at}, but there it changes nothing"
        return f"rank {rank} never came to {at}; it made {calls} collectives on {at.communicator}"
    visits = [raw[3] for raw in journal if raw[2] == at.site and raw[0] not in ("learned", "free", "injected")]
    if visits and (at.ordinal is None or at.ordinal in visits):
        return f"rank {rank} came to {at}, but there it changes nothing"
    if visits:
        return f"rank {rank} never came to {at}; its last visit was {at.site}[{max(visits)}]"
    sites = sorted({raw[2] for raw in journal if raw[0] in ("collective", "launch", "read", "alloc", "decision")})
    near = difflib.get_close_matches(str(at.site), sites, n=1)
    hint = f"did you mean {near[0]}?" if near else f"its sites: {', '.join(sites) or 'none'}"
    return f"rank {rank} never came to {at}; {hint}"
