"""Explore: run schedule after schedule, and say what is known in the end, no more and no less.

    def once(strategy):                                   # one run under this strategy; what is wrong with it
        run = SimBackend(choose=strategy, memory=False).run_program(world, program, None)
        return [Problem(finding.klass, finding.headline) for finding in judge(world, run)]

    result = explore(once, Portfolio(), Budget(schedules=1000))
    result.verdict          # "proven", "bounded", "sampled" or "violated"

* **violated**: a schedule breaks something. It is kept, with its normal form.
* **proven**: every class of schedules of this world was seen, and nothing is wrong in any.
* **bounded**: every class was seen, but runs were cut off at a length: what comes later is not known.
* **sampled**: the budget ended first. How many schedules, how many classes among them, and how many of the last hundred
  schedules were new classes: where that is near zero, little is left to see.

A problem that many schedules show is one `Failure`: `what` of a problem says when two are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from dpsim.explore.normal import fingerprint, normal_form
from dpsim.explore.order import actor
from dpsim.explore.search import Search
from dpsim.schedule import CutOff, Strategy

Verdict: TypeAlias = Literal["proven", "bounded", "sampled", "violated"]


class Problem(NamedTuple):
    """Something wrong in a run. `what` is equal for the same problem in two runs. `past`: the steps that it depends
    on, as a mask of the strategy's bits; None for all.
    """

    klass: str
    what: str
    past: int | None = None


class Budget(NamedTuple):
    """When to stop: so many schedules, or when `expired` says so (a clock of the caller's). `stop_at_first`: or at the
    first failure.
    """

    schedules: int = 1_000
    stop_at_first: bool = True
    expired: Callable[[], bool] = lambda: False


@dataclass
class Failure:
    """A problem, the schedule that showed it first, and how often it was seen. `normal`: the labels of its causes, in
    normal form.
    """

    problem: Problem
    schedule: list[str]
    normal: list[str]
    first: int
    by: str
    seen: int = 1

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.problem.what, self.normal)


RacePair: TypeAlias = tuple[str, str]
"""Two labels without their ordinals, in the order in which they were seen."""


@dataclass
class Exploration:
    """What is known. `runs` counts all of them; `redundant` those that were cut off since their class had been seen,
    `cut` those that grew too long. `fresh`: for each whole run, whether its class was new. `races`: how often two
    sites raced in that order. `probes`: in how many runs each probe of the protocol was reached.
    """

    verdict: Verdict = "sampled"
    runs: int = 0
    redundant: int = 0
    cut: int = 0
    steps: int = 0
    classes: set[Hashable] = field(default_factory=set)
    fresh: list[bool] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    races: Counter[RacePair] = field(default_factory=Counter)
    probes: Counter[str] = field(default_factory=Counter)

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

    def told(self) -> str:
        """The verdict in a line."""
        redundant = f", {self.redundant} of them redundant" if self.redundant else ""
        counts = f"{self.runs} schedule{'s' * (self.runs != 1)} ({len(self.classes)} classes{redundant})"
        if self.verdict == "violated":
            return f"violated: {len(self.failures)} failure{'s' * (len(self.failures) != 1)} in {counts}"
        if self.verdict == "proven":
            return f"proven: holds in every schedule of this world; {counts}"
        if self.verdict == "bounded":
            return f"bounded: {self.cut} runs were cut off as too long, nothing is wrong up to there; {counts}"
        return (
            f"sampled: nothing found in {counts}; of the last {min(100, len(self.fresh))} schedules "
            f"{self.new_per_hundred:.0f} in a hundred were of a new class"
        )


def explore(
    once: Callable[[Strategy], Sequence[Problem]],
    search: Search,
    budget: Budget = Budget(),  # noqa: B008  # immutable
    progress: Callable[[Exploration], None] | None = None,
) -> Exploration:
    """Run `once` under the strategy until nothing is left to try or the budget ends.

    `once` makes one run and says what is wrong with it, the worst first. Raises what it raises, and Diverged or
    Mismatch for a run that is not a function of its schedule.
    """
    result = Exploration()
    while result.runs < budget.schedules and not budget.expired() and search.begin():
        current = search.current
        whole, problems = True, ()  # type: tuple[bool, Sequence[Problem]]
        try:
            problems = once(current)
        except CutOff:
            whole = False
        _count(result, current, whole)
        if problems:
            _fail(result, current, problems[0])
        search.end(whole)
        if progress is not None:
            progress(result)
        if problems and budget.stop_at_first:
            break
    if result.failures:
        result.verdict = "violated"
    elif search.exhausted:
        result.verdict = "proven"
    elif result.cut and result.runs < budget.schedules and not budget.expired():
        result.verdict = "bounded"
    return result


def _count(result: Exploration, search: Search, whole: bool) -> None:
    result.runs += 1
    result.steps += len(search.order.steps)
    result.redundant += search.redundant
    result.cut += search.too_long
    if whole:
        key = search.order.class_key()
        result.fresh.append(key not in result.classes)
        result.classes.add(key)
    for step in search.order.steps:
        for other in step.races:
            result.races[site(other.label), site(step.label)] += 1


def _fail(result: Exploration, search: Search, problem: Problem) -> None:
    known = result.failures.get(problem.what)
    if known is not None:
        known.seen += 1
        return
    steps = normal_form(search.order.steps, problem.past)
    labels = [step.label for step in steps]
    result.failures[problem.what] = Failure(problem, search.schedule, labels, result.runs, search.name)


def site(label: str) -> str:
    """A label without its ordinal: all visits of a place in the source count as one.

    >>> site("rank 3 engine.poll[2]"), site("dp #4")
    ('rank 3 engine.poll', 'dp')
    """
    return actor(label) if " #" in label else label.partition("[")[0]
