"""Tests happens-before on random programs: the walk over the journals orders the same accesses as the transitive
closure of an explicit graph of points (`naive`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.checks.happens_before.clocks import MASKS_UP_TO, Clock, Clocks, Masks, Point, Vectors, clocks_for
from dpsim.checks.happens_before.hosts import HostState
from dpsim.checks.happens_before.mailboxes import MailboxHistory, Posts
from dpsim.checks.happens_before.meeting import WalkState
from dpsim.checks.happens_before.points import NullSink, Signal, StreamPoint
from dpsim.checks.happens_before.streams import Lane, lane_of
from dpsim.checks.happens_before.threads import THREADED, FlagState, ThreadedHost
from dpsim.checks.happens_before.walk import Walk
from dpsim.contract.ops import FLAG, FLAG_HOW, KIND, THREAD_HOW, RawRecord, Refs
from tests.checks.happens_before.naive import Access, Program
from tests.checks.happens_before.naive_threads import ThreadedProgram


class Watched(NullSink):
    """Records each access, in the order in which the walk reports them."""

    def __init__(self) -> None:
        self.told: dict[tuple[int, int], tuple[StreamPoint, int, Clock]] = {}

    def access(self, stream: StreamPoint, at: int, reads: Refs, writes: Refs, group: int | None = None) -> None:
        assert (stream.rank, at) not in self.told
        self.told[stream.rank, at] = stream, stream.position, stream.clock


def walked(program: Program, clocks: Any = clocks_for, rebuilt: bool = True) -> Watched:
    """Walks over the journals of a program. `rebuilt`: uses the full method even if a simpler one would suffice."""
    sink, size = Watched(), program.size
    happened = all(program.graph.happened(access.point) for access in program.accesses)
    walk = Walk(
        program.made.world, program.made.run(*["finished" if happened else "blocked"] * size), sink, clocks=clocks
    )
    walk.plain = walk.plain and not rebuilt
    walk.go()
    return sink


def ordered(sink: Watched, one: Access, other: Access) -> bool:
    """Whether the walk orders two accesses."""
    turns = list(sink.told)
    first, then = sorted([(one.rank, one.at), (other.rank, other.at)], key=turns.index)
    (was, position, _), (stream, _, clock) = sink.told[first], sink.told[then]
    return was is stream or stream.clocks.knows(clock, was.actor, position)


def compare(seed: int, threads: bool = False) -> Counter[str]:
    """Compares each pair of accesses of a rank. Counts the pairs by the order of the closure, and those that the walk
    leaves unordered though they are ordered.
    """
    program = ThreadedProgram(seed) if threads else Program(seed)
    truth = program.orders()
    if truth is None:
        return Counter(too_many=1)
    sink = walked(program)
    alive = [access for access in program.accesses if program.graph.happened(access.point)]
    assert {(one.rank, one.at) for one in alive} == set(sink.told), (
        f"seed {seed}: the fold sees the accesses that happen"
    )
    several = any(len(list(program.explanations(rank))) > 1 for rank in range(program.size))
    counts = Counter(programs=1, several=several, dead=len(program.accesses) > len(alive), groups=bool(program.groups))
    if isinstance(program, ThreadedProgram):
        counts.update(raw[KIND] for hand in program.made.hands for raw in hand.journal)
    plain = program.contents == "all"
    turns = {place: turn for turn, place in enumerate(sink.told)}
    for index, one in enumerate(alive):
        for other in alive[:index]:
            if one.rank != other.rank:
                continue
            after, before = truth[one.point] >> other.point & 1, truth[other.point] >> one.point & 1
            found = ordered(sink, one, other)
            where = f"seed {seed}, rank {one.rank}, {other.at} and {one.at}"
            assert not found or after or before, f"{where}: nothing orders them"
            assert found or not (after or before) or not plain, f"{where}: they are ordered"
            if after or before:
                late = turns[one.rank, one.at] > turns[other.rank, other.at]
                assert late == bool(after), f"{where}: the fold has the accesses in the wrong order"
            counts["ordered" if after or before else "unordered"] += 1
            counts["less"] += bool(after or before) and not found
    return counts


@pytest.mark.parametrize("part", [*range(4), *(pytest.param(part, marks=pytest.mark.slow) for part in range(4, 40))])
def test_the_fold_agrees_with_the_closure(part: int) -> None:
    """The walk never orders more than the closure. It orders less only where the contents of messages are mixed."""
    counts = sum((compare(seed) for seed in range(part * 100, part * 100 + 100)), Counter())
    assert counts["programs"] > 95
    assert counts["several"] > 10, "too few programs whose messages have several explanations"
    assert counts["groups"] > 30
    assert counts["dead"] > 20
    assert min(counts["ordered"], counts["unordered"]) > 1500
    assert counts["less"] < 20


@pytest.mark.parametrize("part", [*range(2), *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, 30))])
def test_the_fold_agrees_with_the_closure_where_ranks_have_threads(part: int) -> None:
    """The walk orders exactly what the closure orders, also where ranks have several host threads."""
    counts = sum((compare(seed, threads=True) for seed in range(part * 100, part * 100 + 100)), Counter())
    assert counts["programs"] == 100
    assert min(counts["ordered"], counts["unordered"]) > 1500
    assert min(counts["flag"], counts["thread"], counts["ended"]) > 60
    assert counts["less"] == 0


def one_clock(self: ThreadedHost, thread: str) -> None:
    """A faulty twin: all threads of a rank share one clock."""
    self._thread = thread


def any_set_counts(self: ThreadedHost, raw: RawRecord) -> None:
    """A faulty twin: a thread that waits for a flag comes after each set, even a set of a flag that is already set."""
    if raw[FLAG_HOW] == "set":
        self._flags.setdefault(raw[FLAG], FlagState()).clock = None
    flag_of(self, raw)


def cleared_is_forgotten(self: ThreadedHost, raw: RawRecord) -> None:
    """A faulty twin: a clear of the flag removes the order of a wait that a set has already released."""
    flag_of(self, raw)
    if raw[FLAG_HOW] == "clear":
        for look in [one for looks in self._looks.values() for one in looks if one.flag is self._flags[raw[FLAG]]]:
            look.clock = None


def nothing_at_start(self: ThreadedHost, raw: RawRecord) -> None:
    """A faulty twin: the start of a thread makes no order."""
    if raw[THREAD_HOW] == "join":
        about_thread(self, raw)


def nothing_at_join(self: ThreadedHost, _: RawRecord) -> None:
    """A faulty twin: the end of a thread makes no order."""


flag_of, about_thread = ThreadedHost._flag, ThreadedHost._about_thread


@pytest.mark.parametrize(
    ("where", "what", "fault"),
    [
        (ThreadedHost, "_enter", one_clock),
        (THREADED, "flag", any_set_counts),
        (THREADED, "flag", cleared_is_forgotten),
        (THREADED, "thread", nothing_at_start),
        (THREADED, "ended", nothing_at_join),
    ],
)
def test_a_fold_that_takes_threads_wrongly_is_noticed(
    where: Any, what: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(where, dict):
        monkeypatch.setitem(where, what, fault)
    else:
        monkeypatch.setattr(where, what, fault)
    with pytest.raises(AssertionError, match="seed"):
        sum((compare(seed, threads=True) for seed in range(300)), Counter())


def all_wait_for_all(_: Any, __: int, members: Sequence[int]) -> Sequence[int]:
    return members


def no_turns(*_: Any) -> list[Signal]:
    return []


def one_lane(raw: RawRecord, _: int) -> Lane:
    return lane_of(raw, 0)


def through(self: WalkState, rank: int, raw: RawRecord, point: Point) -> Signal:
    """A faulty twin: the end of a collective at one member proves its end at all members."""
    return arrive(self, rank, raw, (point[0], point[1], point[2] + 1))


def first_that_fits(
    self: MailboxHistory, message: Any, posts: Posts, clocks: Clocks
) -> tuple[Clock | None, Signal | None]:
    """A faulty twin: a take gets the first post with its content."""
    signals = [post[1] for letters in self.senders.values() for post in letters.posts if post[0] == message]
    if signals[0].clock is None:
        return None, signals[0] if posts == "wait" else None
    return signals[0].clock, None


arrive = WalkState.arrive


@pytest.mark.parametrize(
    ("where", "what", "fault"),
    [
        ("dpsim.checks.happens_before.meeting", "awaited", all_wait_for_all),
        ("dpsim.checks.happens_before.hosts", "lane_of", one_lane),
        (HostState, "_turn", no_turns),
        (WalkState, "arrive", through),
        (MailboxHistory, "take", first_that_fits),
    ],
)
def test_a_fold_that_is_wrong_is_noticed(where: Any, what: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(where, str):
        monkeypatch.setattr(f"{where}.{what}", fault)
    else:
        monkeypatch.setattr(where, what, fault)
    with pytest.raises(AssertionError, match="seed"):
        sum((compare(seed) for seed in range(300)), Counter())


@pytest.mark.parametrize("part", range(2))
def test_both_kinds_of_clock_order_the_same(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        program = Program(seed)
        masks, vectors = walked(program, Masks), walked(program, Vectors)
        assert list(masks.told) == list(vectors.told), f"seed {seed}"
        alive = [access for access in program.accesses if (access.rank, access.at) in masks.told]
        for index, one in enumerate(alive):
            for other in alive[:index]:
                if one.rank == other.rank:
                    assert ordered(masks, one, other) == ordered(vectors, one, other), f"seed {seed}"


def test_a_rank_with_one_stream_is_read_in_journal_order() -> None:
    """If a rank has one stream, the walk reads its journal in order. It reports the same accesses as the full
    method.
    """
    plain = 0
    for seed in range(200):
        program = Program(seed, streams=1)
        as_it_stands, rebuilt = walked(program, rebuilt=False), walked(program)
        for rank in range(program.size):
            mine = [[place for place in sink.told if place[0] == rank] for sink in (as_it_stands, rebuilt)]
            found = [[place for place in places if place not in program.idle] for places in mine]
            assert program.groups or found[0] == found[1], f"seed {seed}"
        plain += not program.groups
    assert plain > 50


def test_the_length_of_the_run_selects_the_kind_of_clock() -> None:
    assert type(clocks_for([0, 3, MASKS_UP_TO - 3])) is Masks
    assert type(clocks_for([0, 4, MASKS_UP_TO - 3])) is Vectors


@pytest.mark.parametrize("kind", [Masks, Vectors])
def test_a_clock_knows_exactly_the_ops_that_reached_it(kind: Any) -> None:
    """Compares clocks with sets of ops: a clock knows the ops of an actor up to a position, and all that those knew."""
    rng = random.Random(5)
    lengths = [0, 3, 9, 1, 6]
    clocks: Clocks = kind(lengths)
    known: list[tuple[Any, set[tuple[int, int]]]] = [(clocks.nothing, set())]
    for _ in range(400):
        one, two = rng.choice(known), rng.choice(known)
        actor = rng.randrange(1, len(lengths))
        position = rng.randint(0, lengths[actor])
        upto = {(actor, number) for number in range(1, position + 1)}
        if not any((actor, number) in one[1] for number in range(position + 1, lengths[actor] + 1)):
            known.append((clocks.after(one[0], two[0], actor, position), one[1] | two[1] | upto))
        known.append((clocks.join(one[0], two[0]), one[1] | two[1]))
        known.append((clocks.joint([(one[0], actor, position), (two[0], 0, 7)]), one[1] | two[1] | upto))
        known.append((clocks.common([one[0], two[0]]), one[1] & two[1]))
        known = rng.sample(known, min(len(known), 30))
        for clock, ops in known:
            for other, length in enumerate(lengths):
                for number in range(1, length + 1):
                    assert clocks.knows(clock, other, number) == ((other, number) in ops)
