"""Random programs with memory: journals of `naive.Program` whose ops access buffers. Half of the programs also get a
mistake, which need not change the verdict.

A buffer is mostly used on the stream that owns it. A stream that waits for another stream takes over some of its
buffers. So some programs are in order and others are not. A mistake is one record that is changed or dropped, such as a
missing call, another size, or a different decision.

    program = painted(7)          # None if some op never happens
    program.world, program.run()
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dpsim.contract.ops import CALL, EVENT, KIND, OP, SMALL_BLOCK, STREAM, RawRecord, Ref
from dpsim.contract.rules.wait_set import is_idle
from tests.checks.handmade import Made
from tests.checks.happens_before.naive import Program
from tests.records import changed, raw

OFTEN = {"take": 12, "free": 8, "name": 8, "decide": 3}
"""The actions put before a record, in percent."""


class Buffer:
    """`tag`: the version that was last written, None for none. `last`: the last version that was not None."""

    def __init__(self, number: int, home: str, count: int) -> None:
        self.ref: Ref = (number, 0, count)
        self.home = self.owner = home
        self.written = False
        self.tag: Any = None
        self.last: Any = None


class Painter:
    """Writes the journal of one rank with accesses to memory."""

    def __init__(self, rng: random.Random, journal: list[RawRecord], names: tuple[str, ...]) -> None:
        self.rng, self.names = rng, names
        self.journal: list[RawRecord] = []
        self.live: list[Buffer] = []
        self.taken = self.decided = 0
        self.loose = rng.choice([0.0, 0.0, 0.02, 0.1])  # how often an op accesses a buffer of another stream
        self.blind = rng.choice([0.0, 0.0, 0.0, 0.3])  # how often it reads a buffer that no op wrote
        self.wrong = rng.choice([0.0, 0.0, 0.1])  # how often it expects a wrong version
        self.tags = rng.random() < 0.3
        self.events: dict[int, str] = {}
        for _ in range(2):
            self.take()
        for record in journal:
            self.before()
            self.journal.append(self.paint(record))

    def before(self) -> None:
        rng = self.rng
        what = rng.choices([*OFTEN, ""], [*OFTEN.values(), 100 - sum(OFTEN.values())])[0]
        if what == "take" and len(self.live) < 5:
            self.take()
        elif what == "free" and self.live:
            self.free(rng.choice(self.live))
        elif what == "name" and self.live:
            one = rng.choice(self.live)
            self.add("used", "record_stream", stream=rng.choice([one.owner, *self.names]), buffer=one.ref[0])
        elif what == "decide":
            self.decided += 1
            self.add("decision", "plan", ordinal=self.decided, communicator="cpu", value=self.decided)

    def add(self, kind: str, site: str, **fields: Any) -> None:
        self.journal.append(raw(kind, site, **fields))

    def take(self) -> None:
        count = SMALL_BLOCK // 4 + 8 if self.rng.random() < 0.1 else 8
        one = Buffer(self.taken, self.rng.choice(self.names[:2]), count)
        self.taken += 1
        place = (0, 0, 4 * count)
        self.add("alloc", "buffer", stream=one.home, buffer=one.ref[0], count=count, dtype="int32", place=place)
        self.live.append(one)
        if self.rng.random() > self.blind:
            if self.rng.random() < 0.1:
                one.owner = self.rng.choice(self.names)
            one.written = True
            self.add("launch", "write", stream=one.owner, reads=(), writes=(one.ref,))

    def free(self, one: Buffer) -> None:
        if one.owner != one.home:
            named = one.owner if self.rng.random() < 0.7 else self.rng.choice(self.names)
            self.add("used", "record_stream", stream=named, buffer=one.ref[0])
        self.add("free", "buffer", stream=one.home, buffer=one.ref[0])
        self.live.remove(one)

    def paint(self, record: RawRecord) -> RawRecord:
        """Returns the record with the memory that its op accesses."""
        kind, rng = record[KIND], self.rng
        if kind == "mark":
            self.events[record[EVENT]] = record[STREAM]
        elif kind == "wait":
            for one in self.live:
                if one.owner == self.events[record[EVENT]] and rng.random() < 0.5:
                    one.owner = record[STREAM]
        if kind not in ("launch", "read", "transfer", "collective") or record[STREAM] is None:
            return record
        if kind == "collective" and is_idle(record[CALL]):
            return record
        mine = [one for one in self.live if one.owner == record[STREAM] or rng.random() < self.loose]
        writes = kind == "launch" or kind == "collective" or record[OP] == "recv"
        reads = kind != "transfer" or record[OP] == "send"
        fields: dict[str, Any] = {}
        if reads:
            known = [one for one in mine if one.written or rng.random() < self.blind]
            fields["reads"] = tuple(self.named(one, True) for one in known if rng.random() < 0.5)
        if writes:
            fields["writes"] = tuple(self.named(one, False) for one in mine if rng.random() < 0.4)
        return changed(record, **fields)

    def named(self, one: Buffer, reads: bool) -> Ref:
        """Returns a part of the buffer or all of it, perhaps with a version."""
        number, first, end = one.ref[:3]
        part: tuple[int, int, int] = (number, first, end)
        if self.rng.random() < 0.4:
            part = self.rng.choice([(number, 0, 4), (number, 4, 8), (number, 2, 6), (number, 3, 3)])
        if reads:
            expected = (one.last or "none") if self.rng.random() < self.wrong else one.tag
            return (*part, expected) if self.tags and expected is not None else part
        if self.tags and part[2] - part[1] == end:
            one.tag = self.rng.choice([None, 1, 2])
            one.last = one.tag or one.last
            return part if one.tag is None else (*part, one.tag)
        one.tag = None if part[1] < part[2] else one.tag
        return part


def painted(seed: int) -> Made | None:
    """Returns a program, or None if some of its ops never happen, so that no run finishes."""
    program, rng = Program(seed), random.Random(seed)
    while any(program.sends.values()):  # each send gets its receive
        program.recv(0)
    if len(program.graph.all_happened()) < len(program.graph.before) or any(program.works):
        return None
    made = program.made
    for hand in made.hands:
        hand.journal = [*Painter(rng, hand.journal, program.names).journal, raw("finished", "end")]
    shortest = min(sum(one[KIND] == "decision" for one in hand.journal) for hand in made.hands)
    for hand in made.hands:  # all ranks decide equally often
        hand.journal = [one for one in hand.journal if one[KIND] != "decision" or one[4] <= shortest]
    if rng.random() < 0.5:
        rng.choice(SPOILS)(rng, made)
    return made


# ---- mistakes


def change(kind: str, **fields: Any) -> Callable[[random.Random, Made], None]:
    """Returns a mistake that changes a record of this kind."""

    def spoil(rng: random.Random, made: Made) -> None:
        hand, at = _some(rng, made, kind)
        if at is not None:
            hand.journal[at] = changed(hand.journal[at], **fields)

    return spoil


def drop(kind: str) -> Callable[[random.Random, Made], None]:
    """Returns a mistake that drops a record of this kind."""

    def spoil(rng: random.Random, made: Made) -> None:
        hand, at = _some(rng, made, kind)
        if at is not None:
            del hand.journal[at]

    return spoil


def misspell(rng: random.Random, made: Made) -> None:
    """A mistake: the decisions of one rank have another label."""
    hand = rng.choice(made.hands)
    hand.journal = [changed(one, site="plna") if one[KIND] == "decision" else one for one in hand.journal]


def _some(rng: random.Random, made: Made, kind: str) -> tuple[Any, int | None]:
    hand = rng.choice(made.hands)
    places = [at for at, record in enumerate(hand.journal) if record[KIND] == kind]
    return hand, rng.choice(places) if places else None


SPOILS = [
    change("collective", step=9),
    change("collective", dtype="int64"),
    change("collective", count=5),
    change("transfer", count=5),
    change("transfer", dtype="float32"),
    change("decision", value=-1),
    change("decision", step=7),
    misspell,
    drop("learned"),
    drop("transfer"),
    drop("collective"),
    drop("wait"),
    drop("wait"),
    drop("wait"),
]
