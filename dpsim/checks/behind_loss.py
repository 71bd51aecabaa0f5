"""Whether a rank may have learned that the machine took a peer away (`Run.lost`). What it did then says nothing.

    may_know(run)           # True: rank 1 asked for a key, and got None, since the store's process was killed

Three answers tell a rank of a loss: a store that is gone, a time-out that passed, and ("gone", 0). The last one comes
from the watch of a process. Journals do not say when the process was lost, so each such answer counts. A poll that
finds no message, or an event that has not passed, is no sign: a protocol has to expect both without any loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, LOOK_TIMEOUT, TAKE_TIMEOUT, RawRecord
from dpsim.contract.world import Run


def may_know(run: Run) -> bool:
    """Whether a rank of the run got an answer that only a loss, or a time-out, explains."""
    return any(_learns(journal) for journal in run.journals)


def _learns(journal: Sequence[RawRecord]) -> bool:
    asked = set()
    for raw in journal:
        if _may_end_by_loss(raw):
            asked.add(raw[ADDRESS])
        elif raw[KIND] == "learned":
            match raw[LEARNED_OUTCOME]:
                case ("gone", _) | ["gone", _]:
                    return True
                case None | False if raw[ADDRESS] in asked:
                    return True
    return False


def _may_end_by_loss(raw: RawRecord) -> bool:
    """Whether an op ends without an answer if a process is lost."""
    limits = {"take": TAKE_TIMEOUT, "look": LOOK_TIMEOUT}
    return raw[KIND] == "store" or (raw[KIND] in limits and raw[limits[raw[KIND]]] is not None)
