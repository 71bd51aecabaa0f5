"""Waits: describes what a host or stream waits for at the end of a run. An arrow leads to the op that would end it.

    say_own_waits(index, ranks)     # a label for each such op, and the arrows

    baton.wait[0]   waits for flag ubatch.1.event, which no thread set; thread ubatch.0 has ended
    dp.read[0]      waits for stream main       ->   the op in which that stream stands

The labels name the same threads and actors as the report (`checks.thread_hangs`, `checks.blame.chain`). `meetings.py`
handles waits in collectives and transfers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsim.checks.blame.chain import waits_of
from dpsim.checks.blame.messages import MessageIndex
from dpsim.checks.run_index import RunIndex
from dpsim.checks.thread_hangs import RankThreads
from dpsim.checks.thread_records import FlagHistory
from dpsim.contract.kinds import FOR_ACTORS, FOR_DEVICE
from dpsim.contract.ops import (
    EVENT,
    FLAG,
    FLAG_AWAITED,
    KIND,
    MAIN,
    STORE_HOW,
    STREAM,
    TAKE_MAILBOX,
    THREAD,
    THREAD_NAME,
    RawRecord,
)
from dpsim.contract.words import ranks_text, with_services
from dpsim.diagnose.pictures.journal_ops import RankOps
from dpsim.diagnose.pictures.op import HOST, Arrow, DrawnOp

MOST_NAMED = 3
"""The largest number of threads that a label names."""


def say_own_waits(index: RunIndex, ranks: Sequence[RankOps]) -> list[Arrow]:
    """Labels each op of a host or stream that never ends. Returns the arrows to the ops that would end these waits."""
    found = _Waits(index, ranks)
    for rank in ranks:
        if rank.end == "blocked":
            for at, op in rank.by_at.items():
                if is_open(op):
                    found.read(rank, rank.journal[at], op)
    return found.arrows


def is_open(op: DrawnOp) -> bool:
    """Returns whether the op began and never ends."""
    return op.begin is not None and op.end is None


class _Waits:
    def __init__(self, index: RunIndex, ranks: Sequence[RankOps]) -> None:
        self.index, self.ranks = index, ranks
        self.arrows: list[Arrow] = []
        self._messages: MessageIndex | None = None

    def read(self, rank: RankOps, raw: RawRecord, op: DrawnOp) -> None:
        kind = raw[KIND]
        if kind == "read":
            self._stream(rank, op, raw[STREAM])
        elif (kind in FOR_DEVICE or kind == "wait") and raw[EVENT] in rank.marks:
            self._stream(rank, op, rank.marks[raw[EVENT]].lane)
        elif kind == "flag":
            self._threads(rank, raw, op, self._flag(rank, raw[FLAG]))
        elif kind == "flag_wait":
            op.label = self._flag(rank, raw[FLAG_AWAITED])
        elif kind == "thread":
            self._threads(rank, raw, op, f"waits for the end of thread {raw[THREAD_NAME]}")
        elif kind in FOR_ACTORS:
            self._actors(rank, raw, op)

    def _stream(self, rank: RankOps, op: DrawnOp, stream: str) -> None:
        op.label = f"waits for stream {stream}"
        held = next((one for one in rank.ops if one.lane == stream and is_open(one)), None)
        if held is not None and held is not op:
            self.arrows.append(Arrow(op, held))

    def _flag(self, rank: RankOps, flag: str) -> str:
        history = FlagHistory.of(rank.rank, rank.journal, flag)
        if not history.sets:
            return f"waits for flag {flag}, which no thread set"
        text = f"waits for flag {flag}, which thread {history.sets[-1].raw[THREAD]} set last"
        return text if history.cleared is None else f"{text} and thread {history.cleared.raw[THREAD]} cleared"

    def _threads(self, rank: RankOps, raw: RawRecord, op: DrawnOp, text: str) -> None:
        own = RankThreads(self.index, rank.rank)
        threads = own.releasing(raw[THREAD])
        over = [name for name in threads if name in own.ends]
        if over:
            have = "has" if len(over) == 1 else "have"
            text += f"; thread{'s' * (len(over) > 1)} {', '.join(over[:MOST_NAMED])} {have} ended"
        op.label = text
        for name in threads:
            lane = HOST if name == MAIN else f"thread {name}"
            self._arrow(op, [one for one in rank.ops if one.lane == lane and one.begin is not None])

    def _actors(self, rank: RankOps, raw: RawRecord, op: DrawnOp) -> None:
        self._messages = self._messages or MessageIndex(self.index.run.journals)
        what, actors = waits_of(self._messages, rank.rank, raw)
        run = self.index.run
        named = f" from {with_services(ranks_text(actors), run.size, run.services)}" if actors else ""
        if raw[KIND] == "take":
            op.label = f"waits for a message in {raw[TAKE_MAILBOX]}{named}"
        else:
            op.label = f"waits in {raw[STORE_HOW]} for {what} of the store{named}"
        for actor in actors:
            own = [one for one in self.ranks[actor].ops if one.begin is not None and one.lane == HOST]
            self._arrow(op, own)

    def _arrow(self, op: DrawnOp, ops: Iterable[DrawnOp]) -> None:
        """Adds an arrow to the op in which these actors are blocked, or else to their last op."""
        last = max(ops, key=lambda one: (is_open(one), one.begin or 0), default=None)
        if last is not None and last is not op:
            self.arrows.append(Arrow(op, last))
