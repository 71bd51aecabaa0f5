"""Lost wakes: an actor that waits for a message or key is no culprit, unless the records show that it missed the wake.

    rank 0 posts go to ranks 1, 2, rank 3 waits for go      ->   culprit rank 0: equal messages went to two others
    rank 0 posts once in steps 0, 2, 3, rank 1 takes once   ->   culprit rank 0, step 1
    rank 0 never posts to rank 1, which waits               ->   no culprit, and both are named

The pass looks at hangs whose culprit waits at a mailbox or for a key of a store. The wait may be the hang itself, or
the reason why the actor left out a collective. Either the actor missed its wake, or a sender owes it one.
`wake_counts` compares the senders with other steps and other actors. If exactly one actor departs, it is the culprit.
Otherwise, the sender of a message that went to the wrong rank is the culprit (`misdirected`). Calls that miss the
waiting actor come behind such a cause.

The waiting actor stays the culprit in these cases:

* It issued an op in the step of the collective that it left out. So it was awake.
* It took a message, ignored it, and sleeps again at the same mailbox (`beside`).
* The run has no other actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpsim.checks.blame.beside import ignored_message
from dpsim.checks.blame.chain import ActorState, chain, text_of
from dpsim.checks.blame.debtors import debtors, only_itself, owed, wait_of
from dpsim.checks.blame.misdirected import misdirected
from dpsim.checks.blame.wake_counts import OddActor, PendingWait, departures
from dpsim.checks.finding import Finding, Part, also, each, fact, left_out_by, matches, not_reached
from dpsim.checks.run_index import RunIndex
from dpsim.checks.stuck import find_stuck
from dpsim.contract.kinds import ADDED, FOR_ACTORS
from dpsim.contract.ops import KIND, STEP, TAKE_MAILBOX

_HEARD = ADDED | FOR_ACTORS
WAITS = ("HANG:MAILBOX:NO_MESSAGE", "HANG:STORE:NO_VALUE")
MISSING = "HANG:COLLECTIVE:MISSING_RANK"


def name_the_lost_wake(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. An actor that waits for a wake loses the blame to the actor that departs, or to none."""
    if not any(_open(one) or _of_wait(one) for one in findings):
        return findings
    states = chain(run_index)
    decided = [_decided(run_index, states, one) if _open(one) else one for one in findings]
    for old, new in zip(findings, decided, strict=True):
        if old.culprit is not None and new.culprit is not None and new.ground and (new is not old or _of_wait(new)):
            decided = _behind(run_index, decided, new, old.culprit.rank)
    return decided


def _behind(run_index: RunIndex, findings: list[Finding], cause: Finding, waiter: int) -> list[Finding]:
    """Returns the findings. Those of calls that miss the waiting actor, and blame none, come behind the cause."""
    stuck = [one for one in find_stuck(run_index) if waiter in one.missing]
    missing = [run_index.position(one.joined[rank]) for one in stuck for rank in one.waits]
    later = [one.culprit is None and matches(one.klass, "HANG") and one.position in missing for one in findings]
    step, at = min([cause.position, *(one.position for one, behind in zip(findings, later, strict=True) if behind)])
    return [
        replace(one, position=(step, at))
        if one is cause
        else replace(one, position=max(one.position, (step, at + 1)))
        if behind
        else one
        for one, behind in zip(findings, later, strict=True)
    ]


def _open(finding: Finding) -> bool:
    """Returns whether a finding blames one actor for a wait or a missing call, and has no evidence yet."""
    if finding.culprit is None or len(finding.culprit.ranks) > 1 or finding.ground:
        return False
    return matches(finding.klass, MISSING) or _of_wait(finding)


def _of_wait(finding: Finding) -> bool:
    return any(matches(finding.klass, one) for one in WAITS)


def _decided(run_index: RunIndex, states: Mapping[int, ActorState], finding: Finding) -> Finding:
    assert finding.culprit is not None
    own = states.get(finding.culprit.rank)
    wait = None if own is None else wait_of(own)
    if own is None or wait is None or _was_awake(run_index, finding, own, wait):
        return finding
    likely = debtors(run_index, wait, own.waits_for)
    if not likely:
        return finding
    found = departures(run_index, wait, tuple(dict.fromkeys([*likely, *own.waits_for])))
    proven = [one for one in found if not one.doubt]
    if len({one.actor for one in proven}) == 1:
        return _with(run_index, finding, wait, proven[0])
    stray = misdirected(run_index, wait)
    if stray is not None and stray.odd is not None:
        return _with(run_index, finding, wait, stray.odd)
    what = f" {wait.what}" if matches(finding.klass, MISSING) else ""
    text = owed(run_index, wait, likely, what) + ("" if stray is None else f"; {stray.text}")
    doubts = [fact("but", text=f"{one.text}, {one.ground[0]}", doubt=one.doubt) for one in found if one.doubt]
    return _without(finding, states, wait, () if only_itself(run_index, wait) else likely, text, doubts)


def _was_awake(run_index: RunIndex, finding: Finding, own: ActorState, wait: PendingWait) -> bool:
    """Returns whether an actor left a call out although it was awake in its step, or ignored a message."""
    if not matches(finding.klass, MISSING):
        return False
    assert finding.culprit is not None
    journal, step = run_index.run.journals[own.actor], finding.culprit.step
    later = any(raw[STEP] > step for raw in journal)
    acted = any(raw[STEP] == step and raw[KIND] not in _HEARD for raw in journal)
    box = wait.entry.raw[TAKE_MAILBOX] if wait.entry.raw[KIND] == "take" else ""
    return later or acted or bool(ignored_message(run_index, own.actor, box))


def _with(run_index: RunIndex, finding: Finding, wait: PendingWait, departure: OddActor) -> Finding:
    """Returns the finding with the actor that departs as its culprit."""
    own = departure.actor == wait.entry.rank
    text = "" if own else f"; rank {wait.entry.rank} waits for it in {wait.entry.record.site}"
    culprit = replace(run_index.culprit(departure.entry, departure.actor), step=departure.step)
    return replace(finding, message=f"{departure.text}{text}", culprit=culprit, ground=departure.ground, why="")


def _without(
    finding: Finding,
    states: Mapping[int, ActorState],
    wait: PendingWait,
    likely: Sequence[int],
    owing: str,
    doubts: Sequence[Part],
) -> Finding:
    """Returns the finding without a culprit. It names the waiting actor, and in `owing` those that may owe the wake."""
    rank = wait.entry.rank
    if matches(finding.klass, MISSING):
        why = also(f"rank {rank} is blocked in {wait.entry.record.site}, and {owing}", *doubts)
        own = left_out_by(finding.message) == (rank,)  # it alone is known to be blocked
        reached = map(not_reached, each(finding.message)) if own else each(finding.message)
        return replace(finding, message=also(*reached, why), culprit=None, why=why)
    why = also(f"rank {rank} waits for {wait.what}, and {owing}", *doubts)
    text = also(finding.message, owing, *doubts)
    here = f"rank {rank} is blocked in {wait.entry.record.site} at {wait.entry.record.where}: perhaps once too often"
    there = [f"rank {one} {text_of(states[one])}, and may owe {wait.what} to rank {rank}" for one in likely]
    return replace(finding, message=text, culprit=None, details=(here, *there, *finding.details), why=why)
