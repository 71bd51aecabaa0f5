"""The section `expect` of a scenario: the expected outcome of one run, and of the exploration of all schedules.

    expect: {verdict: violated, class: "HANG:*", culprit: {rank: 1}}     # of a run, and of all schedules
    expect: {explored: {class: "HANG:*"}}                                # a run holds, some schedule hangs
    expect: {explored: proven}                                           # a run holds, and the explorer proves it
    expect: {verdict: violated, explored: violated}                      # a run fails, and so does some schedule

`dpsim run` compares the outcome with `verdict`, whose default is held, and ignores `explored`.

If a scenario runs a variant and gives no class, dpsim expects the class with which the variant is registered. A class
in the file has precedence, so a scenario may expect a narrower one, and `class: "*"` expects any.

    protocol: {name: waves, variant: WAVES-1}                            # registered with HANG:COLLECTIVE
    expect: {verdict: violated}                                          # so a finding of that class

This module only validates the section. It refuses a class that no check reports, and a class or a culprit with a
verdict other than violated. `dpsim.checks.expected` compares the outcome with it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from dpsim.checks.expected import Expected
from dpsim.checks.finding import pattern_problem
from dpsim.scenario.base import Actor, Index, Problem, StrictModel, refuse


def _verdict_alone(value: Any) -> Any:
    return {"verdict": value} if isinstance(value, str) else value


ClassPattern = Annotated[
    str, Field(strict=True, max_length=200, pattern=r"^[A-Za-z0-9_*?\[\]!.-]+(:[A-Za-z0-9_*?\[\]!.-]+)*$")
]
"""A class of findings, its beginning, or a shell wildcard."""


class ExpectedCulprit(StrictModel):
    """The rank or service that the finding must blame."""

    rank: Actor
    """The rank that the finding must blame, or the name of a service."""
    step: Index | None = None
    """The logical step, from 0. If left out: any."""


class ExpectAny(StrictModel):
    """The expected verdict, and the first finding that a violation must have."""

    verdict: Literal["held", "proven", "vacuous", "violated"] = "held"
    klass: Annotated[ClassPattern | None, Field(alias="class")] = None
    """The class of the first finding, e.g. HANG:COLLECTIVE or DISAGREEMENT:*. A detail may follow it, as in
    HANG:COLLECTIVE:MISSING_RANK. If left out: the variant's, or any.
    """
    culprit: ExpectedCulprit | None = None
    """The rank, and its step, that the first finding must blame. If left out: any."""

    @model_validator(mode="before")
    @classmethod
    def _violated_if_said_how(cls, value: Any) -> Any:
        if isinstance(value, dict) and "verdict" not in value and (value.get("class") or value.get("culprit")):
            return {"verdict": "violated", **value}
        return value

    @model_validator(mode="after")
    def _nothing_to_find_if_held(self) -> Self:
        if self.verdict != "violated":
            for key, value in (("class", self.klass), ("culprit", self.culprit)):
                if value is not None:
                    message = f"verdict {self.verdict} leaves no {key} to find; expected verdict violated, or no {key}"
                    refuse(Problem((key,), message))
        return self

    @model_validator(mode="after")
    def _known(self) -> Self:
        wrong = None if self.klass is None else pattern_problem(self.klass)
        if wrong is not None:
            refuse(Problem(("class",), wrong))
        return self

    def expected(self, registered: str | None) -> Expected:
        """For the judge. `registered`: the class of the variant, for a violation without a class."""
        rank, step = (None, None) if self.culprit is None else (self.culprit.rank, self.culprit.step)
        klass = registered if self.klass is None and self.verdict == "violated" else self.klass
        return Expected(self.verdict, klass, rank, step)


ExploredVerdict: TypeAlias = Literal["held", "proven", "vacuous", "violated"]


class ExpectExplored(ExpectAny):
    """The expected outcome of all schedules. A bare word is short for the verdict."""

    verdict: ExploredVerdict = "held"
    """held: no tried schedule has a finding. proven: the explorer also tried every schedule. vacuous: no schedule has
    anything to coordinate. If left out: held, or violated if class or culprit are given.
    """


class Expect(ExpectAny):
    """The expected outcome. A run with the expected finding is a success."""

    verdict: Literal["held", "vacuous", "violated"] = "held"
    """vacuous: no rank issues anything but decisions, sleeps and idle gets. If left out: held, or violated if class or
    culprit are given.
    """
    explored: Annotated[
        ExpectExplored | None,
        BeforeValidator(_verdict_alone, json_schema_input_type=ExpectExplored | ExploredVerdict | None),
    ] = None
    """The expected outcome of all schedules, if it differs from that of one run. `explore` checks it; `run` checks the
    verdict above, whose default is held. If left out: the same as for one run.
    """

    def of_small_worlds(self) -> Expect:
        """Without a culprit, because a small world may lack that step."""
        explored = None if self.explored is None else self.explored.model_copy(update={"culprit": None})
        return self.model_copy(update={"culprit": None, "explored": explored})
