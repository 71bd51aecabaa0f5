"""Behind loss: whether a rank may have noticed that the machine took a process away from the run (`Run.lost`).

    may_depend_on_loss(run)           # True: rank 1 asked for a key, and got None, since the store's process was killed

After such a loss, the acts of a rank are no evidence against its program. Three results show a loss to a rank: a store
that is gone, an expired timeout, and ("gone", 0) from the watch of a process.

Journals do not show when the machine took the process away. So each such result counts. A poll without a message, or an
event that has not completed, does not count: these happen in healthy runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.kinds import timeout_ns
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, RawRecord
from dpsim.contract.world import Run


def may_depend_on_loss(run: Run) -> bool:
    """Returns whether a rank of the run got a result that only a loss or a timeout explains."""
    return any(_learns(journal) for journal in run.journals)


def _learns(journal: Sequence[RawRecord]) -> bool:
    queried = set()
    for raw in journal:
        if _may_end_by_loss(raw):
            queried.add(raw[ADDRESS])
        elif raw[KIND] == "learned":
            match raw[LEARNED_OUTCOME]:
                case ("gone", _) | ["gone", _]:
                    return True
                case None | False if raw[ADDRESS] in queried:
                    return True
    return False


def _may_end_by_loss(raw: RawRecord) -> bool:
    """Returns whether an op may return without a result if a process is lost."""
    return raw[KIND] == "store" or timeout_ns(raw) is not None
