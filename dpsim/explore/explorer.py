"""Explore: run schedule after schedule, and say what is known in the end, no more and no less.

    def once(strategy):                                   # one run under this strategy; what is wrong with it
        run = SimBackend(choose=strategy, memory=False).run_program(world, program, None)
        return [Problem(finding.klass, finding.headline) for finding in judge(world, run)]

    result = explore(once, Portfolio(), Budget(schedules=1000))
    result.verdict          # "proven", "bounded", "sampled", "vacuous", "violated" or "lost"

* **violated**: a schedule breaks something. It is kept, with its normal form.
* **proven**: every class of schedules of this world was seen, and nothing is wrong in any.
* **bounded**: every class was seen, but runs were cut off after a number of steps: what comes later is not known.
* **vacuous**: nothing is wrong, but no rank issued anything but decisions, sleeps and idle gets.
* **lost**: the machine took away what a run needs. What was found before is kept, and nothing is known of the rest.
* **sampled**: the budget ended first. The result says how many schedules and classes were seen, and how many of the
  last hundred schedules were new classes. If that is near zero, little is left to see.

A problem that many schedules show is one `Failure`: `what` of a problem says when two are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from dpsim.contract.schedule import CutOff, Outgrown, OutOfTime, Strategy, Unrepeatable, site
from dpsim.contract.words import counted
from dpsim.explore.normal_form import fingerprint, normal_form
from dpsim.explore.strategies.base import Picker, Search

Verdict: TypeAlias = Literal["proven", "bounded", "sampled", "vacuous", "violated", "lost"]


class Problem(NamedTuple):
    """Something wrong in a run. `what` is equal for the same problem in two runs. `causes`: the steps that it depends
    on, as a mask of the strategy's bits; None for all. `evidence`: what the judge of the run wants to keep with it, if
    another run along this schedule would not show it.
    """

    klass: str
    what: str
    causes: int | None = None
    evidence: Any = None


class Budget(NamedTuple):
    """When to stop: after `schedules` schedules, or when `expired` says so (a clock of the caller's). `stop_at_first`:
    also at the first failure.
    """

    schedules: int = 1_000
    stop_at_first: bool = True
    expired: Callable[[], bool] = lambda: False


@dataclass
class Failure:
    """A problem, a schedule that shows it, the strategy that found it `first` and in which run, and how often it was
    seen. `normal`: the draws that did not take the first option, then the labels of its causes in normal form. Of all
    schedules that were seen to show it, that of the least normal form is kept, so it does not matter which came first.
    `in_time`: the run in time shows it, and no schedule.
    """

    problem: Problem
    schedule: list[str]
    normal: list[str]
    first: int
    by: str
    seen: int = 1
    in_time: bool = False

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.problem.what, self.normal)

    def add(self, other: Failure) -> None:
        """The same problem, seen elsewhere."""
        if (len(other.normal), other.normal) < (len(self.normal), self.normal):
            self.problem, self.schedule, self.normal = other.problem, other.schedule, other.normal
        self.first, self.by = min((self.first, self.by), (other.first, other.by))
        self.seen += other.seen


RacePair: TypeAlias = tuple[str, str]
"""Two labels without their ordinals, in the order in which they were seen."""


Planted: TypeAlias = tuple[str, int, str]
"""A fault or a delay of a world: what it is, of which rank, and where."""


@dataclass
class Exploration:
    """What is known. `runs` counts all runs. `redundant`: those that were cut off since their class had been seen.
    `cut`: those that grew too long, and were cut off after one of these `bounds`. `repeated`: how many were made again,
    to see whether they are functions of their schedules. `fresh`: for each whole run, whether its class was new.
    `races`: how often two sites raced in that order. `probes`: in how many runs each probe of the protocol was reached.
    `outgrown`: the last run took so much that no other was begun. `within`: the bounds, in words, of which every
    schedule was tried. `unfinished`: wider bounds, of which only a part was tried.

    The caller that makes the runs fills in the rest. `injected`: for what is planted in the world, why a run that
    finished went without it; empty once it happened in any run. `idle`: runs in which nothing was issued
    (`Run.vacuous`). `stood`: where the ranks stood in the last run that was cut off, or that ran out of time. `polls`:
    a loop that polls, and what to do instead. `did`: facts of what the runs did (`dpsim.campaign.assumptions.facts`).
    `decided`: in how many runs a rank decided each mode and each row of a table of the program. `in_time`: what is
    wrong with the run in time. `lost`: what the machine took away, so that there is no verdict; earlier failures are
    still here.
    """

    verdict: Verdict = "sampled"
    runs: int = 0
    redundant: int = 0
    cut: int = 0
    repeated: int = 0
    steps: int = 0
    longest: int = 0
    classes: set[Hashable] = field(default_factory=set)
    fresh: list[bool] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    races: Counter[RacePair] = field(default_factory=Counter)
    probes: Counter[str] = field(default_factory=Counter)
    injected: dict[Planted, str] = field(default_factory=dict)
    idle: int = 0
    stood: str = ""
    polls: str = ""
    did: set[tuple[Any, ...]] = field(default_factory=set)
    decided: Counter[str] = field(default_factory=Counter)
    bounds: dict[str, None] = field(default_factory=dict)
    outgrown: bool = False
    in_time: Failure | None = None
    lost: str = ""
    within: str = ""
    unfinished: str = ""

    @property
    def vacuous(self) -> bool:
        """Whether there was nothing in any run that could have failed to hold."""
        return 0 < self.idle == len(self.fresh) and not self.failures

    @property
    def new_per_hundred(self) -> float:
        """New classes among the last hundred schedules, or per hundred of fewer."""
        last = self.fresh[-100:]
        return 100 * sum(last) / len(last) if last else 0.0

    @property
    def both_orders(self) -> tuple[int, int]:
        """Pairs of racing sites that were seen in both orders, and all that were seen."""
        pairs = {tuple(sorted(pair)) for pair in self.races}
        return sum((one, other) in self.races and (other, one) in self.races for one, other in pairs), len(pairs)

    def claim(self) -> str:
        """What is known, in words that go behind the verdict."""
        if self.verdict == "lost":
            return self.lost
        if self.verdict == "violated":
            return counted(len(self.failures), "failure")
        if self.verdict == "vacuous":
            return "no rank issued anything but decisions, sleeps and idle gets: there was nothing to coordinate"
        if self.verdict == "proven":
            return "holds in every schedule of this world"
        cut = f"{self.cut:,} of {self.runs:,} were cut off after {' or '.join(self.bounds)} and not judged"
        if not self.fresh:
            return "no schedule was judged" + (f": {cut}" if self.cut else "")
        if self.verdict == "bounded" and self.within:
            wider = f"; those with {self.unfinished} were not finished" if self.unfinished else ""
            return f"holds in every schedule with {self.within}{wider}" + (f"; {cut}" if self.cut else "")
        if self.verdict == "bounded":
            return f"holds in every schedule that ends; {cut}"
        last = self.fresh[-100:]
        new = f"{sum(last)} of the last {len(last)} were of a new class" if len(last) > 1 else "there may be others"
        wider = f"; those with {self.unfinished} were not finished" if self.unfinished else ""
        return f"holds in {counted(len(self.fresh), 'schedule')}; {new}{wider}" + (f"; {cut}" if self.cut else "")

    def summary(self) -> str:
        """The verdict in a line, with counts."""
        redundant = f", {self.redundant:,} of them redundant" if self.redundant else ""
        counts = f"{counted(self.runs, 'schedule')} ({counted(len(self.classes), 'class', 'classes')}{redundant})"
        return f"{self.verdict}: {self.claim()}; {counts}"


def explore(
    once: Callable[[Strategy], Sequence[Problem]],
    search: Search,
    budget: Budget = Budget(),  # noqa: B008  # immutable
    progress: Callable[[Exploration], None] | None = None,
    diverged: Callable[[Unrepeatable, Picker], Problem] | None = None,
) -> Exploration:
    """Run `once` under the strategy until nothing is left to try or the budget ends.

    `once` makes one run and says what is wrong with it, the worst first. Raises what it raises; OutOfTime within a run
    ends the budget, and the run does not count. Raises Unrepeatable for a run that is not a function of its schedule,
    unless `diverged` makes a problem of it. Then that is the last run, since all others depend on it.
    """
    result = Exploration(longest=search.longest)
    proved = set[Hashable]()
    while result.runs < budget.schedules and not budget.expired() and search.begin():
        current = search.current
        whole, over, problems = True, False, ()  # type: tuple[bool, bool, Sequence[Problem]]
        try:
            problems = once(current)
        except OutOfTime:
            break
        except CutOff as error:
            whole = False
            if not current.redundant:
                current.too_long = True
                result.bounds[str(error)] = None
                result.outgrown = isinstance(error, Outgrown)
        except Unrepeatable as error:
            if diverged is None:
                raise
            over, problems = True, [diverged(error, current)]
        key = _count(result, current, whole)
        if key is not None and current.proves:
            proved.add(key)
        current.failed = bool(problems)
        try:
            if not over:
                search.end(whole)
        except Unrepeatable as error:
            if diverged is None:
                raise
            over, problems = True, [diverged(error, current)]
        if problems:
            _fail(result, current, problems[0])
        if progress is not None:
            progress(result)
        if over or result.outgrown or (problems and budget.stop_at_first):
            break
    if result.failures:
        result.verdict = "violated"
    elif search.exhausted:
        result.verdict, result.classes = "proven", proved
    elif search.bounded:
        result.verdict = "bounded"
    return result


def _count(result: Exploration, current: Picker, whole: bool) -> Hashable:
    """Count a run. The answer is its class, None for one that was cut off."""
    key = None
    result.runs += 1
    result.steps += len(current.order.steps)
    result.redundant += current.redundant
    result.cut += current.too_long
    if whole:
        key = current.order.class_key()
        result.fresh.append(key not in result.classes)
        result.classes.add(key)
    for step in current.order.steps:
        for other in step.races:
            result.races[site(other.label), site(step.label)] += 1
    return key


def failure_of(current: Picker, problem: Problem, first: int = 1) -> Failure:
    """The failure of a run that a strategy chose. A replay of its schedule has the same fingerprint."""
    steps = normal_form(current.order.steps, problem.causes)
    labels = [*sorted(current.order.unusual), *(step.label for step in steps)]
    return Failure(problem, current.schedule, labels, first, current.name)


def _fail(result: Exploration, current: Picker, problem: Problem) -> None:
    failure = failure_of(current, problem, result.runs)
    known = result.failures.setdefault(problem.what, failure)
    if known is not failure:
        known.add(failure)
