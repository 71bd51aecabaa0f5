"""Uses of memory that was freed before the op was issued.

The contract refuses such a use, but for two: a replay of a graph uses the memory of its capture, whatever became of
it; and a weak reference to a graph's output is no use once the graph's pool has given the memory out again. Journals
tell both by themselves, in the order of issue.

    free x;  replay g: launch k reads x     ->  (at of k, x)
"""

from __future__ import annotations

from dpsim.contract.ops import (
    BUFFER,
    COLLECTIVE_READS,
    COLLECTIVE_WRITES,
    KIND,
    LAUNCH_READS,
    LAUNCH_WRITES,
    READ_READS,
    TRANSFER_READS,
    TRANSFER_WRITES,
    RawRecord,
)

PLACES = {
    "launch": (LAUNCH_READS, LAUNCH_WRITES),
    "collective": (COLLECTIVE_READS, COLLECTIVE_WRITES),
    "transfer": (TRANSFER_READS, TRANSFER_WRITES),
    "read": (READ_READS,),
}
"""Where records of each kind have their memory."""


def used_after_free(journal: list[RawRecord]) -> list[tuple[int, int]]:
    """(index in the journal, buffer) of each use, in order."""
    if not any(raw[KIND] == "capture" for raw in journal):
        return []
    freed: set[int] = set()
    found: list[tuple[int, int]] = []
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "free":
            freed.add(raw[BUFFER])
        elif freed and kind in PLACES:
            gone = {ref[0] for place in PLACES[kind] for ref in raw[place] if ref[0] in freed}
            found += [(at, buffer) for buffer in sorted(gone)]
    return found
