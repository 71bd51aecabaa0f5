"""The explanation of a job: outcome, class, culprit, and on what they rest.

Explanation("hang", "HANG:COLLECTIVE:MISSING_RANK", Suspect((2,), "default_pg", 6, "all_reduce", place), ...)
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from dpsim.diagnose.dumps.entries import CallPlace

Outcome: TypeAlias = Literal["hang", "finished", "failed", "moving", "undecided"]
"""hang: ranks wait for what does not come. finished: all calls are over. failed: ranks are gone.
moving: the job went on when it was dumped. undecided: the dumps do not say which.
"""


class Suspect(NamedTuple):
    """The cause. `seq`: the call of the group; `place`: where one of `ranks` made it, or else another rank."""

    ranks: tuple[int, ...]
    group: str
    seq: int | None
    op: str
    place: CallPlace


class Explanation(NamedTuple):
    """What the dumps of a job show. `said`: what the culprit did, in a sentence. `confidence`: "high" for what the
    recorders show outright, "medium" for a majority or a habit, else "low".
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
