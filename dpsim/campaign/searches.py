"""The search of a subject: run after run under a strategy, and what is noted of them.

    found = search_subject(subject, search("dpor"), schedules=1000, stop_at_first=True)
    found.summary()             # "proven: holds in every schedule of this world; 9 schedules (9 classes)"

Beside its failures these are the probes that were reached, and what is planted in the world and did not happen in a run
that came to its end (`Exploration.injected`). Some runs are made again (`dpsim.campaign.repeats`); one that comes out
differently is a failure like any other, and so is a schedule that the search cannot repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from dpsim.backend.journal.trouble import trouble
from dpsim.backend.journal.whereabouts import FEW, whereabouts
from dpsim.campaign.repeats import Repeats, Unlike
from dpsim.campaign.subject import Subject, identity, planted, problem
from dpsim.checks import nondeterminism
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.rules.shared_state import SharedState, refuse_changes, state_of
from dpsim.contract.schedule import CutOff, OutOfTime, Strategy, Unrepeatable
from dpsim.contract.world import Lost
from dpsim.diagnose.injected import never_applied
from dpsim.explore import Budget, Exploration, Failure, Picker, Planted, Problem, Search, explore
from dpsim.sim.graph.environment import rare_collections


@rare_collections()  # around all runs, up to when what they leave is gone: after each it would look through that
def search_subject(
    subject: Subject,
    chosen: Search,
    *,
    schedules: int,
    stop_at_first: bool,
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[Exploration], None] | None = None,
) -> Exploration:
    """The search alone: failures are not confirmed. `expired` is asked within runs, too."""
    probes: Counter[str] = Counter()
    injected: dict[Planted, str] = {}
    waiting = planted(subject.world)
    number, idle, known, stood, timeouts, lost = 0, 0, set[str](), "", False, ""

    def tick(step: int) -> None:
        if expired():
            raise OutOfTime

    before = state_of(subject.program, subject.prepared)
    repeats = Repeats(subject, tick)

    def once(asked: Strategy) -> list[Problem]:
        nonlocal lost
        try:
            return one_run(asked)
        except (Lost, MemoryError, OSError) as error:
            lost = str(error) if isinstance(error, Lost) else trouble(error)
            if not lost:
                raise
            raise OutOfTime from error

    def one_run(asked: Strategy) -> list[Problem]:
        nonlocal number, idle, stood, timeouts
        number += 1
        repeats.before(number)
        assert isinstance(asked, Picker)
        try:
            run, findings = subject.run(asked, tick)
        except CutOff as error:
            timeouts |= error.run.timeouts
            if not asked.redundant:
                stood = _stood(error)
            raise
        timeouts |= run.timeouts
        idle += run.vacuous
        if subject.program.probes:
            probes.update({raw[SITE] for journal in run.journals for raw in journal if raw[KIND] == "probe"})
        for one, alone in list(waiting.items()):
            why = never_applied(alone, run)
            if not why:
                injected[one] = ""
                del waiting[one]
            elif run.finished:  # one that stopped early may not have come to it
                injected.setdefault(one, why[0])
        problems = [problem(findings[0], run)] if findings else []
        new = bool(problems) and problems[0].what not in known
        known.update(one.what for one in problems)
        unlike = repeats.after(run, asked.schedule, new)
        return problems if unlike is None else [differs(unlike)]

    def diverged(error: Unrepeatable, current: Picker) -> Problem:
        return differs(repeats.diverged(error, current.schedule))

    def differs(unlike: Unlike) -> Problem:
        """A run that did not come out the same again: it is its own evidence, since another one might."""
        finding = unlike.finding
        try:
            refuse_changes(subject.program, subject.prepared, before)
        except SharedState as error:
            finding = nondeterminism.with_seen(finding, str(error))
        return Problem(finding.klass, identity(finding), evidence=(unlike.run, [finding]))

    found = explore(once, chosen, Budget(schedules, stop_at_first, expired), progress, diverged)
    unlike = None
    try:
        with suppress(OutOfTime):
            unlike = None if lost else repeats.last()
    except Lost as error:
        lost = str(error)
    if unlike is not None and not found.failures:
        one = differs(unlike)
        failure = Failure(one, unlike.schedule, unlike.schedule, found.runs, chosen.current.name)
        found.failures[one.what], found.verdict = failure, "violated"
    if not found.failures:
        refuse_changes(subject.program, subject.prepared, before)
    found.idle, found.stood, found.timeouts = idle, stood, timeouts
    if found.vacuous:
        found.verdict = "vacuous"
    if lost:
        found.lost, found.verdict = lost, "lost"
    found.repeated = repeats.made
    found.probes = probes
    found.injected.update(injected)
    return found


def _stood(error: CutOff) -> str:
    """Where the ranks of a run stood that was cut off."""
    when = "when the time was up" if isinstance(error, OutOfTime) else f"after {error}, where it was cut off"
    return f"a run stood here {when}:\n{whereabouts(error.run.journals, FEW)}"
