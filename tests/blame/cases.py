"""Cases: drawn programs, each with one mistake, and what a judge says of it.

    for case in cases("ring", draw, range(200)):
        case.drawn, case.healthy, case.planted, case.run, case.came, case.findings

The mistake is the truth that verdicts are compared with. No journal contains it: `injected` records, and the traces of
a skipped call, are removed before the checks read a run. Another judge can read `case.run` as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.contract.ops import ADDRESS, KIND, LOOK_NUMBER, LOOK_OF, ORDINAL, SITE, THREAD, RawRecord
from dpsim.contract.world import Fault, Run, World
from dpsim.diagnose.injected import never_applied
from dpsim.sim.backend import SimBackend
from tests.blame.bent import Bend, bent_run
from tests.blame.drawn import Drawn, Kind
from tests.blame.plants import Planted, plant, slow, step_of

Judge: TypeAlias = Callable[[World, Run], list[Finding]]

VERDICTS = ("right", "other step", "undecided", "wrong", "not found", "judge failed")
"""The verdicts on a run in which a mistake had an effect.

"other step": the checks name the right rank in another step. "undecided": they name no culprit, or several ranks that
include the right one. "not found": they find nothing. "judge failed": the judge raised an exception.
"""

UNSEEN = ("never applied", "ended well")
"""What else may come of a mistake: it changed no call, or all ranks ended as without it, and no check found anything.
No check can see the latter, because a program may send what it likes.
"""


class Case(NamedTuple):
    """One drawn program with one mistake. `run`: the faulty run, without `injected` records. `accused`: the first
    finding in a run without the mistake whose ops are late, else None. `came`: one of `VERDICTS` or `UNSEEN`.
    """

    seed: int
    drawn: Drawn
    healthy: Run
    accused: Finding | None
    planted: Planted[Any]
    run: Run
    findings: list[Finding]
    came: str


def cases(name: str, draw: Kind, seeds: Sequence[int], judge: Judge = judge) -> Iterator[Case]:
    """Yields the case of each seed. It leaves out a seed if the drawn op can have no mistake of the drawn kind.

    Raises AssertionError if the checks find something in a healthy run.
    """
    for seed in seeds:
        random = Random(f"{name} {seed}")
        drawn = draw(random)
        healthy = run_of(drawn)
        nothing = judge(drawn.world, healthy)
        assert healthy.finished, f"{name} {seed}: a healthy run does not end: {healthy.ends}"
        assert not nothing, f"{name} {seed}: a healthy run has findings: {nothing[0]}"
        late = run_of(drawn, delays=slow(random, drawn.world, healthy))
        accused = judge(drawn.world, late)
        planted = plant(random, drawn.world, healthy)
        if planted is None:
            continue
        run, applied = faulty(drawn, planted, healthy)
        findings, failed = judged(judge, drawn.world, run)
        came = came_of(planted, findings) if applied else "never applied"
        if came == "not found" and run.ends == healthy.ends:
            came = "ended well"
        came = "judge failed" if failed else came
        yield Case(seed, drawn, healthy, accused[0] if accused else None, planted, run, findings, came)


def run_of(drawn: Drawn, **more: Any) -> Run:
    """Runs the program on its world with other values for some fields, without `injected` records."""
    return stripped(SimBackend().run_program(replace(drawn.world, **more), drawn.program, None))


def faulty(drawn: Drawn, planted: Planted[Fault | Bend], healthy: Run) -> tuple[Run, bool]:
    """Returns the run with the mistake, without `injected` records, and whether the mistake changed a call."""
    if isinstance(planted.fault, Bend):
        return bent_run(drawn, planted.fault, planted.raw, healthy)
    world = replace(drawn.world, faults=(planted.fault,))
    run = SimBackend().run_program(world, drawn.program, None)
    plain = stripped(run)
    return replace(plain, journals=[without_traces(own) for own in plain.journals]), not never_applied(world, run)


def judged(judge: Judge, world: World, run: Run) -> tuple[list[Finding], bool]:
    """Returns the findings, and whether the judge raised."""
    try:
        return judge(world, run), False
    except Exception:
        return [], True


def stripped(run: Run) -> Run:
    """Returns the run without the records of its faults and delays."""
    return replace(run, journals=[[raw for raw in own if raw[KIND] != "injected"] for own in run.journals])


def without_traces(journal: list[RawRecord]) -> list[RawRecord]:
    """Returns the journal without the traces of a fault that skips a call. These are the answer of the call, and the
    gap in the ordinals of its site.
    """
    calls = {raw[ADDRESS] for raw in journal if raw[KIND] != "learned"}
    numbers: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    plain = []
    for raw in journal:
        if raw[ADDRESS] not in calls:
            continue
        own = numbers[raw[THREAD], raw[SITE]]
        number = own.setdefault(raw[ORDINAL], len(own))
        new = (*raw[:ORDINAL], number, *raw[ORDINAL + 1 :])
        if raw[KIND] == "look":
            of, at = numbers[raw[THREAD], raw[LOOK_OF]], raw[LOOK_NUMBER]
            new = (*new[:LOOK_NUMBER], of.get(at, at), *new[LOOK_NUMBER + 1 :])
        plain.append(new)
    return plain


def came_of(planted: Planted[Any], found: Sequence[Finding]) -> str:
    """Returns the verdict: one of `VERDICTS`."""
    if not found:
        return "not found"
    culprit = found[0].culprit
    if culprit is None:
        return "undecided"
    if planted.fault.rank not in (culprit.ranks or (culprit.rank,)):
        return "wrong"
    if len(culprit.ranks) > 1:
        return "undecided"
    return "right" if culprit.step == step_of(planted) else "other step"
