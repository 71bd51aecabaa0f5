"""The loop of an exploration: runs one schedule after the other, and states in the end what is known of all of them.

    def once(strategy):                                   # makes one run under this strategy, and returns its problems
        run = SimBackend(choose=strategy, memory=False).run_program(world, program, None)
        return [Problem(finding.klass, finding.headline) for finding in judge(world, run)]

    result = explore(once, Portfolio(), Budget(schedules=1000))
    result.verdict          # "proven", "bounded", "sampled", "vacuous", "violated" or "lost"

Two schedules are of one *class* if they differ only in the order of steps that do not affect each other.

* **violated**: a schedule breaks something. The result has it, with its normal form.
* **proven**: the search has seen every class of schedules of this world, and nothing is wrong in any.
* **bounded**: the search has seen every class, but it cut off runs that were too long.
* **vacuous**: nothing is wrong, but no rank issued anything but decisions, sleeps and idle gets.
* **lost**: the machine took away what a run needs. Earlier failures count, and nothing is known of the rest.
* **sampled**: the budget ended first. The result says how many of the last hundred schedules were new classes.

If many schedules show one problem, the result has one `Failure`. Two problems are the same if their `what` is equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from dpsim.contract.events import site
from dpsim.contract.schedule import CutOff, Outgrown, OutOfTime, Strategy, Unrepeatable
from dpsim.contract.words import counted
from dpsim.explore.normal_form import fingerprint, normal_form
from dpsim.explore.outcomes import Outcomes
from dpsim.explore.strategies.base import Picker, Search

Verdict: TypeAlias = Literal["proven", "bounded", "sampled", "vacuous", "violated", "lost"]


class Problem(NamedTuple):
    """Something that is wrong in a run, by the finding's class. `what`: a text that is equal for the same problem in
    two runs, and may begin with the class without its detail. `causes`: the steps on which it depends, as a mask of
    bits of labels; None for all. `evidence`: data of the judge, because another run along this schedule may not show
    the problem.
    """

    klass: str
    what: str
    causes: int | None = None
    evidence: Any = None


class Budget(NamedTuple):
    """The end of an exploration: after `schedules`, when `expired()`, or `stop_at_first` failure."""

    schedules: int = 1_000
    stop_at_first: bool = True
    expired: Callable[[], bool] = lambda: False


@dataclass
class Failure:
    """A problem with a schedule that shows it. `first`, `by`: the number of the run and the strategy that found it
    first. `seen`: the number of runs that showed it. `normal`: the draws that did not take their first option, and then
    the labels of its causes in normal form. Of all schedules that showed it, the one with the least normal form stays.
    So the order of runs does not matter, and `fingerprint` covers the detail. `in_time`: only the timed run shows it.
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
        klass, (begins, *rest) = self.problem.klass, self.problem.what.split(" ")
        return fingerprint(" ".join([klass if klass.startswith(f"{begins}:") else begins, *rest]), self.normal)

    def add(self, other: Failure) -> None:
        """Adds another occurrence of the same problem."""
        if (len(other.normal), other.normal) < (len(self.normal), self.normal):
            self.problem, self.schedule, self.normal = other.problem, other.schedule, other.normal
        self.first, self.by = min((self.first, self.by), (other.first, other.by))
        self.seen += other.seen


RacePair: TypeAlias = tuple[str, str]
"""The labels of two racing steps without their ordinals, in the order of the run."""


Planted: TypeAlias = tuple[str, int, str]
"""A planted fault or delay: what it is, its rank, and its address."""


@dataclass
class Exploration:
    """The result of an exploration.

    `runs`: all runs. `redundant`: runs that the search cut off because it had seen their class. `cut`: runs that it cut
    off because they were too long, by one of these `bounds`. `unended`: those of them whose schedule kept no event
    waiting, so the program may have no end. `repeated`: runs that were made a second time, to see
    whether they depend on their schedule alone. `fresh`: for each whole run, whether its class was new. `races`: for
    each pair of sites in this order, the number of races. `probes`: for each probe of the program, the number of runs
    that reached it. `outgrown`: the last run took too much memory, so the search ended. `within`: the bounds, in words,
    within which the search tried every schedule. `unfinished`: wider bounds, within which it tried only some.

    The caller that makes the runs fills in the rest. `injected`: for each planted fault, why a finished run went
    without it; empty if it happened in some run. `idle`: runs that issued nothing (`Run.vacuous`). `stood`: where the
    ranks stood in the last run that was cut off. `polls`: a loop that polls, and what to write instead. `did`: facts
    about the runs (`dpsim.campaign.assumptions.facts`). `decided`: for each mode and each row of a table, the number of
    runs in which a rank decided it. `pasts`: a digest of each past of a rank, and a schedule that has it
    (`dpsim.campaign.pasts`). `in_time`: the problem of the timed run (`dpsim.campaign.in_time`). `lost`: what
    the machine took away; then there is no verdict, but earlier failures are here. `outcomes`: what ranks learned in
    whole runs; None unless the caller asks.
    """

    verdict: Verdict = "sampled"
    runs: int = 0
    redundant: int = 0
    cut: int = 0
    unended: int = 0
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
    pasts: dict[bytes, Sequence[str]] = field(default_factory=dict)
    bounds: dict[str, None] = field(default_factory=dict)
    outgrown: bool = False
    in_time: Failure | None = None
    lost: str = ""
    outcomes: Outcomes | None = None
    within: str = ""
    unfinished: str = ""

    @property
    def vacuous(self) -> bool:
        """Whether no run issued anything that could have failed."""
        return 0 < self.idle == len(self.fresh) and not self.failures

    @property
    def new_per_hundred(self) -> float:
        """The new classes among the last hundred schedules, or per hundred if there were fewer."""
        last = self.fresh[-100:]
        return 100 * sum(last) / len(last) if last else 0.0

    @property
    def both_orders(self) -> tuple[int, int]:
        """The number of pairs of racing sites that runs showed in both orders, and the number of all pairs."""
        pairs = {tuple(sorted(pair)) for pair in self.races}
        return sum((one, other) in self.races and (other, one) in self.races for one, other in pairs), len(pairs)

    def probed(self) -> list[str]:
        """The probes that some run reached, in alphabetical order, also those that the program does not declare."""
        return sorted({*+self.probes, *(fact[1] for fact in self.did if fact[0] == "probe")})

    def claim(self) -> str:
        """The text behind the verdict: what is known."""
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

    def without_end(self) -> str:
        """Which schedules did not end although they kept no event waiting, in words; empty if there are none.

        >>> Exploration(runs=14, cut=13, unended=12, bounds={"10,000 choices": None}).without_end()
        '12 of 14 schedules did not end within 10,000 choices, and kept no event waiting'
        """
        some = f"{self.unended:,} of {counted(self.runs, 'schedule')}"
        within = " or ".join(self.bounds)
        return f"{some} did not end within {within}, and kept no event waiting" if self.unended else ""

    def summary(self) -> str:
        """The verdict in one line, with counts."""
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
    """Runs `once` until the search has no schedule left or the budget ends, and returns the result. `once` makes a run
    and returns its problems, the worst first. If it raises OutOfTime, the budget ends, and this run does not count. A
    run that does not depend on its schedule alone ends the search, because all further schedules depend on it. Then
    `diverged` makes a problem of it, or Unrepeatable is raised.
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
                result.unended += error.fair
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
