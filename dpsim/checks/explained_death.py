"""Explained death: if a mismatch or an error of a kernel killed a process, sorts its finding before the death.

gloo ends a process that receives more bytes than its buffer has. The simulation and NCCL continue:

    rank 0   send int32[2] to rank 1
    rank 1   recv int32[1] from rank 0      gloo: SIGABRT       ->   MISMATCH:TRANSFER:COUNT, then DEATH:RANK

After an error of a kernel, NCCL may end the process (SIGABRT) before its rank raises KernelError. If a peer raised
KernelError, because it made the same mistake, that finding comes first.

With the mismatch first, the primary finding is the same on every backend. Hangs of other ranks that wait for the dead
one follow the mismatch as well. If the scenario planted the death, neither caused it, and the finding keeps its
position.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.finding import Finding, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import INJECTED_WHAT, KIND

CAUSES = ("MISMATCH", "CRASH:KERNELERROR")
PLANTED = ("die", "kill")


def behind_mismatch(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. Those of a death come behind the first cause, if the rank had reached the cause's step."""
    died = [rank for rank, end in enumerate(run_index.run.ends) if end == "died" and not _planted(run_index, rank)]
    causes = [one.position for one in findings if any(matches(one.klass, cause) for cause in CAUSES)]
    first = min(causes, default=None)
    if first is None:
        return findings
    explained = {rank for rank in died if first[0] <= run_index.reached(rank)}
    return [_behind(one, first) if _of(one, explained) else one for one in findings]


def _planted(run_index: RunIndex, rank: int) -> bool:
    journal = run_index.run.journals[rank]
    return any(raw[KIND] == "injected" and raw[INJECTED_WHAT] in PLANTED for raw in journal)


def _of(finding: Finding, died: set[int]) -> bool:
    concerns = matches(finding.klass, "DEATH") or matches(finding.klass, "HANG")
    return concerns and finding.culprit is not None and finding.culprit.rank in died


def _behind(finding: Finding, position: tuple[int, int]) -> Finding:
    step, at = position
    return replace(finding, position=max(finding.position, (step, at + 1)))
