"""What a check says when something does not hold.

Classes are hierarchical, parts joined by colons, most general first; patterns select them with shell wildcards:

    >>> matches("HANG:COLLECTIVE:MISSING_RANK", "HANG:*"), matches("HANG:COLLECTIVE:MISSING_RANK", "HANG")
    (True, True)

    HANG:COLLECTIVE:MISSING_RANK         a rank left out a collective that its peers wait in, or never came to it
    HANG:COLLECTIVE:EXTRA_CALL           a rank made a collective more often than its peers
    HANG:COLLECTIVE:DEAD_RANK            peers wait for a rank that died
    HANG:COLLECTIVE:ORDER_ACROSS_GROUPS  ranks wait for each other in different groups
    HANG:UNDECIDED                       a run stood still, and the journals do not say why
    MISMATCH:COLLECTIVE:STEP             as MISSING_RANK or EXTRA_CALL, but the run got through, paired up wrongly
    MISMATCH:COLLECTIVE:OP               members of one collective called it differently; likewise COUNT, DTYPE, ROOT
    DISAGREEMENT:<LABEL>                 ranks of a group decided differently
    CRASH:<EXCEPTION>                    a rank's program raised
    DEATH:RANK                           a rank died and nobody waits for it
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Culprit:
    """Who did it: rank, logical step, site of the op, and its file:line (of the peers' op where the rank left it
    out).
    """

    rank: int
    step: int
    site: str
    where: str

    def __str__(self) -> str:
        return f"rank {self.rank}, step {self.step}, {self.site}" + (f" at {self.where}" if self.where else "")


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold.

    `position` orders findings by cause: (step, index of the op in a journal); the smallest is the primary one.
    `message` is one line; `details` are further lines for the report.
    """

    check: str
    klass: str
    message: str
    culprit: Culprit | None
    position: tuple[int, int]
    details: tuple[str, ...] = ()


def matches(klass: str, pattern: str) -> bool:
    """Whether a class is the pattern, matches it as a shell wildcard, or lies below it."""
    return fnmatchcase(klass, pattern) or klass.startswith(f"{pattern}:")
