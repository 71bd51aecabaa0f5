"""Whether a rank may have learned that the machine took a peer away (`Run.lost`). What it did then says nothing.

    may_know(run)           # True: rank 1 asked for a key, and got None, since the store's process was killed

A rank learns of a loss by an answer: None for a key, a join or a time-out that passed, False for an event. A rank that
watches a process gets ("gone", 0). Journals do not say when the process was lost, so each such answer counts.
A wait that does not end teaches a rank nothing.
"""

from __future__ import annotations

from dpsim.contract.ops import KIND, LEARNED_OUTCOME, RawRecord
from dpsim.contract.world import Run


def may_know(run: Run) -> bool:
    """Whether a rank of the run got an answer that a loss may have caused."""
    return any(raw[KIND] == "learned" and _may_tell(raw) for journal in run.journals for raw in journal)


def _may_tell(raw: RawRecord) -> bool:
    match raw[LEARNED_OUTCOME]:
        case None | False | ("gone", _) | ["gone", _]:
            return True
    return False
