"""Of run: explains a run of dpsim in the same form as a job from dumps, by its first finding.

    explained(world, run, judge(world, run)).culprit     # Suspect(ranks=(1,), group="dp_cpu", seq=5, ...)

A journal has more than a dump: steps, roots, decisions. So the checks judge the run, and this module converts their
result. `seq` counts from 1, as recorders do.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.blame.chain import chain
from dpsim.checks.finding import Culprit, Finding, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import COMMUNICATOR, KIND, OP, SEQ, SITE, STEP, RawRecord
from dpsim.contract.world import Run, World
from dpsim.diagnose.dumps.entries import CallPlace
from dpsim.diagnose.dumps.explanation import Confidence, Explanation, Outcome, Suspect
from dpsim.diagnose.evidence import waits
from dpsim.diagnose.words import in_words, told


def explained(world: World, run: Run, findings: Sequence[Finding]) -> Explanation:
    """Returns the findings of a run as an explanation."""
    if not findings:
        outcome: Outcome = "finished" if run.finished else "undecided"
        return Explanation(outcome, "", None, "", (), (), (), "high", ("no check finds anything",), simulated=True)
    first = told(run, findings[0])
    hangs = "blocked" in run.ends
    culprit = None if first.culprit is None else _suspect(run, first.culprit)
    return Explanation(
        outcome="hang" if hangs else "failed",
        klass=first.klass,
        culprit=culprit,
        said=first.message,
        waits=tuple(in_words(run, line) for line in waits(findings)) if hangs else (),
        cycle=_cycle(world, run) if hangs else (),
        undecided_ranks=() if culprit is not None or not hangs else _blocked(run),
        confidence=_confidence(world, run, first),
        ground=first.grounds,
        simulated=True,
        why=first.why,
    )


FACTS = ("fault", "race", "stale", "floats", "graph_lint", "leftover")
"""Checks whose findings concern ops of one rank. The other checks compare ranks or steps to find the culprit."""

OF_THREADS = ("HANG:FLAG", "HANG:JOIN")
"""Classes of hangs of a rank's threads, which wait for each other."""


def _confidence(world: World, run: Run, first: Finding) -> Confidence:
    """Returns "high" if records of the culprit alone show its mistake: its end, or ops that break a rule.

    A majority, other steps or the end of a chain of waits allow a conclusion, which is "medium". So is the exception of
    a rank that may be a victim.
    """
    if first.culprit is None:
        return "low"
    if first.check in FACTS:
        return "medium" if first.check == "fault" and first.grounds else "high"
    states = chain(RunIndex.of(world, run))
    ranks = first.culprit.ranks or (first.culprit.rank,)
    gone = first.check == "deadlock" and all(rank in states and states[rank].state in ENDS for rank in ranks)
    return "high" if gone or any(matches(first.klass, one) for one in OF_THREADS) else "medium"


ENDS = ("died", "raised", "stopped")
"""The states of an actor that ends or stands still, whatever others do."""


def _blocked(run: Run) -> tuple[int, ...]:
    """Returns the blocked ranks if there are several. One alone waits for an actor that is asleep or has ended."""
    blocked = tuple(rank for rank, end in enumerate(run.ends[: run.size]) if end == "blocked")
    return blocked if len(blocked) > 1 else ()


def _suspect(run: Run, culprit: Culprit) -> Suspect:
    """Returns the culprit with a call at its site: its own in this step or in another one, or else that of another
    rank.
    """
    calls = [
        (rank, raw)
        for rank, journal in enumerate(run.journals)
        for raw in journal
        if raw[KIND] in MEETS and raw[SITE] == culprit.site
    ]
    there = sorted(calls, key=lambda call: (call[1][STEP] != culprit.step, call[0] != culprit.rank))
    raw: RawRecord | None = there[0][1] if there else None
    place = CallPlace(culprit.where or culprit.site, run.chains.get(culprit.where, ()))
    ranks = culprit.ranks or (culprit.rank,)
    if raw is None:
        return Suspect(ranks, "", None, "", place)
    return Suspect(ranks, raw[COMMUNICATOR], raw[SEQ] + 1, raw[OP], place)


def _cycle(world: World, run: Run) -> tuple[int, ...]:
    """Returns ranks that wait for each other in a cycle, or an empty tuple."""
    states = chain(RunIndex.of(world, run))
    for start in states:
        path: list[int] = []
        actor = start
        while actor in states and actor not in path and states[actor].waits_for:
            path.append(actor)
            actor = states[actor].waits_for[0]
        if actor in path:
            return tuple(path[path.index(actor) :])
    return ()
