"""Waiters: an actor that only waits is not the culprit if the actor that it waits for is blocked in another op.

    engine.1 waits in answers                      HANG:MAILBOX:NO_MESSAGE, behind the finding of dp_cpu.1 #7
    rank 1 waits in dp_cpu.1 #7 for rank 3         HANG:P2P:UNMATCHED_RECV
    engine.0 waits in dp_engine #2 for engine.1    HANG:COLLECTIVE:MISSING_RANK: engine.1 waits itself, so no culprit

A wait at a mailbox or for a store's key does not show which actor should have answered. The chain of waits may lead
from it to a collective or transfer. Then the finding of the mailbox or store is sorted behind the finding of that call.

A member may miss a collective because it waits for a message itself, or sleeps until a waiting actor sends it one. Then
the run does not show that the member left anything out, and the pass removes it as the culprit.

An actor whose timeout expired is a *witness* of a hang. Its exception is sorted behind the hang of the actors that it
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dpsim.checks.blame.chain import ActorState, chain, text_of
from dpsim.checks.blame.debtors import debtors, wait_of
from dpsim.checks.blame.witnesses import gave_up
from dpsim.checks.finding import Finding, also, matches
from dpsim.checks.run_index import RunIndex
from dpsim.contract.words import ranks_text

MESSAGES = ("HANG:MAILBOX", "HANG:STORE")
MISSING = ("HANG:COLLECTIVE:MISSING_RANK", "HANG:P2P")


def no_waiter(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A missing member is no culprit if it waits for another blocked actor itself."""
    if not any(_missing(one) for one in findings):
        return findings
    states = chain(run_index)
    return [_without(run_index, states, one) if _missing(one) else one for one in findings]


def waiters_last(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. Those of messages and witnesses come behind the calls to which the chain of waits leads."""
    if not any(_of_messages(one) or matches(one.klass, "CRASH") for one in findings):
        return findings
    states = chain(run_index)
    calls = [one for one in findings if one.check in ("ledger", "deadlock") and not _of_messages(one)]
    return [_later(run_index, states, one, _first(run_index, one, calls)) for one in findings]


def _first(run_index: RunIndex, finding: Finding, calls: Sequence[Finding]) -> tuple[int, int] | None:
    """Returns the position of the first finding about a call that may cause this finding.

    A rank that leaves out calls after an exception, and ends, cannot have caused it: the exception may have ended the
    rank.
    """
    of_calls = (
        call.position
        for call in calls
        if not (matches(finding.klass, "CRASH") and finding.position < call.position and _ended(run_index, call))
    )
    return min(of_calls, default=None)


def _ended(run_index: RunIndex, call: Finding) -> bool:
    culprit = call.culprit
    return culprit is not None and all(run_index.end(one) == "finished" for one in culprit.ranks or (culprit.rank,))


def _later(
    run_index: RunIndex, states: Mapping[int, ActorState], finding: Finding, call: tuple[int, int] | None
) -> Finding:
    """Returns the finding of a wait, sorted behind the first finding about a call.

    Without such a call, the exception of a witness loses its culprit if other actors wait for the witness in calls.
    """
    if call is None:
        blocked_actors = _blocked_behind(run_index, states, finding)
        if not blocked_actors:
            return finding
        waits = "; ".join(
            f"rank {one.actor} {text_of(one)}, for {', '.join(f'rank {other}' for other in one.waits_for)}"
            for one in blocked_actors
        )
        return replace(finding, message=also(finding.message, waits), culprit=None, why=waits)
    behind = _behind(run_index, states, finding)
    return replace(finding, position=max(finding.position, (call[0], call[1] + 1))) if behind else finding


def _of_messages(finding: Finding) -> bool:
    """Returns whether a finding is about a wait at a mailbox or store that does not show its cause.

    A finding with evidence, such as a misspelt key, shows its cause.
    """
    return any(matches(finding.klass, one) for one in MESSAGES) and not finding.ground


def _missing(finding: Finding) -> bool:
    one = finding.check == "deadlock" and finding.culprit is not None and not finding.culprit.ranks
    return one and any(matches(finding.klass, klass) for klass in MISSING)


def _without(run_index: RunIndex, states: Mapping[int, ActorState], finding: Finding) -> Finding:
    assert finding.culprit is not None
    own = states.get(finding.culprit.rank)
    if own is None or own.state not in ("waits", "idle") or "#" in own.what:
        return finding
    wait = wait_of(own)
    waits_for = own.waits_for if wait is None else debtors(run_index, wait, own.waits_for)
    others = [states[one] for one in _reached(states, waits_for) if one != own.actor]
    blocked = [one for one in others if one.state == "waits"]
    if not blocked:
        return finding
    first = next((one for one in blocked if "#" in one.what), blocked[0])
    may = f"rank {own.actor} waits itself, and may wait, directly or not,"  # no record names the sender of a message
    waits = f"{may} for rank {first.actor}, which {text_of(first)}"
    if wait is not None and first.actor not in waits_for:
        waits += f"; {ranks_text(waits_for)} may owe it {wait.what}"
    return replace(finding, message=also(finding.message, waits), culprit=None, why=waits)


def _blocked_behind(run_index: RunIndex, states: Mapping[int, ActorState], finding: Finding) -> list[ActorState]:
    """Returns the actors that wait in a call for the witnesses of this finding.

    A witness raised because its timeout expired. So the run does not show whether the witness or the waiting actor was
    first.
    """
    raised = _witnesses(run_index, finding)
    return [one for one in states.values() if _in_call(one) and not {*one.waits_for}.isdisjoint(raised)]


def _witnesses(run_index: RunIndex, finding: Finding) -> tuple[int, ...]:
    culprit = finding.culprit
    if culprit is None or not matches(finding.klass, "CRASH"):
        return ()
    actors = culprit.ranks or (culprit.rank,)
    return actors if all(gave_up(run_index, actor) is not None for actor in actors) else ()


def _behind(run_index: RunIndex, states: Mapping[int, ActorState], finding: Finding) -> bool:
    if not _of_messages(finding):
        return bool(_witnesses(run_index, finding))
    culprit = finding.culprit
    if culprit is None:
        return False
    own = states.get(culprit.rank)
    return own is not None and any(_in_call(states[one]) for one in _reached(states, own.waits_for))


def _in_call(actor_state: ActorState) -> bool:
    return actor_state.state == "waits" and ("#" in actor_state.what or actor_state.what == "its device")


def _reached(states: Mapping[int, ActorState], start: Iterable[int]) -> list[int]:
    left, seen = [*start], dict[int, None]()
    while left:
        one = left.pop(0)
        if one not in seen:
            seen[one] = None
            left += states[one].waits_for
    return [*seen]
