"""Roots first: an actor that died, or stopped between two ops, is the cause for all actors that wait for it.

    engine.0 stopped between two ops        HANG:HOST:NO_OP, culprit engine.0: the op that it reached
    engine.1 raised: its time was up       behind it
    rank 0 waits in a collective           behind it

If an actor's last op has returned and it issues no further op, only its program can be the reason. The death of a
process does not depend on other actors either. So the pass calls these actors *roots*. By contrast, a wait, an expired
timeout or a missing call may follow from a root. Such findings are sorted behind the root.

Findings that a root cannot cause keep their positions: a mismatch, a race, or an exception that no timeout caused.

The finding that shows the hang keeps its class and gets the root as its culprit. The findings may show only that actors
gave up, or that the run stopped. Then the pass adds a finding for the root itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpsim.checks.blame.chain import ActorState, chain, text_of, waits_of, waits_text, way
from dpsim.checks.blame.messages import MessageIndex
from dpsim.checks.blame.reached import reached
from dpsim.checks.blame.root_classes import STOOD, of_dead
from dpsim.checks.blame.witnesses import gave_up
from dpsim.checks.finding import Culprit, Finding, also, matches
from dpsim.checks.run_index import RunIndex, signatures

OF_WAITS = ("HANG", "DEATH", "LEFTOVER")
"""Classes of findings that an actor may cause by issuing no further op."""


def roots_first(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. Those that follow from an actor that died, raised or stopped are sorted behind
    that actor.
    """
    if not findings or all(end == "finished" for end in run_index.run.ends):
        return findings
    states = chain(run_index)
    roots = [one.actor for one in states.values() if one.state in ("died", "stopped")]
    roots = [one for one in roots if states[one].state == "stopped" or not _met_another(run_index, one)]
    if not roots:
        return _behind_raised(run_index, states, findings)
    owned: dict[int, list[Finding]] = {root: [] for root in roots}
    left: list[Finding] = []
    for one in findings:
        root = _root(states, roots, one) if _follows(run_index, one) else None
        (left if root is None else owned[root]).append(one)
    for root, own in owned.items():
        if own:
            left += _behind(run_index, states, root, own)
    return left


def _met_another(run_index: RunIndex, actor: int) -> bool:
    """Returns whether the members of one of the actor's collectives called it with different arguments.

    Then the mismatch may have killed the process: gloo ends a process that receives more bytes than it expects, and
    NCCL may do so.
    """
    for members in run_index.collectives.values():
        rows = [signatures(entries, index) for index, entries in enumerate(members.values())]
        if actor in members and any(len({*calls}) > 1 for calls in zip(*rows, strict=False)):
            return True
    return False


def _behind_raised(run_index: RunIndex, states: Mapping[int, ActorState], findings: list[Finding]) -> list[Finding]:
    """Returns the findings in another order: an exception comes before the hangs of the ranks that wait for its actor.

    Exceptions of actors that gave up because of another actor have no such effect.
    """
    raised = [one.actor for one in states.values() if one.state == "raised"]
    raised = [actor for actor in raised if gave_up(run_index, actor) is None]
    for root in raised:
        crash = next((one for one in findings if matches(one.klass, "CRASH") and root in _ranks(one)), None)
        hangs = [one for one in findings if one.check == "deadlock" and one.culprit is not None]
        waits = [one for one in hangs if _root(states, [root], one, False) == root]
        witnesses = [
            one for one in findings if one is not crash and _is_witness_of(run_index, states, one, root, raised)
        ]
        if crash is None or not (waits or witnesses):
            continue
        step, at = min(one.position for one in (crash, *waits, *witnesses))
        rest = [one for one in findings if not any(one is other for other in (crash, *waits, *witnesses))]
        later = [*witnesses, *(_of(states[root], one) for one in waits)]
        later = [replace(one, position=max(one.position, (step, at + 1))) for one in later]
        findings = [replace(crash, position=(step, at)), *rest, *later]
    return findings


def _is_witness_of(
    run_index: RunIndex, states: Mapping[int, ActorState], finding: Finding, root: int, raised: Sequence[int]
) -> bool:
    """Returns whether a finding is an exception of witnesses that waited for the actor `root`, directly or not.

    A witness is an actor that raised only because another actor did not act (see `witnesses`). If no record says for
    which actor a witness waited, `root` must be the only actor that raised for its own reason.
    """
    if not matches(finding.klass, "CRASH") or finding.culprit is None:
        return False
    if any(gave_up(run_index, actor) is None for actor in _ranks(finding)):
        return False
    waited = [_waited_for(run_index, states, actor) for actor in _ranks(finding)]
    return all(root in some or (not some and len(raised) == 1) for some in waited)


def _waited_for(run_index: RunIndex, states: Mapping[int, ActorState], witness: int) -> set[int]:
    messages, found, left = MessageIndex(run_index.run.journals), set[int](), [witness]
    while left:
        actor = left.pop()
        passed, others = gave_up(run_index, actor), states[actor].waits_for
        if passed is not None:
            sent_by = passed.sent_by
            others = waits_of(messages, actor, passed.op.raw)[1] if sent_by is None else (sent_by.rank,)
        left += [one for one in others if one not in found]
        found |= {*others}
    return found


def _ranks(finding: Finding) -> tuple[int, ...]:
    culprit = finding.culprit
    return () if culprit is None else culprit.ranks or (culprit.rank,)


def _follows(run_index: RunIndex, finding: Finding) -> bool:
    if matches(finding.klass, "CRASH") and finding.culprit is not None:
        actors = [actor for actor in _ranks(finding) if run_index.end(actor) == "raised"]
        return bool(actors) and all(gave_up(run_index, actor) is not None for actor in actors)
    return any(matches(finding.klass, one) for one in OF_WAITS)


def _root(states: Mapping[int, ActorState], roots: Sequence[int], finding: Finding, any_: bool = True) -> int | None:
    """Returns the root that causes a finding: its culprit, or the root for which its culprit waits.

    If neither exists and there is only one root, that root is assumed to be the cause. This last rule applies only with
    `any_`, or if the culprit is in an idle get.
    """
    culprit = finding.culprit
    if culprit is not None:
        if culprit.rank in roots:
            return culprit.rank
        path = way(states, culprit.rank, {*roots})
        if path:
            return path[-1]
        any_ = any_ or states[culprit.rank].state == "idle"
    return roots[0] if len(roots) == 1 and any_ else None


def _behind(run_index: RunIndex, states: Mapping[int, ActorState], root: int, findings: list[Finding]) -> list[Finding]:
    shows = min(findings, key=lambda one: (not _shows(one), one.check != "deadlock", one.position))
    step, at = min(one.position for one in findings)
    culprit, paths = reached(run_index, root), [way(states, one, {root}) for one in states if one != root]
    longest = max(paths, key=len, default=())
    shown = shows if _shows(shows) else None
    base = _alone(states[root], culprit) if shown is None else _of(states[root], shown)
    primary = replace(
        base,
        culprit=culprit,
        position=(step, at),
        ground=(_ground(states, root), *base.ground),
        waits=waits_text(states, longest or (root,)),
    )
    others = [one for one in findings if one is not shown and one.klass != "HANG:UNDECIDED"]
    return [primary, *(replace(one, position=max(one.position, (step, at + 1))) for one in others)]


def _shows(finding: Finding) -> bool:
    return not any(matches(finding.klass, one) for one in ("CRASH", "HANG:UNDECIDED", "LEFTOVER"))


def _of(root: ActorState, finding: Finding) -> Finding:
    klass = finding.klass if root.state == "stopped" else of_dead(finding.klass)
    if root.actor in _ranks(finding):
        return replace(finding, klass=klass)
    message = also(finding.message, f"behind it is rank {root.actor}, which {text_of(root)}")
    return replace(finding, klass=klass, message=message)


def _alone(root: ActorState, culprit: Culprit) -> Finding:
    if root.state == "died":
        return Finding("fault", "DEATH:RANK", f"rank {root.actor} died in step {culprit.step}", culprit, (0, 0))
    since = root.since
    behind = "did nothing" if since is None else f"{text_of(root)}, after {since.record.site} (step {since.step})"
    rest = "" if root.what else ", and issues no further op"
    return Finding("deadlock", STOOD, f"rank {root.actor} {behind}{rest}", culprit, (0, 0))


def _ground(states: Mapping[int, ActorState], root: int) -> str:
    moves = [one.actor for one in states.values() if one.state in ("died", "stopped")]
    no_other = f"no other actor {'stopped' if states[root].what else 'did'}"
    alone = no_other if len(moves) == 1 else f"so did {len(moves) - 1} more"
    if states[root].state == "died":
        return f"rank {root} died; {'no other actor died or stopped between two ops' if len(moves) == 1 else alone}"
    return f"rank {root} {text_of(states[root])}; {alone}"
