"""What a scenario expects, and why what came is not that: one rule for one run and for many.

A planted fault that is found as expected is a success; one that never happened is none, whatever else came:

    >>> Expected("violated", "HANG:*").unmet("held", None, ["skip: rank 1 never came to dp.agre[5]"])
    'never applied: skip: rank 1 never came to dp.agre[5]'

A vacuous run is no success either, unless a scenario expects it: nothing was coordinated, so nothing was shown.

    >>> Expected().unmet("vacuous", None)
    'expected held, came vacuous (nothing was coordinated; if that is meant, write `expect: {verdict: vacuous}`)'

Then the verdict counts, the class of the primary finding, and its culprit: the rank, and the step where one is named.

    >>> from dpsim.checks.finding import Culprit
    >>> primary = Finding("ledger", "HANG:COLLECTIVE:MISSING_RANK", "", Culprit(1, 2, "dp.agree", ""), (2, 0))
    >>> Expected("violated", "HANG:*", rank=1).unmet("violated", primary) is None
    True
    >>> Expected("violated", "HANG:*", rank=1, step=5).unmet("violated", primary)
    'expected rank 1 in step 5 as culprit, came rank 1 in step 2'

`dpsim.runner` judges a run by it, `dpsim.campaign.explored` all schedules of a world. Of what was planted and never
happened they tell only where a run came to its end: one that stopped early may not have come to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dpsim.checks.finding import Finding, matches

UNMEANT = "nothing was coordinated; if that is meant, write `expect: {verdict: vacuous}`"


class Expected(NamedTuple):
    """What must come out. `verdict`: "held" is all but violated and vacuous; "proven" can come of all schedules only;
    "vacuous": no rank issued anything that others could see.
    `klass`: a pattern for the class of the primary finding. `rank` and `step`: who must be found to have done it,
    a service by its name, and when; None for any. A step without a rank is never looked at.
    """

    verdict: Literal["held", "proven", "vacuous", "violated"] = "held"
    klass: str | None = None
    rank: int | str | None = None
    step: int | None = None

    def __str__(self) -> str:
        """
        >>> str(Expected("violated", "HANG:*", 1, 5)), str(Expected())
        ('violated, HANG:*, culprit rank 1 in step 5', 'held')
        """
        said = self.verdict + (f", {self.klass}" if self.klass is not None else "")
        return said if self.rank is None else f"{said}, culprit {self._culprit(self.rank)}"

    def _culprit(self, rank: int | str) -> str:
        return (f"rank {rank}" if isinstance(rank, int) else rank) + (
            "" if self.step is None else f" in step {self.step}"
        )

    def unmet(
        self, came: str, primary: Finding | None, never_applied: Sequence[str] = (), remark: str = ""
    ) -> str | None:
        """Why what came is not as expected; None if it is.

        `came`: the verdict, "violated" or another word for a success. `never_applied`: faults and delays that did not
        happen where they could have. `remark`: what to add where the verdict is another one.
        """
        if never_applied:
            return f"never applied: {'; '.join(never_applied)}"
        if came != self.verdict and (self.verdict != "held" or came in ("vacuous", "violated")):
            remarks = [UNMEANT] * (came == "vacuous" and self.verdict != "violated") + [remark] * bool(remark)
            return f"expected {self.verdict}, came {came}" + (f" ({'; '.join(remarks)})" if remarks else "")
        if primary is None:
            return None
        if self.klass is not None and not matches(primary.klass, self.klass):
            return f"expected a finding of class {self.klass}, came {primary.klass}"
        return None if self.rank is None else self._other_culprit(self.rank, primary)

    def _other_culprit(self, rank: int | str, primary: Finding) -> str | None:
        culprit = primary.culprit
        if culprit is None:
            return f"expected {self._culprit(rank)} as culprit, but the finding names none"
        if rank in (culprit.rank, culprit.service, *culprit.ranks) and self.step in (None, culprit.step):
            return None
        came = culprit.service or culprit.who
        return f"expected {self._culprit(rank)} as culprit, came {came} in step {culprit.step}"


HELD = Expected()
"""What is expected of a world of which nothing is said."""
