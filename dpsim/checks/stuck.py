"""Stuck: lists the incomplete ops of a hung run: collectives that a member did not join, and unmatched transfers.

rank 0   all_reduce on dp #3                      stands in dp #3
rank 1   recv from rank 0 on pp #0                is missing there; rank 0 is missing in pp #0

A member certainly waits for the members whose data it needs. It may also wait for the others, as
`dpsim.contract.rules.wait_set` describes, and a sender may wait for its receiver. Such an optional wait counts only if
the rank has no certain wait and did not end. A member that aborted a collective is missing there, although it joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import AT_ONCE, FOR_DEVICE, MEETS, learns
from dpsim.contract.ops import (
    ADDRESS,
    ANY_COMMUNICATOR,
    ANY_NUMBER,
    CALL,
    COMMUNICATOR,
    EVENT,
    KIND,
    LEARNED_OUTCOME,
    OP,
    SEQ,
    STREAM,
    THREAD,
    RawRecord,
)
from dpsim.contract.rules.wait_set import awaited


@dataclass(frozen=True)
class Stuck:
    """An incomplete collective or transfer.

    `joined` maps the ranks that issued it to their calls. `waits` are those of them that are blocked in it, and
    `missing` are the ranks that they wait for.
    """

    communicator: str
    seq: int
    joined: dict[int, Entry]
    waits: tuple[int, ...]
    missing: tuple[int, ...]

    @property
    def kind(self) -> str:
        """collective, send or recv"""
        raw = next(iter(self.joined.values())).raw
        if raw[KIND] == "receive_any":
            return "recv"
        return str(raw[OP]) if raw[KIND] == "transfer" else "collective"


def find_stuck(run_index: RunIndex) -> list[Stuck]:
    """Returns the first incomplete op of each communicator and of each pair of ranks, in the order of their steps."""
    stuck = []
    for communicator, members in run_index.collectives.items():
        for seq, joined in _unjoined(members):
            needs = {rank: awaited(entry.raw[CALL], rank, tuple(members)) for rank, entry in joined.items()}
            missing = tuple(one for one in members if one not in joined and any(one in own for own in needs.values()))
            waits = tuple(
                rank
                for rank, own in needs.items()
                if any(one in own for one in missing) and not _given_up(run_index, rank, communicator)
            )
            if waits:
                stuck.append(Stuck(communicator, seq, joined, waits, missing))
                break
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        if len(receives) > len(sends) and not _given_up(run_index, receiver, communicator):
            joined = {receiver: receives[len(sends)]}
            stuck.append(Stuck(communicator, len(sends), joined, (receiver,), (sender,)))
    stuck += _from_any(run_index)
    stuck += _perhaps(run_index, {rank for one in stuck for rank in one.waits})
    return sorted(stuck, key=lambda one: min(run_index.position(one.joined[rank]) for rank in one.waits))


def _given_up(run_index: RunIndex, rank: int, communicator: str) -> bool:
    """Returns whether a rank no longer waits for its ops, because it aborted the communicator or died."""
    return run_index.gave_up(rank, communicator) or run_index.end(rank) == "died"


def _from_any(run_index: RunIndex) -> list[Stuck]:
    """Returns the first receive from any source of each rank and communicator. All other members are missing in it."""
    first: dict[tuple[int, str], Stuck] = {}
    for entry in run_index.from_any:
        communicator = entry.raw[ANY_COMMUNICATOR]
        if run_index.end(entry.rank) == "blocked" and not run_index.gave_up(entry.rank, communicator):
            others = tuple(rank for rank in run_index.communicator(communicator).ranks if rank != entry.rank)
            one = Stuck(communicator, entry.raw[ANY_NUMBER], {entry.rank: entry}, (entry.rank,), others)
            first.setdefault((entry.rank, communicator), one)
    return [*first.values()]


def _perhaps(run_index: RunIndex, waiting: set[int]) -> list[Stuck]:
    """Returns the optional waits of ranks that have no certain wait."""
    stuck = _broken_off(run_index, waiting)
    for communicator, members in run_index.collectives.items():
        for seq, joined in _unjoined(members):
            waits = tuple(rank for rank in joined if rank not in waiting and _is_blocked_in(run_index, joined[rank]))
            if waits:
                missing = tuple(rank for rank in members if rank not in joined)
                stuck.append(Stuck(communicator, seq, joined, waits, missing))
                break
    waiting = waiting | {rank for one in stuck for rank in one.waits}
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        blocked = [seq for seq in range(len(receives), len(sends)) if _is_blocked_in(run_index, sends[seq])]
        if blocked and sender not in waiting:
            joined = {sender: sends[blocked[0]]}
            stuck.append(Stuck(communicator, blocked[0], joined, (sender,), (receiver,)))
    return stuck


def _broken_off(run_index: RunIndex, waiting: set[int]) -> list[Stuck]:
    stuck = []
    for communicator, gone in run_index.aborted.items():
        members = run_index.collectives.get(communicator, {})
        for entries in zip(*members.values(), strict=False):
            joined = {entry.rank: entry for entry in entries if entry.rank not in gone}
            waits = tuple(rank for rank in joined if rank not in waiting and _is_blocked_in(run_index, joined[rank]))
            if waits:
                stuck.append(Stuck(communicator, entries[0].raw[SEQ], joined, waits, tuple(sorted(gone))))
                break
    return stuck


def _unjoined(members: dict[int, list[Entry]]) -> Iterator[tuple[int, dict[int, Entry]]]:
    """Yields the collectives that not all members joined: the sequence number, and the calls of the members
    that did.
    """
    lengths = [len(entries) for entries in members.values()]
    for seq in range(min(lengths), max(lengths)):
        yield seq, {rank: entries[seq] for rank, entries in members.items() if len(entries) > seq}


def _is_blocked_in(run_index: RunIndex, own: Entry) -> bool:
    """Returns whether a rank may be blocked in its call.

    On the host, its thread has not received the result, and has since issued only ops that do not wait. On a stream,
    the host has not observed later work on that stream.
    """
    if run_index.end(own.rank) != "blocked" or run_index.gave_up(own.rank, own.raw[COMMUNICATOR]):
        return False
    journal = run_index.run.journals[own.rank]
    thread = own.raw[THREAD]
    last = run_index.last(own.rank, thread)
    assert last is not None
    if own.raw[STREAM] is None:
        later = [raw for raw in journal[own.at + 1 :] if raw[THREAD] == thread]
        if any(raw[KIND] == "learned" and raw[ADDRESS] == own.raw[ADDRESS] for raw in later):
            return False
        did = [raw for raw in later if raw[KIND] not in AT_ONCE]
        return all(_continues(raw) for raw in did)
    if own.at < passed_on_streams(journal).get(own.raw[STREAM], 0):
        return False
    return last.raw[KIND] in FOR_DEVICE or not learns(last.raw)


def _continues(raw: RawRecord) -> bool:
    return raw[KIND] in MEETS and raw[STREAM] is None and raw[OP] != "recv"


def passed_on_streams(journal: list[RawRecord]) -> dict[str, int]:
    """Returns the index of the last op on each stream that has certainly completed, because a host observed it."""
    points: dict[int, tuple[str, int]] = {}  # event -> its stream, and the index of its record
    asked: dict[tuple[Any, ...], tuple[str, int]] = {}  # address of the waiting op -> the same
    passed: dict[str, int] = {}
    for at, raw in enumerate(journal):
        if raw[KIND] == "mark":
            points[raw[EVENT]] = raw[STREAM], at
        elif raw[KIND] == "read":
            asked[raw[ADDRESS]] = raw[STREAM], at
        elif raw[KIND] == "ask" and raw[EVENT] in points:
            asked[raw[ADDRESS]] = points[raw[EVENT]]
        elif raw[KIND] == "learned" and raw[LEARNED_OUTCOME] is not False and raw[ADDRESS] in asked:
            stream, point = asked[raw[ADDRESS]]
            passed[stream] = max(passed.get(stream, 0), point)
    return passed
