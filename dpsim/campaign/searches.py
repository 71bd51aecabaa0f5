"""Searches: runs a program under one schedule after another, chosen by a strategy, and collects what the runs show.

    found = search_subject(subject, search("dpor"), schedules=1000, stop_at_first=True)
    found.summary()             # "proven: holds in every schedule of this world; 9 schedules (9 classes)"

If a repeated run differs (`dpsim.campaign.repeats`), or if the search cannot repeat a schedule, this is a failure like
any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from dpsim.backend.journal.trouble import trouble
from dpsim.backend.journal.whereabouts import FEW, whereabouts
from dpsim.campaign.assumptions.facts import OUTSIDE, Fact, note
from dpsim.campaign.in_time import failure_in_time
from dpsim.campaign.learned import learned
from dpsim.campaign.pasts import note as note_pasts
from dpsim.campaign.polling import Polls
from dpsim.campaign.reached import Reached
from dpsim.campaign.repeats import Repeats, Unlike
from dpsim.campaign.subject import Subject, identity, planted, problem
from dpsim.checks import nondeterminism, unordered
from dpsim.checks.judge import switch_off
from dpsim.contract.rules.shared_state import SharedState, refuse_changes, state_of
from dpsim.contract.schedule import CutOff, OutOfTime, Strategy, Unrepeatable
from dpsim.contract.words import with_services
from dpsim.contract.world import Lost
from dpsim.diagnose.injected import never_applied
from dpsim.explore import Budget, Exploration, Failure, Outcomes, Picker, Planted, Problem, Search, explore
from dpsim.sim.backend import SimRun
from dpsim.sim.graph.environment import rare_collections
from dpsim.sim.hosts.sources import StandIns


@rare_collections()  # a collection after each run would scan all of its data
def search_subject(
    subject: Subject,
    chosen: Search,
    *,
    schedules: int,
    stop_at_first: bool,
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[Exploration], None] | None = None,
    in_time: bool = False,
) -> Exploration:
    """Searches without confirming failures. Calls `expired` within runs, too. `in_time`: first judges the timed run."""
    with StandIns():  # once for all runs
        runs = Runs(subject, expired)
        if in_time:
            runs.in_time()
        found = explore(runs.once, chosen, Budget(schedules, stop_at_first, expired), progress, runs.diverged)
        runs.conclude(found, chosen)
    return found


WATCHED = 30
"""The number of runs in which the search watches objects that host threads share, which takes several times as long."""


class Runs:
    """The runs of one search, and what they showed."""

    def __init__(self, subject: Subject, expired: Callable[[], bool]) -> None:
        self._subject = subject
        self._expired = expired
        self._before = state_of(subject.program, subject.prepared)
        self._repeats = Repeats(subject, self._tick)
        self._waiting = planted(subject.world)  # faults that have not happened, each with a separate world
        self._injected: dict[Planted, str] = {}
        self._reached = Reached()
        self._known: set[str] = set()
        self._number = self._idle = 0
        self._did: set[Fact] = set()
        self._pasts: dict[bytes, Sequence[str]] | None = {} if subject.runs_alone else None
        self._stood = self._lost = ""
        self._polls = Polls()
        self._in_time: Failure | None = None
        self._raced: tuple[SimRun, list[str]] | None = None
        self._outcomes = Outcomes() if subject.outcomes else None

    def in_time(self) -> None:
        """Judges the timed run of the scenario as it is written."""
        try:
            self._in_time = failure_in_time(self._subject, self._tick)
        except OutOfTime as error:
            self._stood = _stood(error)
        except (Lost, MemoryError, OSError) as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._lost = str(error) if isinstance(error, Lost) else trouble(error)
        if not self._lost:
            raise error

    def _tick(self, step: int) -> None:
        if self._expired():
            raise OutOfTime

    def once(self, strategy: Strategy) -> list[Problem]:
        """Makes one run, and returns its problems."""
        try:
            return self._once(strategy)
        except (Lost, MemoryError, OSError) as error:
            self._lose(error)
            raise OutOfTime from error

    def _once(self, strategy: Strategy) -> list[Problem]:
        self._number += 1
        self._repeats.before(self._number)
        assert isinstance(strategy, Picker)
        try:
            run, findings = self._subject.run(strategy, self._tick, self._number <= WATCHED)
        except CutOff as error:
            note(self._did, error.run)
            self._polls.note(error.run.journals)
            if not strategy.redundant:
                self._stood = _stood(error)
            raise
        self._note(run)
        if run.unordered and self._raced is None:
            self._raced = run, strategy.schedule
        if self._pasts is not None and not findings:
            note_pasts(self._pasts, run.journals, strategy.schedule)
        problems = [problem(findings[0], run)] if findings else []
        new = bool(problems) and problems[0].what not in self._known
        self._known.update(one.what for one in problems)
        unlike = self._repeats.after(run, strategy.schedule, new)
        return problems if unlike is None else [self._differs(unlike)]

    def _note(self, run: SimRun) -> None:
        note(self._did, run)
        self._polls.note(run.journals)
        self._idle += run.vacuous
        self._reached.note(self._subject.program, run.journals)
        if self._outcomes is not None:
            subject = self._subject
            calls = subject.program.unmodified(subject.prepared) is None
            self._outcomes.add(learned(run, run.order_of_sums, calls)[0])
            self._outcomes.rounded |= run.order_of_sums
        for one, alone in list(self._waiting.items()):
            why = never_applied(alone, run)
            if not why:
                self._injected[one] = ""
                del self._waiting[one]
            elif run.finished:  # a run that stopped early may not have reached it
                self._injected.setdefault(one, why[0])

    def _polls_in_words(self) -> str:
        world = self._subject.world
        return with_services(self._polls.text, world.size, world.services)

    def diverged(self, error: Unrepeatable, current: Picker) -> Problem:
        """Returns the problem of a schedule that the search cannot repeat."""
        return self._differs(self._repeats.diverged(error, current.schedule))

    def _differs(self, unlike: Unlike) -> Problem:
        """The run is its own evidence, because another one may not differ."""
        finding = unlike.finding
        try:
            refuse_changes(self._subject.program, self._subject.prepared, self._before)
        except SharedState as error:
            finding = nondeterminism.with_seen(finding, str(error))
        return Problem(finding.klass, identity(finding), evidence=(unlike.run, [finding]))

    def conclude(self, found: Exploration, chosen: Search) -> None:
        """Repeats the last run, and adds all facts to the result."""
        unlike = None
        try:
            with suppress(OutOfTime):
                unlike = None if self._lost else self._repeats.last()
        except Lost as error:
            self._lost = str(error)
        if unlike is not None and not found.failures:
            one = self._differs(unlike)
            found.failures[one.what] = Failure(one, unlike.schedule, unlike.schedule, found.runs, chosen.current.name)
            found.verdict = "violated"
        if self._raced is not None and not found.failures and not self._lost:
            run, schedule = self._raced
            findings, _ = switch_off(unordered.of(run.unordered), self._subject.switched_off)
            if findings:  # this run is the evidence, because only watched runs show it
                one = Problem(findings[0].klass, identity(findings[0]), evidence=(run, findings))
                found.failures[one.what] = Failure(one, schedule, schedule, 1, chosen.current.name)
                found.verdict = "violated"
        if not found.failures:
            refuse_changes(self._subject.program, self._subject.prepared, self._before)
        self._did.update((OUTSIDE, *touch) for touch in self._repeats.touched)
        found.idle, found.stood, found.did = self._idle, self._stood, self._did
        if found.vacuous:
            found.verdict = "vacuous"
        if self._lost:
            found.lost, found.verdict = self._lost, "lost"
        found.repeated = self._repeats.made
        found.in_time, found.polls = self._in_time, self._polls_in_words()
        found.probes, found.decided = self._reached.probes, self._reached.decided
        found.injected.update(self._injected)
        found.pasts = self._pasts or {}
        found.outcomes = self._outcomes


def _stood(error: CutOff) -> str:
    when = "when the time was up" if isinstance(error, OutOfTime) else f"after {error}, where it was cut off"
    runs_on = [str(error)] if isinstance(error, OutOfTime) and str(error) else []
    return "\n".join([f"a run stood here {when}:", *runs_on, whereabouts(error.run.journals, FEW, error.run.services)])
