"""What a scenario expects: of one run, and of all its schedules where that is something else.

    expect: {verdict: violated, class: "HANG:*", culprit: {rank: 1}}     # of a run, and of all schedules
    expect: {explored: {class: "HANG:*"}}                                # a run holds, some schedule hangs
    expect: {explored: proven}                                           # and no schedule may be left to try
    expect: {verdict: violated, explored: violated}                      # the first run breaks something, too

`explored` does not apply to one run: `verdict` does, which defaults to held.

A scenario that runs a variant leaves the class out: the class with which the variant is registered counts. A class in
the file wins, so a world can expect a narrower one, and `class: "*"` expects any. A variant that is registered as
harmless has no class; what a file expects of its faults is then of any class.

    protocol: {name: waves, variant: WAVES-1}                            # registered with HANG:COLLECTIVE:MISSING_RANK
    expect: {verdict: violated}                                          # so a finding of that class

The judge is `dpsim.checks.expected`. This module defines the words of a file. It refuses a class that no finding has,
and a class or a culprit where nothing is to be found.
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
"""A class of findings, the beginning of one, or a shell wildcard."""


class ExpectedCulprit(StrictModel):
    """The rank or service that the finding must blame."""

    rank: Actor
    """The rank that the finding has to blame, or the name of a service."""
    step: Index | None = None
    """The logical step, from 0. Left out: any."""


class ExpectAny(StrictModel):
    """A verdict, and what the primary finding must be where it is violated."""

    verdict: Literal["held", "proven", "vacuous", "violated"] = "held"
    klass: Annotated[ClassPattern | None, Field(alias="class")] = None
    """Of the primary finding, e.g. HANG:COLLECTIVE:MISSING_RANK or DISAGREEMENT:*. Left out: the variant's, or any."""
    culprit: ExpectedCulprit | None = None
    """The rank, and its step, that the primary finding has to blame. Left out: any."""

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
        """As what comes is judged by. `registered`: the class of the variant, for a violation without a class."""
        rank, step = (None, None) if self.culprit is None else (self.culprit.rank, self.culprit.step)
        klass = registered if self.klass is None and self.verdict == "violated" else self.klass
        return Expected(self.verdict, klass, rank, step)


ExploredVerdict: TypeAlias = Literal["held", "proven", "vacuous", "violated"]


class ExpectExplored(ExpectAny):
    """What must come of all schedules. A bare word is short for the verdict alone."""

    verdict: ExploredVerdict = "held"
    """held: no schedule that was tried breaks anything; proven: and none is left to try; vacuous: in none was anything
    coordinated. Left out: held, or violated if class or culprit are given.
    """


class Expect(ExpectAny):
    """What must come out. A planted fault that is found as expected is a success."""

    verdict: Literal["held", "vacuous", "violated"] = "held"
    """vacuous: no rank issues anything but decisions, sleeps and idle gets. Left out: held, or violated if class or
    culprit are given.
    """
    explored: Annotated[
        ExpectExplored | None,
        BeforeValidator(_verdict_alone, json_schema_input_type=ExpectExplored | ExploredVerdict | None),
    ] = None
    """What must come of all schedules, if it differs from one run. `explore` checks it; `run` checks the verdict above,
    which defaults to held. Left out: the same as for one run.
    """

    def of_small_worlds(self) -> Expect:
        """What must come of every small world like this one. It leaves out the culprit, whose step does not exist in
        small worlds, though its rank may.
        """
        explored = None if self.explored is None else self.explored.model_copy(update={"culprit": None})
        return self.model_copy(update={"culprit": None, "explored": explored})
