"""Of run: draws the picture of a run of dpsim on any backend, and marks the culprit of its first finding.

    picture = picture_of_run(world, run, judge(world, run), "skip_one")

If the culprit left out a call, the picture has a hole where the peers made it. If the finding is a race, both accesses
are marked. Several equal messages to one mailbox pair up in order: the first take gets the first post.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.run_index import RunIndex
from dpsim.contract.kinds import SENDS
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    OP,
    STORE_HOW,
    STORE_KEY,
    STORE_NODE,
    STORE_PORT,
    STORE_VALUE,
    STREAM,
    TAKE_MAILBOX,
    RawRecord,
    posted,
)
from dpsim.contract.times import ActorTimes, fits
from dpsim.contract.words import ranks_text, with_services
from dpsim.contract.world import Run, World
from dpsim.diagnose.evidence import NOTHING, Extras
from dpsim.diagnose.first_screen import first_screen, turning_texts
from dpsim.diagnose.fitting import labelled
from dpsim.diagnose.pictures.decisions import mark_decisions
from dpsim.diagnose.pictures.journal_ops import RankOps
from dpsim.diagnose.pictures.logical_time import move_all
from dpsim.diagnose.pictures.meetings import holes_of, join_parts, say_waits
from dpsim.diagnose.pictures.op import NEVER, DrawnOp, Hole, Picture
from dpsim.diagnose.pictures.turning import mark_turning
from dpsim.diagnose.pictures.waits import say_own_waits
from dpsim.diagnose.words import in_words


def picture_of_run(
    world: World, run: Run, findings: Sequence[Finding], title: str, in_ticks: bool = False, extras: Extras = NOTHING
) -> Picture:
    """Returns the picture. `title` is the name of the scenario. `in_ticks`: use logical time even if the
    run has times. `extras`: the events whose swap lets the run finish, which get a line and a mark.
    """
    index = RunIndex.of(world, run)
    world, run = index.world, index.run
    members: dict[str, Sequence[int]] = {spec.name: spec.ranks for spec in world.communicators}
    times = None if in_ticks else _times(run)
    ranks = [
        RankOps(rank, journal, members, end, None if times is None else times[rank])
        for rank, (journal, end) in enumerate(zip(run.journals, run.ends, strict=True))
    ]
    ops = [op for rank in ranks for op in rank.ops]
    join_parts(ops, members)
    _hold_sends(ranks)
    _match_messages(ranks)
    _match_stores(ranks)
    move_all([move for rank in ranks for move in rank.moves()], [lane for rank in ranks for lane in rank.over])
    shown = [op for op in ops if op.kind != "mark" and (not op.silent or op.end is None or op.end > (op.begin or 0))]
    lines = (
        first_screen(run, findings, NOTHING) if findings else [f"HELD  in 1 schedule: {title}; no check finds anything"]
    )
    lines += labelled("turning", [text for text in turning_texts(run, extras) if text])
    picture = Picture(
        title=title,
        lines=in_words(run, "\n".join(lines)).split("\n"),
        actors=[with_services(f"rank {rank}", run.size, run.services) for rank in range(len(run.journals))],
        ends=run.ends,
        ops=shown,
        unit="tick" if times is None else "ns",
        open_ends=times is not None and not any(own.over for own in times),
    )
    say_waits(picture, lambda missing: with_services(ranks_text(missing), run.size, run.services))
    picture.arrows += say_own_waits(index, ranks)
    _mark(picture, index, ranks, findings)
    mark_turning(picture, run, ranks, extras.swaps)
    for op in ops:
        op.said = with_services(op.said, run.size, run.services)
        if op.key is not None:
            op.key = with_services(op.key[0], run.size, run.services), op.key[1]
    return picture


def _times(run: Run) -> list[ActorTimes] | None:
    """Returns the times of a run relative to its first record; None if it has none."""
    if not fits(run.times, run.journals):
        return None
    first = min((own.written[0] for own in run.times if own.written), default=0)
    return [
        ActorTimes([at - first for at in own.written], {at: over - first for at, over in own.over.items()})
        for own in run.times
    ]


# ---- sends, messages and stores


def _hold_sends(ranks: Sequence[RankOps]) -> None:
    """Lets each send of a blocked rank that did not certainly complete wait for its receive."""
    receives = {op.key: op for rank in ranks for op in rank.ops if op.kind == "transfer" and op.said.startswith("recv")}
    for rank in ranks:
        for at, raw in enumerate(rank.journal):
            if raw[KIND] == "transfer" and raw[OP] == "send" and raw[STREAM] is not None:
                op = rank.by_at[at]
                if not rank.is_passed(at, raw[STREAM]):
                    op.after.append(receives[op.key].began if op.key in receives else NEVER)


def _match_messages(ranks: Sequence[RankOps]) -> None:
    """Lets each take that returned a message wait for its post, and gives both one key."""
    posts: dict[Any, list[DrawnOp]] = defaultdict(list)
    for rank in ranks:
        for at, raw in enumerate(rank.journal):
            if raw[KIND] == "post" and (sent := posted(raw)) is not None:
                to, mailbox, content = sent
                posts[to, mailbox, repr(content)].append(rank.by_at[at])
    taken: dict[Any, int] = defaultdict(int)
    numbers: dict[tuple[int, str], int] = defaultdict(int)
    for rank in ranks:
        for at, raw in enumerate(rank.journal):
            content = rank.outcomes.get(raw[ADDRESS]) if raw[KIND] == "take" else None
            if content is None:
                continue
            of = rank.rank, raw[TAKE_MAILBOX], repr(content)
            number = taken[of]
            taken[of] += 1
            if number < len(posts[of]):
                post, take = posts[of][number], rank.by_at[at]
                take.after.append(post.over)
                post.key = take.key = f"{raw[TAKE_MAILBOX]} of rank {rank.rank}", numbers[of[:2]]
                numbers[of[:2]] += 1


def _match_stores(ranks: Sequence[RankOps]) -> None:
    """Lets each get that returned a value wait for the first set of this value, and gives both one key.

    A value that no set wrote, such as a sum of `add`, waits for the first set of its key. Several gets may share a set.
    """
    sets: dict[tuple[int, int, str], dict[str, DrawnOp]] = defaultdict(dict)
    for rank in ranks:
        for at, raw in enumerate(rank.journal):
            if raw[KIND] == "store" and raw[STORE_HOW] == "set":
                sets[_entry(raw)].setdefault(repr(raw[STORE_VALUE]), rank.by_at[at])
    numbers: dict[int, int] = {}
    for rank in ranks:
        for at, raw in enumerate(rank.journal):
            outcome = rank.outcomes.get(raw[ADDRESS]) if raw[KIND] == "store" and raw[STORE_HOW] == "get" else None
            known = sets.get(_entry(raw)) if outcome is not None else None
            if not known:
                continue
            before, get = known.get(repr(outcome)), rank.by_at[at]
            get.after.append((before or next(iter(known.values()))).over)
            if before is not None:
                number = numbers.setdefault(id(before), len(numbers))
                before.key = get.key = f"key {raw[STORE_KEY]} of node {raw[STORE_NODE]}", number


def _entry(raw: RawRecord) -> tuple[int, int, str]:
    """Returns the node, port and key of a set or get."""
    return raw[STORE_NODE], raw[STORE_PORT], raw[STORE_KEY]


# ---- what the first finding marks


def _mark(picture: Picture, index: RunIndex, ranks: Sequence[RankOps], findings: Sequence[Finding]) -> None:
    """Marks the culprit's op, the call that it left out, the two accesses of a race, or decisions that differ."""
    if not findings or findings[0].culprit is None:
        picture.undecided = bool(findings)
        picture.focus = findings[0].position[0] if findings else None
        for finding in findings[:1]:
            mark_decisions(ranks, finding)
        picture.holes += holes_of(picture, ())
        return
    primary, culprit = findings[0], findings[0].culprit
    picture.culprits = culprit.ranks or (culprit.rank,)
    picture.focus = culprit.step
    if primary.klass.startswith("RACE:") and index.buffers:
        picture.pairs += _pairs(index, ranks, culprit, picture.culprits)
        return
    left_out: list[Hole] = []
    for rank in picture.culprits:
        own = [op for op in picture.ops if op.rank == rank and _is_of(op, culprit)]
        for op in own:
            op.marked = True
        if not own:
            left_out += _left_out(picture, rank, culprit)
    picture.holes += left_out
    picture.holes += holes_of(picture, left_out)


def _is_of(op: DrawnOp, culprit: Culprit) -> bool:
    """Returns whether an op is the culprit's op, or its death. The end of a thread has another site than
    its exception.
    """
    if op.kind == "died":
        return True
    ended = op.kind == "ended" and bool(culprit.where) and op.where == culprit.where
    return op.step == culprit.step and (op.site == culprit.site or ended)


def _left_out(picture: Picture, rank: int, culprit: Culprit) -> list[Hole]:
    """Returns a hole for the call that the culprit did not make, at the place where the first of its peers made it."""
    alike = [op for op in picture.ops if (op.step, op.site) == (culprit.step, culprit.site) and op.begin is not None]
    alike = [op for op in alike if op.kind in SENDS]
    return [Hole(rank, min(alike, key=lambda op: (op.begin, op.rank)), True)] if alike else []


def _pairs(
    index: RunIndex, ranks: Sequence[RankOps], culprit: Culprit, culprits: Sequence[int]
) -> list[tuple[DrawnOp, DrawnOp]]:
    """Returns, for each culprit, its earliest two unordered accesses of which the finding names one."""
    found: dict[int, tuple[DrawnOp, DrawnOp]] = {}
    for rank, first, second in sorted(index.memory.pairs, key=lambda pair: (pair[2].at, pair[0])):
        one, other = ranks[rank].by_at.get(first.at), ranks[rank].by_at.get(second.at)
        if rank not in culprits or rank in found or one is None or other is None:
            continue
        if (culprit.step, culprit.site) in ((one.step, one.site), (other.step, other.site)):
            one.marked = other.marked = True
            found[rank] = one, other
    return [*found.values()]
