"""Explanation: the result of judging a job: outcome, class, culprit, and their evidence.

Explanation("hang", "HANG:COLLECTIVE:MISSING_RANK", Suspect((2,), "default_pg", 6, "all_reduce", place), ...)
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from dpsim.diagnose.dumps.entries import CallPlace

Outcome: TypeAlias = Literal["hang", "finished", "failed", "moving", "undecided"]
"""hang: ranks wait for a call that no rank makes. finished: all calls are over. failed: a rank died or raised. moving:
the job still moved when it was dumped. undecided: the dumps do not show which of these is true.
"""


Confidence: TypeAlias = Literal["high", "medium", "low"]
"""high: records show what the culprit did. medium: a conclusion from a majority, other steps or waits. low: otherwise.
"""


class Suspect(NamedTuple):
    """The culprit of a job.

    `seq` is the number of the call in its group. `place` is where one of `ranks` made the call, or else where a peer
    did. If other evidence shows that the rank is blocked outside of any call, `place` is there. Then `call_line` is
    the line of the call, and `skipped` tells whether only peers made it.
    """

    ranks: tuple[int, ...]
    group: str
    seq: int | None
    op: str
    place: CallPlace
    call_line: str = ""
    skipped: bool = False


class Explanation(NamedTuple):
    """What the dumps of a job show.

    `said` is what the culprit did, in a sentence. `majority`: the culprit is the minority of a group. `why` is the
    reason that no rank is blamed, if a check has one. `raised` is the exception with which the culprit's program or its
    log ends, or empty.
    """

    outcome: Outcome
    klass: str
    culprit: Suspect | None
    said: str
    waits: tuple[str, ...]
    cycle: tuple[int, ...]
    undecided_ranks: tuple[int, ...]
    confidence: Confidence
    ground: tuple[str, ...]
    simulated: bool = False
    """Whether this is a run of dpsim. Its calls count from 0, and it has no process that a user could inspect."""
    raised: str = ""
    no_dump: bool = False
    """Whether the culprit left no dump, and no other record shows that it died."""
    why: str = ""
    undumped: tuple[int, ...] = ()
    """Those of `undecided_ranks` that left no dump."""
    majority: bool = False
