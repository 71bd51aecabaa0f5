"""A world explored whole: its verdict, each failure with the run that shows it, and is it as the scenario expects?

    found = explore_subject(Subject.of(scenario))
    found.summary()             # "proven: holds in every schedule of this world; 9 schedules (9 classes); assumes: ..."
    found.unmet                 # why that is not as expected, or None

    if found.failure:           # the first schedule that breaks something, in normal form
        print(found.report())

A failure is *confirmed* by one more run along its normal form. If that run does not show it, the footprint of some op
is wrong: the op touches more than it says. The report then names that, and nothing is as expected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from dpsim.campaign.assumptions import Facts, assumed, unsaid
from dpsim.campaign.calls import with_calls_along
from dpsim.campaign.how_far import HowFar
from dpsim.campaign.lone_ranks import Looked, looked_at
from dpsim.campaign.searches import search_subject
from dpsim.campaign.subject import DELAY, Subject, identity
from dpsim.checks.finding import Finding
from dpsim.contract.schedule import CutOff
from dpsim.contract.words import counted
from dpsim.contract.world import Lost, Run
from dpsim.diagnose.evidence import NOTHING, Extras
from dpsim.diagnose.report import report
from dpsim.explore import Exploration, Failure, Problem, Search, search
from dpsim.explore.normal_form import folded, switches
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.hosts.overtime import interrupted

_SHOWN_IN_TIME = (
    "The run of the world as written, with its times, shows it (`dpsim run`), and no schedule without time does. There "
    "no other time-out passes early (limits.early_timeouts lets some)"
)

_NOT_CONFIRMED = """\
NOT CONFIRMED: a run along this schedule does not show it. Some op touches more than its footprint
says, or the run depends on more than the schedule (state that outlives a run, a clock). No verdict
on this world can be trusted"""


@dataclass
class Shown:
    """A failure, and the run that shows it. The run follows its normal form. If that does not show it, the run follows
    the schedule that showed it first, and is not `confirmed`. It is None if neither does. `schedule`: that run's, word
    by word.
    """

    failure: Failure
    run: Run | None
    findings: Sequence[Finding]
    schedule: Sequence[str]
    confirmed: bool

    def report(self, extras: Extras = NOTHING, full: bool = False) -> str:
        """What does not hold and the schedule that shows it. `extras`: what else the caller knows."""
        extras = extras._replace(schedule=self._schedule())
        if self.run is None:
            lines = [f"VIOLATED  {self.failure.problem.klass}", *self._schedule(), *extras.next]
        else:
            lines = [report(self.run, self.findings, extras, full)]
        return "\n".join([*lines, *[_NOT_CONFIRMED] * (not self.confirmed)])

    def _schedule(self) -> tuple[str, ...]:
        failure, steps = self.failure, self.failure.normal
        if failure.in_time:
            return (_SHOWN_IN_TIME,)
        what = f"{counted(len(steps), 'step')} with {counted(switches(steps), 'switch', 'switches')}"
        found = f"failure {failure.fingerprint}, found by {failure.by} in run {failure.first:,}"
        return (f"{what if steps else 'no choice has to do with it'}, {found}", *folded(steps))


class Known(str):
    """A verdict as a word. `hint`: what to do so that a proof is possible; the plugin of pytest shows it."""

    hint: str

    def __new__(cls, word: str, hint: str) -> Known:
        known = super().__new__(cls, word)
        known.hint = hint
        return known


@dataclass(repr=False)
class Explored:
    """What is known of a subject. `shown`: its failures, in the order in which they were found. `looked`: what came of
    running its ranks alone. `standing`: how far the exploration of it went, in units.
    """

    subject: Subject
    exploration: Exploration
    shown: Sequence[Shown] = ()
    looked: Looked = Looked()  # noqa: RUF009  # immutable
    standing: HowFar | None = None

    def __repr__(self) -> str:
        """One line: it stands in the message of an assertion that failed."""
        return (
            "; ".join(
                [f"<{self.subject.name}, {self.exploration.summary()}", *[self.to_prove()] * bool(self.to_prove())]
            )
            + ">"
        )

    def to_prove(self) -> str:
        """What to do so that a proof is possible, where the number of schedules ended the search; else empty."""
        found = self.exploration
        if found.verdict != "sampled":
            return ""
        polls = f"; {found.polls}" if found.polls else ""
        runs = f"not proven after {counted(found.runs, 'schedule')}"
        return f'{runs}: raise `schedules`, take strategy="dpor", or bound the parameters{polls}'

    @property
    def verdict(self) -> str:
        return Known(self.exploration.verdict, self.to_prove())

    @property
    def failure(self) -> Failure | None:
        """The first."""
        return self.shown[0].failure if self.shown else None

    @property
    def findings(self) -> Sequence[Finding]:
        """Those of the run that shows the first failure."""
        return self.shown[0].findings if self.shown else ()

    @property
    def confirmed(self) -> bool:
        """Whether every failure was."""
        return all(one.confirmed for one in self.shown)

    def never_applied(self, delays: bool = True) -> list[str]:
        """Why what is planted in the world happened in no schedule: faults, and by default delays. If no run of the
        world finished, this is empty.
        """
        return [why for (what, *_), why in self.exploration.injected.items() if why and (delays or what != DELAY)]

    @property
    def unmet(self) -> str | None:
        """Why what came is not as the scenario expects it; None if it is."""
        return self.unmet_where(self.never_applied())

    def unmet_where(self, never_applied: Sequence[str]) -> str | None:
        """The same, where only this counts of what was planted and never happened."""
        expected, found = self.subject.expected, self.exploration
        if found.lost:
            return f"lost: {found.lost.splitlines()[0]}"
        if expected.verdict == "violated" and self.failure is not None and not self.confirmed:
            return "the failure could not be confirmed"
        primary = self.findings[0] if self.findings else None
        nothing = None if found.fresh or self.failure is not None else "no schedule was judged"
        return expected.unmet(self.verdict, primary, never_applied) or nothing

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the verdict takes for granted. A violation shows, whatever else hardware may do. If the runs did
        nothing, or no schedule was judged, this is empty.
        """
        return assumed(self.facts) if self._says else ()

    @property
    def beside(self) -> tuple[str, ...]:
        """What hardware may do that no run did: the rows behind the words "no other effect of hardware"."""
        return unsaid(self.facts) if self._says else ()

    @property
    def _says(self) -> bool:
        return bool(self.exploration.fresh) and self.verdict not in ("violated", "vacuous", "lost")

    @property
    def facts(self) -> Facts:
        """What the verdict rests on."""
        subject, did = self.subject, self.exploration.did
        return Facts.of(subject.world, subject.program, subject.prepared, did)._replace(not_alone=self.not_alone)

    @property
    def not_alone(self) -> str:
        """In how many schedules of one world ranks ran alone, or why in none; empty if in all."""
        looked, known = self.looked, len(self.exploration.classes)
        if looked.why:
            return f"not looked for, because {looked.why}"
        few = self.subject.alone and 0 < looked.runs < known
        return f"looked for in {looked.runs} of {counted(known, 'schedule')}" if few else ""

    def summary(self) -> str:
        """The verdict in a line, with counts and with what it assumes."""
        return "; assumes: ".join([self.exploration.summary(), *["; ".join(self.assumes)] * bool(self.assumes)])

    def report(self, extras: Extras = NOTHING, full: bool = False) -> str:
        """The first failure: what does not hold, and the schedule that shows it. Empty if there is none."""
        return self.shown[0].report(extras, full) if self.shown else ""


def concluded(subject: Subject, found: Exploration, seconds: float) -> Explored:
    """What is known in the end, each failure shown. Where the machine has no room for that run, no verdict is left.
    Where no schedule shows a failure, and the run in time does, that run is the evidence. `seconds`: what exploring
    took.
    """
    if found.in_time is not None and not found.failures:
        found.failures[found.in_time.problem.what] = found.in_time
        found.verdict = "lost" if found.lost else "violated"
    shown = []
    looked = _look(subject, found, seconds)
    for failure in found.failures.values():
        try:
            shown.append(show(subject, failure))
        except Lost as error:
            found.lost, found.verdict = found.lost or str(error), "lost"
            shown.append(Shown(failure, None, (), failure.schedule, True))
    return Explored(subject, found, shown, looked)


def _look(subject: Subject, found: Exploration, seconds: float) -> Looked:
    """Whether ranks share something in Python, where nothing else is wrong; what shows it is a failure."""
    if found.failures or found.lost or not found.fresh or found.vacuous:
        return Looked()
    looked = looked_at(subject, seconds, len(found.classes))
    if looked.finding is not None:
        what = identity(looked.finding)
        one = Problem(looked.finding.klass, what, evidence=(looked.run, [looked.finding]))
        found.failures[what] = Failure(one, [], [], found.runs, "running each rank alone")
        found.verdict = "violated"
    return looked


def show(subject: Subject, failure: Failure) -> Shown:
    """Run a failure's normal form; where it does not show the failure, the schedule that did. A failure with evidence
    is not run again.
    """
    if failure.problem.evidence is not None:
        run, findings = failure.problem.evidence
        return Shown(failure, run, findings, failure.schedule, True)
    for schedule, confirmed in ((failure.normal, True), (failure.schedule, False)):
        follow = ScheduleReplay(schedule, strict=False, longest=subject.longest)
        follow.begin()
        try:
            run, findings = subject.run(follow)
        except CutOff:  # an actor that the normal form leaves out polls without end where it comes last
            continue
        if findings and identity(findings[0]) == failure.problem.what:
            with_calls_along(subject, run, findings, follow.schedule)
            return Shown(failure, run, findings, follow.schedule, confirmed)
    return Shown(failure, None, (), failure.schedule, False)


def explore_subject(
    subject: Subject,
    strategy: str | Search = "portfolio",
    *,
    schedules: int = 1_000,
    seconds: float | None = None,
    seed: int = 0,
    stop_at_first: bool = True,
    progress: Callable[[Exploration], None] | None = None,
) -> Explored:
    """Explore until everything is known, or the given number of schedules was run, or the given seconds have passed.

    Raises ValueError for an unknown strategy.
    """
    chosen = search(strategy, seed, subject.longest) if isinstance(strategy, str) else strategy
    begun = time.monotonic()
    end = None if seconds is None else begun + seconds

    def expired() -> bool:
        return end is not None and time.monotonic() > end

    with nullcontext() if end is None else interrupted(expired):
        found = search_subject(
            subject,
            chosen,
            schedules=schedules,
            stop_at_first=stop_at_first,
            expired=expired,
            progress=progress,
            in_time=True,
        )
    return concluded(subject, found, time.monotonic() - begun)
