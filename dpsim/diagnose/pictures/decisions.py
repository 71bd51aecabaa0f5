"""Decisions: marks the decisions of a disagreement for which dpsim blames no rank.

    mark_decisions(ranks, finding)

    rank 0  mode[0]  decided PIECEWISE
    rank 1  mode[0]  decided NONE

Without these marks the picture of such a finding shows no sign of it: all calls are right, and only values differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from dpsim.checks.finding import Finding
from dpsim.contract.ops import DECISION_COMMUNICATOR, DECISION_VALUE, KIND, SITE, STEP, RawRecord
from dpsim.diagnose.pictures.journal_ops import RankOps


def mark_decisions(ranks: Sequence[RankOps], finding: Finding) -> None:
    """Marks the first decisions of the finding's step and label of which two differ, one decision of each rank."""
    rounds: dict[tuple[str, int], list[tuple[RankOps, int]]] = defaultdict(list)
    for rank in ranks:
        passed = Counter[str]()
        for at, raw in enumerate(rank.journal):
            if _is_of(raw, finding):
                communicator = raw[DECISION_COMMUNICATOR]
                rounds[communicator, passed[communicator]].append((rank, at))
                passed[communicator] += 1
    for decisions in rounds.values():
        if len({rank.journal[at][DECISION_VALUE] for rank, at in decisions}) > 1:
            for rank, at in decisions:
                rank.by_at[at].marked = True
            return


def _is_of(raw: RawRecord, finding: Finding) -> bool:
    """Returns whether a record is a decision of the finding's step and label."""
    decides = raw[KIND] == "decision" and raw[STEP] == finding.position[0]
    return decides and finding.klass == f"DISAGREEMENT:{raw[SITE].upper()}"
