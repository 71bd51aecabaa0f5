"""Replay: repeats the run of a trace, and reports whether it is the same run.

    replayed = replay(read_trace(".dpsim/wake-448da4e9.jsonl"))
    replayed.same              # the records are equal, one by one
    replayed.findings          # what does not hold, judged anew

If a trace has a schedule, `replay` repeats the run step by step. In *strict* mode it stops where the schedule does not
fit. In *fallback* mode it reports the steps that it skipped and added. For a timed run, or one on gloo or NCCL, it runs
the scenario again in the timed simulation. This shows whether the model acts as the hardware did.

On a real backend, `replay` runs at the gates of the simulated run. It raises NotForced for a race that gates cannot
decide.

A token has no records. So its run counts as the same if the finding has the same class. It runs in fallback mode,
because users replay a failure while they fix it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpsim.campaign.calls import with_calls, with_calls_along
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.gates import gates_of, stalled, unforced
from dpsim.campaign.stepping import Stepping, stepping
from dpsim.campaign.subject import Subject, kept, problem
from dpsim.campaign.token import Token
from dpsim.checks.finding import Finding
from dpsim.contract.schedule import CutOff
from dpsim.contract.words import with_services
from dpsim.contract.world import Run
from dpsim.explore.explorer import failure_of
from dpsim.explore.normal_form import many
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay
from dpsim.runner import SIMULATION, run_scenario
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.locate import scenario_path
from dpsim.sim.backend import SimRun
from dpsim.trace import Difference, Schedule, Trace, TraceError, compare
from dpsim.version import version

CHANGED = "the schedule does not fit any more, for the program or the scenario has changed"


@dataclass
class Replayed:
    """A repeated run. `name`: of the trace or token. `klass`: the class of its finding. `difference`: the first record
    that differs from the trace. `noted`: the words of the schedule. `skipped`, `added`: words that did not fit, and
    choices without one (fallback mode). `simulated`: for another backend, the run that gave the gates. `stalled`: the
    gates at which the run hangs. `schedule`: of an untimed run of the simulation. `base`: the folder of the scenario's
    files, or None. `fingerprint`: as `dpsim explore` prints it, of a run along a schedule; else empty.
    """

    name: str
    klass: str | None
    scenario: Scenario
    run: Run
    findings: Sequence[Finding]
    difference: Difference | None = None
    noted: Sequence[str] | None = None
    skipped: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    backend: str = SIMULATION
    stalled: list[str] = field(default_factory=list)
    simulated: Replayed | None = None
    schedule: Schedule | None = None
    base: Path | None = None
    fingerprint: str = ""

    @property
    def same(self) -> bool:
        """Whether this is the run of the trace or token."""
        klass = self.findings[0].klass if self.findings else None
        return self.difference is None and klass == self.klass

    def summary(self) -> str:
        """Returns the result of the replay in a line."""
        how = "in time, without a schedule"
        if self.noted is not None:
            how = f"along {many(self.noted)}"
        if self.skipped or self.added:
            how += f", of which {len(self.skipped)} were skipped; {len(self.added)} were added"
        if self.simulated is not None:
            how += f"; then on {self.backend}, in the same order"
            if not self.simulated.same:
                how += " (which was NOT the same run)"
        if self.same and not self.skipped:
            return f"replayed {how}: the same run again"
        klass = self.findings[0].klass if self.findings else "no finding"
        if klass != self.klass:
            return f"replayed {how}: NOT the same run; it was {self.klass or 'without a finding'}, now {klass}"
        if self.same:
            return f"replayed {how}: {CHANGED}, and the run shows {klass} all the same"
        return f"replayed {how}: NOT the same run; the finding is {klass} as before, but its records differ"


def replay(trace: Trace, *, strict: bool = True, backend: str = SIMULATION, looks: Stepping | None = None) -> Replayed:
    """Repeats the run of a trace, or on another backend runs it at the gates of the simulated run. Raises Mismatch if a
    schedule does not fit (strict mode), TraceError for a damaged trace or an unreadable scenario, and ScenarioError for
    an unreadable file. On another backend it raises like `run_scenario`. `looks`: a debugger, which may raise
    StoppedAt.
    """
    for _ in trace.journals():  # reading to the end checks all records, and gives the schedule
        pass
    try:
        scenario = scenario_from(trace.header.scenario)
    except ValueError as error:
        recorded, own = trace.header.versions.get("dpsim", ""), version()
        other = f"; dpsim {recorded} recorded it, and this is {own}" if recorded not in ("", own) else ""
        raise TraceError(f"{trace.name}: the scenario of the trace cannot run: {error}{other}") from None
    base = _base(trace, scenario)
    looks = looks or Stepping()
    looks.world = Subject.of(scenario, base).world
    replayed = _simulated(trace, scenario, strict, base, looks)
    if backend == SIMULATION:
        return replayed
    gates, words = gates_of(replayed.run), () if trace.schedule is None else trace.schedule.steps
    refused = unforced(scenario, replayed.run, replayed.findings, words, backend)
    if refused is not None:
        raise refused
    result = run_scenario(scenario, backend, base=base, gates=gates)
    difference = compare(trace, Trace.of(kept(result.run), backend))
    return replace(
        replayed,
        run=result.run,
        findings=result.findings,
        difference=difference,
        backend=backend,
        simulated=replayed,
        stalled=stalled(gates, result.run),
        schedule=None,
    )


def _simulated(trace: Trace, scenario: Scenario, strict: bool, base: Path, looks: Stepping) -> Replayed:
    if trace.schedule is None:
        with stepping(looks):
            result = run_scenario(scenario, base=base)
        with_calls(result, base)
        difference = compare(trace, Trace.of(kept(result.run), "replay"))
        return Replayed(trace.name, trace.header.klass, scenario, result.run, result.findings, difference, base=base)
    follow = looks.follow(trace.schedule.steps, strict)
    follow.begin()
    try:
        subject = Subject.of(scenario, base)
        with stepping(looks):
            run, findings = subject.run(follow)
        follow.end(True)
    except Mismatch as error:
        raise Mismatch(with_services(str(error), subject.world.size, subject.world.services)) from None
    except CutOff as error:
        raise Mismatch(
            f"the run was cut off after {error}, and the schedule has {many(trace.schedule.steps)}: something polls "
            "that did not poll so long when the trace was written"
        ) from None
    with_calls_along(subject, run, findings, trace.schedule.steps)
    difference = compare(trace, Trace.of(run, "replay"))
    return Replayed(
        trace.name,
        trace.header.klass,
        scenario,
        run,
        findings,
        difference,
        trace.schedule.steps,
        follow.skipped,
        follow.added,
        schedule=Schedule(trace.schedule.strategy, tuple(follow.schedule)),
        base=base,
        fingerprint=_fingerprint(follow, run, findings),
    )


def replay_token(token: Token, looks: Stepping | None = None) -> Replayed:
    """Repeats the run of a token, in fallback mode; without a schedule, which was too long, it searches for the
    failure. Raises Mismatch if the run now polls without end, and ScenarioError if its protocol cannot run it.
    """
    subject = Subject.of(token.scenario)
    looks = looks or Stepping()
    looks.world = subject.world
    follow = looks.follow(token.steps, strict=False)
    follow.begin()
    run: Run
    findings: Sequence[Finding]
    try:
        with stepping(looks):
            run, findings = subject.run(follow)
    except CutOff as error:
        raise Mismatch(f"the run was cut off after {error}: something polls that did not poll so long before") from None
    follow.end(True)
    with_calls_along(subject, run, findings, follow.schedule)
    noted: Sequence[str] | None = token.steps
    schedule: Schedule | None = Schedule(token.strategy, tuple(follow.schedule))
    fingerprint = _fingerprint(follow, run, findings)
    if not (findings or token.steps):
        shown = explore_subject(subject, token.strategy, schedules=token.schedules).shown
        one = next((one for one in shown if one.run is not None), None)
        schedule = None
        if one is not None and one.run is not None:
            run, findings, fingerprint = one.run, one.findings, one.failure.fingerprint
            schedule = None if one.failure.in_time else Schedule(one.failure.by, tuple(one.schedule))
            noted = None if schedule is None else schedule.steps
    return Replayed(
        "the token",
        token.klass,
        token.scenario,
        run,
        findings,
        noted=noted,
        skipped=follow.skipped,
        added=follow.added if token.steps else [],
        schedule=schedule,
        fingerprint=fingerprint,
    )


def _fingerprint(follow: ScheduleReplay, run: SimRun, findings: Sequence[Finding]) -> str:
    return failure_of(follow, problem(findings[0], run)).fingerprint if findings else ""


def _base(trace: Trace, scenario: Scenario) -> Path:
    file = scenario.file
    folders = [Path(trace.name).parent, Path.cwd(), scenario_path("quickstart").parent]
    return next((folder for folder in folders if file is not None and (folder / file).is_file()), folders[0])
