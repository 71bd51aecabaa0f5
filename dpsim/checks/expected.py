"""Expected: compares the outcome of a run, or of all schedules, with the `expect` section of a scenario.

First, all faults that the scenario plants must happen. Otherwise the outcome is a failure, whatever the verdict:

    >>> Expected("violated", "HANG:*").unmet("held", None, ["skip: rank 1 never reached dp.agre[5]"])
    'never applied: skip: rank 1 never reached dp.agre[5]'

A vacuous run is a failure, unless the scenario expects it. In such a run no rank communicated, so it shows nothing:

    >>> Expected().unmet("vacuous", None)
    'expected held, got vacuous (nothing was coordinated; if that is meant, write `expect: {verdict: vacuous}`)'

Then the function compares the verdict, the class of the primary finding (the first cause), and its culprit. It compares
the step only if the scenario names one:

    >>> from dpsim.checks.finding import Culprit
    >>> primary = Finding("ledger", "HANG:COLLECTIVE:MISSING_RANK", "", Culprit(1, 2, "dp.agree", ""), (2, 0))
    >>> Expected("violated", "HANG:*", rank=1).unmet("violated", primary) is None
    True
    >>> Expected("violated", "HANG:*", rank=1, step=5).unmet("violated", primary)
    'expected rank 1 in step 5 as culprit, got rank 1 in step 2'

`dpsim.runner` applies this rule to one run, and `dpsim.campaign.explored` to all schedules of a scenario. Both require
all planted faults only of runs that reached their end. A run that stopped early may not have reached each fault. But if
it failed before any of them happened, they are not the cause (`dpsim.diagnose.injected.not_the_cause`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dpsim.checks.finding import Finding, matches

UNMEANT = "nothing was coordinated; if that is meant, write `expect: {verdict: vacuous}`"


class Expected(NamedTuple):
    """The expected outcome.

    `verdict`: "held" accepts every verdict but violated and vacuous. "proven" needs all schedules. "vacuous": no rank
    issued an op that other ranks can observe. `klass` is a pattern for the class of the primary finding. `rank` is the
    expected culprit (a service by its name) and `step` its step; None accepts any. Without a rank, the step has no
    effect.
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
        text = self.verdict + (f", {self.klass}" if self.klass is not None else "")
        return text if self.rank is None else f"{text}, culprit {self._culprit(self.rank)}"

    def _culprit(self, rank: int | str) -> str:
        return (f"rank {rank}" if isinstance(rank, int) else rank) + (
            "" if self.step is None else f" in step {self.step}"
        )

    def unmet(
        self, got: str, primary: Finding | None, never_applied: Sequence[str] = (), remark: str = ""
    ) -> str | None:
        """Returns the reason why an outcome is not the expected one, or None.

        `got` is the verdict. `never_applied` lists faults and delays that did not happen although they could have.
        `remark` is added to the reason if the verdict differs.
        """
        if never_applied:
            return f"never applied: {'; '.join(never_applied)}"
        if got != self.verdict and (self.verdict != "held" or got in ("vacuous", "violated")):
            remarks = [UNMEANT] * (got == "vacuous" and self.verdict != "violated") + [remark] * bool(remark)
            return f"expected {self.verdict}, got {got}" + (f" ({'; '.join(remarks)})" if remarks else "")
        if primary is None:
            return None
        if self.klass is not None and not matches(primary.klass, self.klass):
            return f"expected a finding of class {self.klass}, got {primary.klass}"
        return None if self.rank is None else self._other_culprit(self.rank, primary)

    def _other_culprit(self, rank: int | str, primary: Finding) -> str | None:
        culprit = primary.culprit
        if culprit is None:
            return f"expected {self._culprit(rank)} as culprit, but the finding names none"
        if rank in (culprit.rank, culprit.service, *culprit.ranks) and self.step in (None, culprit.step):
            return None
        came = culprit.service or culprit.who
        return f"expected {self._culprit(rank)} as culprit, got {came} in step {culprit.step}"


HELD = Expected()
"""The expectation of a scenario without an `expect` section."""
