"""Explored: the result of exploring one program: verdict, failures with the runs that show them, and assumptions.

    found = explore_subject(Subject.of(scenario))
    found.summary()             # "proven: holds in every schedule of this world; 9 schedules (9 classes); assumes: ..."
    found.unmet                 # why that is not as expected, or None

    if found.failure:           # the first schedule that breaks something, in normal form
        print(found.report())

The explorer reduces the failing schedule to a short normal form, and confirms it by one more run. If that run does not
fail, some op accesses more than its footprint declares. Then the report says so, and no verdict can be trusted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from dpsim.campaign.assumptions import Facts, assumed, unsaid
from dpsim.campaign.calls import with_calls_along
from dpsim.campaign.elsewhere import add_failure, look_elsewhere
from dpsim.campaign.how_far import HowFar
from dpsim.campaign.lone_ranks import Looked, looked_at, shared_in
from dpsim.campaign.searches import search_subject
from dpsim.campaign.subject import DELAY, Subject, identity
from dpsim.campaign.to_prove import Known, to_prove
from dpsim.campaign.unseen import Against
from dpsim.checks.classes import class_and_detail, row_of
from dpsim.checks.finding import Finding
from dpsim.contract.schedule import CutOff
from dpsim.contract.words import counted
from dpsim.contract.world import Lost, Run
from dpsim.diagnose.evidence import NOTHING, Extras
from dpsim.diagnose.injected import not_the_cause
from dpsim.diagnose.report import report
from dpsim.explore import Exploration, Failure, Search, search
from dpsim.explore.normal_form import folded, is_draw, many, switches
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.hosts.overtime import interrupted

_SHOWN_IN_TIME = (
    "The run of the world as written, with its times, shows it (`dpsim run`), and no schedule without time does. There "
    "no other time-out passes early (limits.early_timeouts lets some)"
)

_BY_DEFAULT = "no special order of events: the default one shows it"
"""A run that followed no schedule showed the failure. Its normal form may have steps: the causes of a hang are all."""

_NOT_CONFIRMED = """\
NOT CONFIRMED: a run along this schedule does not show it. Some op touches more than its footprint says, or the
run depends on more than the schedule (state that outlives a run, a clock). No verdict on this world can be trusted"""


@dataclass
class Shown:
    """A failure, and the run that shows it: along its normal form, or else, not `confirmed`, along the schedule that
    failed first. `run` is None if neither shows it. `by_default`: the default order shows it, too. `events`: what
    further runs found. `shared`: a rank acts differently alone, so real processes may not fail; only of the first
    failure.
    """

    failure: Failure
    run: Run | None
    findings: Sequence[Finding]
    schedule: Sequence[str]
    confirmed: bool
    by_default: bool = False
    events: Extras | None = None
    shared: str = ""

    def report(self, extras: Extras = NOTHING, full: bool = False) -> str:
        """Returns the report of the failure, with its schedule. `extras`: further facts from the caller."""
        extras = extras._replace(schedule=self._schedule(), shared=self.shared)
        if self.run is None:
            name = self.failure.problem.klass
            first = f"VIOLATED  {class_and_detail(name)[0]}  {row_of(name).words}".rstrip()
            lines = [first, *self._schedule(), *extras.next]
        else:
            lines = [report(self.run, self.findings, extras, full)]
        return "\n".join([*lines, *[_NOT_CONFIRMED] * (not self.confirmed)])

    def _schedule(self) -> tuple[str, ...]:
        failure, steps = self.failure, self.failure.normal
        if failure.in_time:
            return (_SHOWN_IN_TIME,)
        needed, all_of_it = (sum(not is_draw(word) for word in words) for words in (steps, self.schedule))
        part = f"{needed:,} of " * (needed < all_of_it)
        what = f"{part}{many(self.schedule)} with {counted(switches(steps), 'switch', 'switches')}"
        found = f"failure {failure.fingerprint}, found by {failure.by} in run {failure.first:,}"
        if self.by_default:
            what = _BY_DEFAULT
        return (", ".join([*[what] * bool(steps or self.by_default), found]), *folded(steps))


@dataclass(repr=False)
class Explored:
    """The result of an exploration. `shown`: its failures, in the order in which they were found. `looked`: of running
    ranks alone. `how_far`: its progress in units. `against`: runs on real processes (`dpsim.campaign.against`).
    """

    subject: Subject
    exploration: Exploration
    shown: Sequence[Shown] = ()
    looked: Looked = Looked()  # noqa: RUF009  # immutable
    how_far: HowFar | None = None
    against: Against | None = None

    def __repr__(self) -> str:
        """Returns one line, because it is a part of the message of a failed assertion."""
        more = to_prove(self.exploration)
        return "; ".join([f"<{self.subject.name}, {self.exploration.summary()}", *[more] * bool(more)]) + ">"

    @property
    def verdict(self) -> str:
        """That of the exploration, or "refuted" if a run on real processes shows what no schedule of a proof shows."""
        if self.against is not None and self.against.refutes is not None:
            return "refuted"
        return Known(self.exploration.verdict, to_prove(self.exploration))

    @property
    def failure(self) -> Failure | None:
        """The first failure, or None."""
        return self.shown[0].failure if self.shown else None

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings of the run that shows the first failure."""
        return self.shown[0].findings if self.shown else ()

    @property
    def confirmed(self) -> bool:
        """Whether every failure was confirmed."""
        return all(one.confirmed for one in self.shown)

    def never_applied(self, delays: bool = True) -> list[str]:
        """Returns why planted faults, and by default delays, happened in no schedule. Empty if no run finished."""
        return [why for (what, *_), why in self.exploration.injected.items() if why and (delays or what != DELAY)]

    @property
    def unmet(self) -> str | None:
        """Why the result is not as the scenario expects it; None if it is."""
        return self.unmet_where(self.never_applied())

    def unmet_where(self, never_applied: Sequence[str]) -> str | None:
        """Returns why the result is not as expected, with this list of planted faults that never happened."""
        expected, found = self.subject.expected, self.exploration
        if found.lost:
            return f"lost: {found.lost.splitlines()[0]}"
        if expected.verdict == "violated" and self.failure is not None and not self.confirmed:
            return "the failure could not be confirmed"
        primary = self.findings[0] if self.findings else None
        shown = self.shown[0].run if self.shown else None
        if shown is not None:
            never_applied = not_the_cause(expected, self.subject.world, shown) or never_applied
        unjudged = found.without_end() if found.fresh else "no schedule was judged"
        if self.against is not None and (refuted := self.against.unmet()):
            return refuted
        unmet = expected.unmet(self.verdict, primary, never_applied)
        return unmet or (self.failure is None and unjudged) or None

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the verdict assumes about hardware. A violation assumes nothing, so it is empty then."""
        return assumed(self.facts) if self._says else ()

    @property
    def beside(self) -> tuple[str, ...]:
        """The effects of hardware behind the words "no other effect of hardware"."""
        return unsaid(self.facts) if self._says else ()

    @property
    def _says(self) -> bool:
        return bool(self.exploration.fresh) and self.verdict not in ("violated", "vacuous", "lost")

    @property
    def facts(self) -> Facts:
        """The facts about the exploration that decide its assumptions."""
        subject, did = self.subject, self.exploration.did
        return Facts.of(subject.world, subject.program, subject.prepared, did)._replace(not_alone=self.not_alone)

    @property
    def not_alone(self) -> str:
        """For how many pasts ranks ran alone, or why for none; empty if for all."""
        looked = self.looked
        if looked.why:
            return f"not checked, because {looked.why}"
        return looked.few if self.subject.alone else ""

    def summary(self) -> str:
        """Returns the verdict in a line, with counts and assumptions."""
        return "; assumes: ".join([self.exploration.summary(), *["; ".join(self.assumes)] * bool(self.assumes)])

    def report(self, extras: Extras = NOTHING, full: bool = False) -> str:
        """Returns the report of the first failure; empty if there is none."""
        return self.shown[0].report(extras, full) if self.shown else ""


def concluded(subject: Subject, found: Exploration, seconds: float) -> Explored:
    """Returns the result, with a run for each failure. `seconds`: the time that exploring took. If only the timed run
    shows a failure, it is the evidence. If the machine lacks memory for a run, the result is lost.
    """
    if found.in_time is not None and not found.failures:
        found.failures[found.in_time.problem.what] = found.in_time
        found.verdict = "lost" if found.lost else "violated"
    looked = _look(subject, found, seconds)
    look_elsewhere(subject, found)
    shown = [_shown(subject, found, failure) for failure in found.failures.values()]
    for one in shown[:1]:
        if one.run is not None and one.failure.problem.evidence is None:
            one.shared = shared_in(subject, one.run, one.schedule, seconds)
    return Explored(subject, found, shown, looked)


def _look(subject: Subject, found: Exploration, seconds: float) -> Looked:
    if found.failures or found.lost or not found.fresh:
        return Looked()
    looked = looked_at(subject, found.pasts, seconds)
    if looked.finding is not None:
        add_failure(found, looked.finding, looked.run, "running each rank alone")
    return looked


def _shown(subject: Subject, found: Exploration, failure: Failure) -> Shown:
    try:
        return show(subject, failure)
    except Lost as error:
        found.lost, found.verdict = found.lost or str(error), "lost"
        return Shown(failure, None, (), failure.schedule, True)


def show(subject: Subject, failure: Failure) -> Shown:
    """Returns a failure with the run that shows it, which is its evidence or runs along one of its schedules."""
    if failure.problem.evidence is not None:
        run, findings = failure.problem.evidence
        return Shown(failure, run, findings, failure.schedule, True)
    for schedule, confirmed in ((failure.normal, True), (failure.schedule, False)):
        along = _along(subject, failure, schedule)
        if along is not None:
            run, findings, chosen = along
            with_calls_along(subject, run, findings, chosen)
            by_default = confirmed and (not schedule or _along(subject, failure, ()) is not None)
            return Shown(failure, run, findings, chosen, confirmed, by_default)
    return Shown(failure, None, (), failure.schedule, False)


def _along(
    subject: Subject, failure: Failure, schedule: Sequence[str]
) -> tuple[Run, Sequence[Finding], list[str]] | None:
    """Returns a run along a schedule, and in the default order where it ends, if the run shows the failure."""
    follow = ScheduleReplay(schedule, strict=False, longest=subject.longest)
    follow.begin()
    try:
        run, findings = subject.run(follow)
    except CutOff:  # an actor outside the normal form polls without end if it comes last
        return None
    shows = findings and identity(findings[0]) == failure.problem.what
    return (run, findings, follow.schedule) if shows else None


def explore_subject(
    subject: Subject,
    strategy: str | Search = "portfolio",
    *,
    schedules: int = 1_000,
    seconds: float | None = None,
    stop_at_first: bool = True,
) -> Explored:
    """Explores until all schedules are known, or a limit is reached. Raises ValueError for an unknown strategy."""
    chosen = search(strategy, longest=subject.longest) if isinstance(strategy, str) else strategy
    start = time.monotonic()
    end = None if seconds is None else start + seconds

    def expired() -> bool:
        return end is not None and time.monotonic() > end

    with nullcontext() if end is None else interrupted(expired):
        found = search_subject(
            subject,
            chosen,
            schedules=schedules,
            stop_at_first=stop_at_first,
            expired=expired,
            in_time=True,
        )
    return concluded(subject, found, time.monotonic() - start)
