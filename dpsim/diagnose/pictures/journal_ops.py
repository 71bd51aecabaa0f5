"""Journal ops: turns the journal of one rank into the ops of a picture, in the order in which its threads issued them.

Each host thread and each stream has its own lane in the picture. A copy from device to host
becomes two ops: the copy on its stream, and the wait of the host. Allocations, event records and results are not drawn.
A stream's wait for an event is drawn only if the event had not passed when the stream reached the wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.checks.stuck import passed_on_streams
from dpsim.contract.kinds import ENDS, MEETS, MEMORY, ORDER, WORK, learns
from dpsim.contract.ops import (
    ADDRESS,
    ASK_HOW,
    CALL,
    COMMUNICATOR,
    EVENT,
    FLAG,
    FLAG_AWAITED,
    FLAG_HOW,
    KIND,
    LEARNED_OUTCOME,
    LOOK_NUMBER,
    LOOK_OF,
    MAIN,
    OP,
    ORDINAL,
    SEQ,
    SITE,
    STEP,
    STREAM,
    THREAD,
    THREAD_NAME,
    TRANSFER_GROUP,
    TRANSFER_PEER,
    WHERE,
    RawRecord,
    as_record,
)
from dpsim.contract.rules.wait_set import awaited, is_idle
from dpsim.contract.times import ActorTimes
from dpsim.contract.words import short, taken_text
from dpsim.contract.world import End
from dpsim.diagnose.pictures.logical_time import Issues, Learns, Move, StreamLane, ThreadMoves
from dpsim.diagnose.pictures.meetings import LINE
from dpsim.diagnose.pictures.op import HOST, NEVER, DrawnOp, Key

ON_STREAMS = (WORK | ORDER) - MEETS
INSTANT = ENDS | {"post", "decision", "sleep", "abort", "capture", "replay"}
"""Kinds of op that occupy the host for one tick."""
BRIEF = 1_000
"""The drawn length, in ns, of a call that returns at once. A run with times has its begin and not its end."""

SILENT = MEMORY | {"kept", "watch", "probe", "group", "injected"}
"""Kinds of record that are not drawn. Traces contain no injections, so a picture has none either."""

WAITS = {
    "take": "waits for a message",
    "flag": "waits for a flag",
    "thread": "waits for a thread",
    "ask": "waits for its stream",
    "store": "waits for the store",
    "receive_any": "waits for any rank",
}
"""What a host waits for, by the kind of call in which it is blocked."""


class RankOps:
    """The ops of a rank.

    `members`: communicator -> its ranks. `by_at`: the op of a record, if it has one. `marks`: the op that recorded an
    event. `times`: when records were written, in ns; None for ticks.
    """

    def __init__(
        self,
        rank: int,
        journal: list[RawRecord],
        members: Mapping[str, Sequence[int]],
        end: End,
        times: ActorTimes | None = None,
    ) -> None:
        self.rank, self.journal, self.members, self.end, self.times = rank, journal, members, end, times
        self._now: int | None = None
        self._brief: dict[str, DrawnOp] = {}
        self.ops: list[DrawnOp] = []
        self.by_at: dict[int, DrawnOp] = {}
        self.threads: dict[str, list[Move]] = {}
        self.lanes: dict[str, StreamLane] = {}
        self.outcomes = {raw[ADDRESS]: raw[LEARNED_OUTCOME] for raw in journal if raw[KIND] == "learned"}
        self._pending: dict[tuple[Any, ...], DrawnOp] = {}
        self.marks: dict[int, DrawnOp] = {}
        self._sets: dict[str, DrawnOp] = {}
        self._starts: dict[str, DrawnOp] = {}
        self._ends: dict[str, DrawnOp] = {}
        self._group: tuple[Any, ...] = ()
        self._passed = passed_on_streams(journal) if end == "blocked" else None
        for at, raw in enumerate(journal):
            self._read(at, raw)
        self._block_threads()

    def is_passed(self, at: int, stream: str) -> bool:
        """Returns whether an op on a stream certainly completed, as far as the journal of a blocked rank shows it."""
        return self._passed is None or at < self._passed.get(stream, 0)

    @property
    def over(self) -> list[StreamLane]:
        """The streams on which all ops completed, because the rank ended."""
        return [*self.lanes.values()] if self.end == "finished" else []

    def moves(self) -> list[ThreadMoves]:
        return [ThreadMoves(self.rank, moves) for moves in self.threads.values()]

    # ---- a record

    def _read(self, at: int, raw: RawRecord) -> None:
        kind = raw[KIND]
        if self.times is not None:
            self._tell(self.times.written[at], raw)
        if kind in SILENT:
            return
        if kind == "learned":
            op = self._pending.get(raw[ADDRESS])
            if op is not None:
                op.until = self._now
                self._thread(raw).append(Learns(op, self._now))
        elif kind in MEETS:
            self._part(at, raw)
        elif kind in ON_STREAMS:
            self._streamed(at, raw)
        elif kind in INSTANT or not learns(raw) or (kind == "flag" and raw[FLAG_HOW] == "query"):
            self._instant(at, raw)
        else:
            self._awaited(at, raw)

    def _tell(self, now: int, raw: RawRecord) -> None:
        """Notes that the record was written at time `now`, so the previous call of its thread had returned by then.

        A sleep lasts until this time. Any other call that returns at once is drawn with a length of at most BRIEF.
        """
        self._now = now
        before = self._brief.pop(raw[THREAD], None)
        if before is not None and before.until is not None:
            before.until = now if before.kind == "sleep" else min(before.until, now)

    def _thread(self, raw: RawRecord) -> list[Move]:
        name = raw[THREAD]
        moves = self.threads.get(name)
        if moves is None:
            start = self._starts.get(name)
            moves = self.threads[name] = [] if start is None else [Learns(start)]
        return moves

    def _op(self, at: int, raw: RawRecord, lane: str, **more: Any) -> DrawnOp:
        site, ordinal = raw[SITE], raw[ORDINAL]
        words, address = as_record(raw).describe(), f"{site}[{ordinal}]"
        if raw[KIND] == "take" and raw[ADDRESS] in self.outcomes:
            words = short(f"{words} -> {taken_text(self.outcomes[raw[ADDRESS]])}", 80)
        op = DrawnOp(self.rank, lane, raw[KIND], words, site, address, raw[STEP], raw[WHERE], **more)
        if self.times is not None:
            op.length, op.until = 0, self.times.over.get(at)
        self.ops.append(op)
        self.by_at[at] = op
        return op

    def _host(self, raw: RawRecord) -> str:
        return HOST if raw[THREAD] == MAIN else f"thread {raw[THREAD]}"

    def _lane(self, name: str) -> StreamLane:
        return self.lanes.setdefault(name, StreamLane())

    def _instant(self, at: int, raw: RawRecord) -> DrawnOp:
        op = self._op(at, raw, self._host(raw))
        if self._now is not None:
            op.until = self._now + BRIEF
            self._brief[raw[THREAD]] = op
        self._thread(raw).extend((Issues((op,), None, self._now), Learns(op)))
        if raw[KIND] == "flag":
            self._sets[raw[FLAG]] = op
        elif raw[KIND] == "thread":
            self._starts[raw[THREAD_NAME]] = op
        elif raw[KIND] == "ended":
            self._ends[raw[THREAD]] = op
        return op

    def _awaited(self, at: int, raw: RawRecord) -> DrawnOp:
        """Adds an op of the host that waits for another op."""
        op = self._op(at, raw, self._host(raw))
        op.label = WAITS.get(raw[KIND], "")
        op.passive = raw[KIND] == "ask" and raw[ASK_HOW] == "synchronize"
        self._await(raw, op)
        outcome = self.outcomes.get(raw[ADDRESS])
        before: DrawnOp | None = None
        if raw[KIND] == "ask" and (raw[ASK_HOW] == "synchronize" or outcome):
            before = self.marks.get(raw[EVENT])
        elif raw[KIND] == "look" and outcome:
            before = self._pending.get((raw[THREAD], raw[LOOK_OF], raw[LOOK_NUMBER]))
        elif raw[KIND] == "flag":
            before = self._sets.get(raw[FLAG])
        elif raw[KIND] == "thread":
            before = self._ends.get(raw[THREAD_NAME])
        if before is not None:
            op.after.append(before.over)
        return op

    def _await(self, raw: RawRecord, op: DrawnOp) -> None:
        self._pending[raw[ADDRESS]] = op
        self._thread(raw).append(Issues((op,), None, self._now))

    def _part(self, at: int, raw: RawRecord) -> None:
        """Adds the rank's part of a collective or transfer."""
        stream, transfer = raw[STREAM], raw[KIND] == "transfer"
        needs: Sequence[int]
        if transfer:
            key, needs = transfer_key(self.rank, raw), (raw[TRANSFER_PEER],)
        else:
            members = self.members[raw[COMMUNICATOR]]
            key, needs = (raw[COMMUNICATOR], raw[SEQ]), awaited(raw[CALL], self.rank, members)
            if stream is not None and not self.is_passed(at, stream):  # it may wait for all members
                needs = members
        op = self._op(at, raw, stream or self._host(raw), key=key, needs=needs)
        if stream is None:
            self._await(raw, op)
            return
        if not transfer and is_idle(raw[CALL]):  # it does not use the stream
            op.needs, op.length, op.silent = (), 0, True
            self._thread(raw).append(Issues((op,), None, self._now))
            return
        moves, group = self._thread(raw), (stream, raw[TRANSFER_GROUP]) if transfer else ()
        last = moves[-1] if moves else None
        if group and group[1] is not None and group == self._group and isinstance(last, Issues):
            moves[-1] = last._replace(ops=(*last.ops, op))
        else:
            moves.append(Issues((op,), self._lane(stream), self._now))
        self._group = group

    def _streamed(self, at: int, raw: RawRecord) -> None:
        """Adds an op on a stream; for a read also the wait of the host."""
        kind = raw[KIND]
        op = self._op(at, raw, raw[STREAM], length=0 if kind in ORDER else 1)
        if kind == "mark":
            self.marks[raw[EVENT]] = op
        elif kind == "wait" and raw[EVENT] in self.marks:
            op.after.append(self.marks[raw[EVENT]].over)
        elif kind == "flag_wait" and raw[FLAG_AWAITED] in self._sets:
            op.after.append(self._sets[raw[FLAG_AWAITED]].over)
        self._thread(raw).append(Issues((op,), self._lane(raw[STREAM]), self._now))
        if kind == "read":
            host = self._op(at, raw, self._host(raw), length=0)
            host.until, host.passive = None, True
            host.after.append(op.over)
            host.label = f"waits for stream {raw[STREAM]}"
            self._await(raw, host)

    # ---- the end

    def _block_threads(self) -> None:
        """If the rank did not end, each thread's last op without a result never ends. A rank that died gets an op for
        it.
        """
        if self.end == "died":
            step = next((raw[STEP] for raw in reversed(self.journal)), -1)
            dies = DrawnOp(self.rank, HOST, "died", "died here", "died", step=step)
            self.ops.append(dies)
            self.threads.setdefault(MAIN, []).extend((Issues((dies,)), Learns(dies)))
        if self.end != "blocked":
            return
        learned = {id(move.op) for moves in self.threads.values() for move in moves if isinstance(move, Learns)}
        pending = {id(op) for op in self._pending.values()}
        for moves in self.threads.values():
            last = moves[-1] if moves else None
            if isinstance(last, Issues) and id(last.ops[-1]) in pending - learned:
                last.ops[-1].after.append(NEVER)


def transfer_key(rank: int, raw: RawRecord) -> Key:
    """Returns the key that a send and its receive share."""
    ends = (rank, raw[TRANSFER_PEER]) if raw[OP] == "send" else (raw[TRANSFER_PEER], rank)
    return LINE.format(raw[COMMUNICATOR], *ends), raw[SEQ]
