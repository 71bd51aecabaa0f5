"""The explanation of a job: outcome, class, culprit, and their evidence.

Explanation("hang", "HANG:COLLECTIVE:MISSING_RANK", Suspect((2,), "default_pg", 6, "all_reduce", place), ...)
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from dpsim.diagnose.dumps.entries import CallPlace

Outcome: TypeAlias = Literal["hang", "finished", "failed", "moving", "undecided"]
"""hang: ranks wait for a call that no rank makes. finished: all calls are over. failed: ranks are gone. moving: the job
moved at the time of the dump. undecided: the dumps do not show which of these holds.
"""


class Suspect(NamedTuple):
    """The culprit. `seq`: the call of the group; `place`: the place where one of `ranks` made it, or else another
    rank.
    """

    ranks: tuple[int, ...]
    group: str
    seq: int | None
    op: str
    place: CallPlace


class Explanation(NamedTuple):
    """The content of a job's dumps. `said`: the act of the culprit, in a sentence. `confidence`: "high" for facts of
    the recorders, "medium" for a majority or a habit, otherwise "low".
    """

    outcome: Outcome
    klass: str
    culprit: Suspect | None
    said: str
    waits: tuple[str, ...]
    cycle: tuple[int, ...]
    undecided_ranks: tuple[int, ...]
    confidence: Literal["high", "medium", "low"]
    ground: tuple[str, ...]
    simulated: bool = False
    """Whether this is a run of dpsim, whose calls count from 0, and which has no process to look at."""
