"""Uneven: finds the first step in which two sides made different numbers of calls, and which side is wrong.

The two sides are sender and receiver, or members of a group. Two sides have no majority. But the steps of one rank are
alike, so the pass compares each side with the rank's other steps (`regular`):

    step            1              2              3
    rank 0 sends    hidden  rest   rest           hidden  rest
    rank 1 recvs    hidden  rest   hidden  rest   hidden  rest      ->   rank 0 left out hidden in step 2

From step 2 on, each transfer pairs up with one of another step, and the run hangs or raises later. So this culprit
replaces that of a later finding which names no rank, a rank that only waits, or one that raised. The pass keeps a
culprit that the ledger found by a majority, and changes nothing if a rank died. A raise makes the numbers of calls
differ by itself. So it has an earlier cause only if calls of its rank pair up with other calls than usual.

If both sides are unusual, or neither is, the pass names no rank. Nor does it if the ranks received a new value in the
step. If one side made a call more often than the other made any, either side may be wrong. Then the pass also removes
the culprit of a later exception or wait.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from dpsim.checks.blame.chain import chain, way
from dpsim.checks.blame.meetings import Partners
from dpsim.checks.blame.pairs import Side, pairs
from dpsim.checks.blame.places import OpPlaces
from dpsim.checks.blame.regular import FEW, Rules, rules
from dpsim.checks.blame.steps import Name, Steps, name_of
from dpsim.checks.blame.witnesses import gave_up
from dpsim.checks.finding import Culprit, Finding, Part, also, left_out, matches
from dpsim.checks.new_values import new_value
from dpsim.checks.one_step_more import one_step_more
from dpsim.checks.run_index import Entry, RunIndex, by_step
from dpsim.contract.ops import COMMUNICATOR, KIND, SITE
from dpsim.contract.words import counted, times

FOLLOWS = ("MISMATCH", "HANG", "CRASH", "LEFTOVER", "DISAGREEMENT", "LIVELOCK")
"""Classes of findings that a missing call may cause."""


class Uneven(NamedTuple):
    """The call that a rank left out, or made too often (`more`). If `culprit` is None, either of the two ranks may be
    wrong, and `why` is the reason.
    """

    position: tuple[int, int]
    culprit: Culprit | None
    more: bool
    text: Part
    ground: tuple[str, ...]
    why: Part = ""


def name_the_odd_side(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. Those that name no single rank, or a victim, get the side that was wrong in an earlier
    step.
    """
    if "died" in run_index.run.ends or not any(_open(run_index, one) for one in findings):
        return findings
    steps, partners = Steps(run_index), Partners(run_index)
    known = any(one.check == "ledger" and one.culprit is not None for one in findings)  # a majority decided
    both = pairs(run_index, groups_of=2 if known else len(run_index.run.journals))
    raised = {rank for rank in range(len(run_index.run.ends)) if _raised_by_itself(run_index, rank)}
    both = (pair for pair in both if not raised or _may_explain(run_index, partners, pair, raised))
    found = [one for one in (_first(steps, partners, pair) for pair in both) if one is not None]
    if not found:
        return findings
    cause = min(found, key=lambda one: (one.position[0], one.culprit is None, one.position))
    return [
        _with_cause(one, cause) if _open(run_index, one) and one.position[0] >= cause.position[0] else one
        for one in findings
    ]


def _raised_by_itself(run_index: RunIndex, rank: int) -> bool:
    return run_index.end(rank) == "raised" and gave_up(run_index, rank) is None


def _may_explain(run_index: RunIndex, partners: Partners, pair: tuple[Side, Side], raised: set[int]) -> bool:
    """Returns whether the calls of a pair may have made one of these ranks raise.

    A call brings a wrong value only if it pairs up with another call than usual. If all pairs are as usual, the sides
    have different numbers of calls because a rank raised. A step that this rank finished is different.
    """
    ends = [run_index.reached(side.rank) for side in pair if side.rank in raised]
    met = [*zip(*(side.calls for side in pair), strict=False)]
    if not ends or not met:
        return False
    lags = [one.step - other.step for one, other in met]
    if len({*lags}) > 1 or (len(lags) == 1 and lags[0]) or any(map(partners.strange, met)):
        return True
    if any(one.raw[KIND] == "collective" and one.raw[SITE] != other.raw[SITE] for one, other in met):
        return True
    mine, theirs = (Counter(entry.step for entry in side.calls) for side in pair)
    return not lags[0] and any(mine[step] != theirs[step] for step in mine | theirs if step < min(ends))


def _open(run_index: RunIndex, finding: Finding) -> bool:
    culprit = finding.culprit
    if not any(matches(finding.klass, one) for one in FOLLOWS):
        return False
    if culprit is None or len(culprit.ranks) > 1 or matches(finding.klass, "CRASH"):
        return True
    return finding.check in ("deadlock", "livelock") and run_index.end(culprit.rank) != "raised"


def _with_cause(finding: Finding, cause: Uneven) -> Finding:
    if cause.culprit is None and finding.culprit is None:
        return replace(finding, why=finding.why or cause.why)
    klass = finding.klass
    missing = finding.check == "deadlock" and klass == "HANG:COLLECTIVE:MISSING_RANK"
    if cause.culprit is not None and (missing or (finding.check == "ledger" and matches(klass, "HANG:COLLECTIVE"))):
        klass = "HANG:COLLECTIVE:EXTRA_CALL" if cause.more else "HANG:COLLECTIVE:MISSING_RANK"
    undecided = finding.check == "ledger" and finding.culprit is None and matches(finding.klass, "*:COLLECTIVE:*")
    message = cause.text if undecided else also(cause.text, finding.message)
    return replace(finding, klass=klass, message=message, culprit=cause.culprit, ground=cause.ground, why=cause.why)


def _first(steps: Steps, partners: Partners, pair: tuple[Side, Side]) -> Uneven | None:
    """Returns the first step in which the sides have different numbers of calls or unusual pairs, and one side is
    wrong.

    If no such step names a side, the result is the first step in which either side may be wrong.
    """
    either: Uneven | None = None
    made = [by_step(side.calls) for side in pair]
    for step in sorted(made[0].keys() | made[1].keys()):
        here = [own.get(step, []) for own in made]
        if len(here[0]) == len(here[1]) and not any(map(partners.strange, zip(*here, strict=True))):
            continue
        more = one_step_more(steps.run_index, steps.run_index.communicator(_communicator(pair)).ranks, step)
        if more:
            return either or Uneven(steps.run_index.position([*here[0], *here[1]][0]), None, True, more, (), more)
        apart = frozenset((side.rank, step) for side in pair)
        judged = [{name: rules(steps, (side.rank, step), name, apart) for name in sorted(side.names)} for side in pair]
        judged = [_explaining(steps, partners, pair, which, step, own) for which, own in enumerate(judged)]
        odd = [any(one.odd for one in own.values()) for own in judged]
        if any(odd):
            alone = sum(odd) == 1 and pair[odd.index(True)].represents == 1
            found = _departs(steps, pair, odd.index(True), step, judged) if alone else None
            return found and _unless_new(steps, partners, pair, step, found)
        either = either or _either(steps, pair, step)
    return either


def _unless_new(steps: Steps, partners: Partners, pair: tuple[Side, Side], step: int, found: Uneven) -> Uneven:
    mine, theirs = (_of(side, step) for side in pair)
    met = [partners.strange(calls) for calls in zip(mine, theirs, strict=False)]
    index = met.index(True) if True in met else len(met)
    new = new_value(
        steps.run_index, step, {own[index].rank: own[index].at for own in (mine, theirs) if index < len(own)}
    )
    return found._replace(culprit=None, text=new, ground=(), why=new) if new else found


def _explaining(
    steps: Steps, partners: Partners, pair: tuple[Side, Side], which: int, step: int, judged: dict[Name, Rules]
) -> dict[Name, Rules]:
    """Returns the rules of a side, without those that contradict whether it made more or fewer calls than its peer.

    A call that no side made in the step is not left out: the step may be of another kind.
    """
    more = len(_of(pair[which], step)) - len(_of(pair[1 - which], step))
    theirs = {name_of(entry.raw) for entry in _of(pair[1 - which], step)}

    def explains(name: Name, own: Rules) -> bool:
        made = steps.made((pair[which].rank, step), name)
        if not made and not any(partners.meet(name, one) for one in theirs):
            return False
        surplus = made - own.usual if own.usual is not None else -(not made)
        return surplus * more >= 0

    return {name: own for name, own in judged.items() if not own.odd or explains(name, own)}


def _departs(steps: Steps, pair: tuple[Side, Side], which: int, step: int, judged: list[dict[Name, Rules]]) -> Uneven:
    side, peer, own = pair[which], pair[1 - which], judged[which]
    name = max(own, key=lambda one: own[one].broken - own[one].kept)
    number, found = steps.made((side.rank, step), name), own[name]
    site = name[1]
    more = len(_of(side, step)) > len(_of(peer, step)) if found.usual is None else number > found.usual
    more = more and number > 0
    who = f"rank {side.rank}"
    did = f"{who} made {site} {times(number)} in step {step}" if number else left_out((side.rank,), site, step)
    if found.usual is None:
        of = "other steps" if found.own else "steps of other ranks"
        orders = f"{found.broken} of {found.broken + found.kept} orders of ops"
        rests = f"{site} is not at its place: step {step} breaks {orders} that {found.steps} {of} keep"
    elif found.own:
        rests = f"rank {side.rank} made {site} {times(found.usual)} in {found.steps} of {found.steps} other steps"
    else:
        rests = f"other ranks made {site} {times(found.usual)} in {found.steps} of {found.steps} steps"
    ground = [rests, *_tags(pair, step)]
    if all(one.sound for one in judged[1 - which].values()):
        ground.append(f"step {step} of its peer, rank {peer.rank}, matches its other steps")
    return _uneven(steps, side, name, step, more, did, ground)


def _either(steps: Steps, pair: tuple[Side, Side], step: int) -> Uneven | None:
    """Returns a result without a culprit: one side made one call more often than its peer made any call."""
    peer, side = sorted(pair, key=lambda one: len(_of(one, step)))
    if _stopped_before(steps.run_index, peer.rank, step, side.rank):
        return None
    often, others = (Counter(name_of(entry.raw) for entry in _of(one, step)).most_common(1) for one in (side, peer))
    few = others[0][1] if others else 0
    if often[0][1] <= few or not (others or _tags(pair, step) or _never(steps, peer, step)):
        return None  # a single wait without a wrong pair proves nothing
    if often[0][0][0] == "collective" and not _other_sites(side, peer, step):
        return None
    most = f"no call more than {times(few)}" if few else "none"
    [(name, number)], first = often, min(_of(side, step), key=steps.run_index.position)
    ground = (
        f"rank {side.rank} made {name[1]} {times(number)}, rank {peer.rank} {most}",
        f"no other step shows the usual number: rank {side.rank} made one too many, or rank {peer.rank} one too few",
    )
    calls = counted(len(_of(side, step)), "call")
    numbers = f"rank {side.rank} made {calls} in step {step} and rank {peer.rank} {len(_of(peer, step))}"
    return Uneven(
        steps.run_index.position(first), None, True, f"{numbers}, and no evidence shows which is right", ground
    )


def _never(steps: Steps, side: Side, step: int) -> bool:
    more = {when for rank, when in steps.rows if rank == side.rank and when >= 0} - {step}
    return not side.calls and sum(steps.done(side.rank, when) for when in more) >= FEW


def _stopped_before(run_index: RunIndex, rank: int, step: int, peer: int) -> bool:
    states = chain(run_index)
    own = states.get(rank)
    if own is None or own.since is None or own.since.step != step:
        return False
    if own.state == "waits" and own.waits_for:
        return not way(states, rank, {peer})
    if own.state not in ("raised", "stopped"):
        return False
    following = OpPlaces(run_index).next_op(own.since)
    return following is not None and following.step == step and following.op.token[0] != "decision"


def _other_sites(side: Side, peer: Side, step: int) -> bool:
    met = zip(_of(side, step), _of(peer, step), strict=False)
    return any(one.raw[SITE] != other.raw[SITE] for one, other in met)


def _communicator(pair: tuple[Side, Side]) -> str:
    return str(next(entry.raw[COMMUNICATOR] for side in pair for entry in side.calls))


def _of(side: Side, step: int) -> list[Entry]:
    return [entry for entry in side.calls if entry.step == step]


def _uneven(steps: Steps, side: Side, name: Name, step: int, more: bool, did: Part, ground: list[str]) -> Uneven:
    run_index = steps.run_index
    here = [one.entry for one in steps.rows.get((side.rank, step), ()) if one.name == name]
    known = here or [one.entry for row in steps.rows.values() for one in row if one.name == name]
    own = [entry for entry in known if entry.rank == side.rank] or known
    place = own[0]
    if not here:  # a call that it left out has the line of a peer, if one makes the call there
        lines = (one for one in known if one.rank != side.rank and one.record.where == place.record.where)
        place = min(lines, key=lambda one: one.step != step, default=place)
    culprit = replace(run_index.culprit(place, side.rank), step=step)
    position = min((run_index.position(entry) for entry in _of(side, step)), default=(step, 0))
    return Uneven(position, culprit, more, did, tuple(ground))


def _tags(pair: tuple[Side, Side], step: int) -> list[str]:
    met = [(one.step, other.step) for one, other in zip(pair[0].calls, pair[1].calls, strict=False)]
    later = [one != other for one, other in met if max(one, other) > step]
    return [f"step tags of the two sides differ in {sum(later)} of {len(later)} later pairs"] if any(later) else []
