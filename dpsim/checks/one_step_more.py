"""One step more: whether ranks ended too early, or the others made one step too many.

    rank 0      steps 0 to 3, and then step 4, in which it waits for the others
    ranks 1, 2  steps 0 to 3, and a normal end       ->   no culprit: rank 0 may have gone on by mistake

A rank that ends normally after complete steps breaks no pattern. So its missing calls of the next step prove nothing.
Two cases are different: most ranks make this step, or the rank did not read a message.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.finding import Part, fact
from dpsim.checks.run_index import RunIndex
from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, POST_TO, STEP


def one_step_more(run_index: RunIndex, ranks: Sequence[int], step: int) -> Part:
    """Returns the reason why those of `ranks` that ended before a step may have left out nothing; empty if they did."""
    ended = [rank for rank in ranks if run_index.reached(rank) < step]
    others = [rank for rank in ranks if rank not in ended]
    if len(others) > len(ended) or not all(_ended_after_steps(run_index, rank, step) for rank in ended):
        return ""
    return fact("one_step_more", others=(*others,), step=step, ended=(*ended,))


def _ended_after_steps(run_index: RunIndex, rank: int, step: int) -> bool:
    journal = run_index.run.journals[rank]
    worked = any(raw[KIND] in MEETS and raw[STEP] < step for raw in journal)
    ended = run_index.end(rank) == "finished" and not run_index.asleep(rank)
    return worked and ended and not _has_unread(run_index, rank)


def _has_unread(run_index: RunIndex, rank: int) -> bool:
    own = run_index.run.journals[rank]
    takes = {raw[ADDRESS] for raw in own if raw[KIND] == "take"}
    took = sum(raw[KIND] == "learned" and raw[ADDRESS] in takes and raw[LEARNED_OUTCOME] is not None for raw in own)
    got = sum(raw[KIND] == "post" and raw[POST_TO] == rank for journal in run_index.run.journals for raw in journal)
    return bool(got > took)
