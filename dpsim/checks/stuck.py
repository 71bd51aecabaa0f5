"""Where each rank of a hang stands: collectives that not all members joined, transfers that one side did not make.

rank 0   all_reduce on dp #3                      stands in dp #3
rank 1   recv from rank 0 on pp #0                is missing there; rank 0 is missing in pp #0
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.ops import ADDRESS, KIND, OP, STREAM


@dataclass(frozen=True)
class Stuck:
    """A collective that not all members joined, or a transfer that one side did not make."""

    communicator: str
    seq: int
    joined: dict[int, Entry]
    missing: tuple[int, ...]

    @property
    def kind(self) -> str:
        """collective, send or recv"""
        raw = next(iter(self.joined.values())).raw
        return str(raw[OP]) if raw[KIND] == "transfer" else "collective"


def find_stuck(run_index: RunIndex) -> list[Stuck]:
    """The first collective of each communicator that not all members joined and the first transfer of each pair that
    one side did not make, in order of the step in which they were called.
    """
    stuck = []
    for communicator, members in run_index.collectives.items():
        seq = min(len(entries) for entries in members.values())
        joined = {rank: entries[seq] for rank, entries in members.items() if len(entries) > seq}
        if joined:
            missing = tuple(rank for rank in members if rank not in joined)
            stuck.append(Stuck(communicator, seq, joined, missing))
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        if len(receives) > len(sends):
            stuck.append(Stuck(communicator, len(sends), {receiver: receives[len(sends)]}, (sender,)))
    waiting = {rank for one in stuck for rank in one.joined}
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        stands = [seq for seq in range(len(receives), len(sends)) if _stands_in(run_index, sends[seq])]
        if stands and sender not in waiting:
            stuck.append(Stuck(communicator, stands[0], {sender: sends[stands[0]]}, (receiver,)))
    return sorted(stuck, key=lambda one: min(run_index.position(entry) for entry in one.joined.values()))


def _stands_in(run_index: RunIndex, send: Entry) -> bool:
    """Whether a rank may stand in that send: on the host if it has not heard of its end and did nothing after it but
    send; on a stream if it did not end.
    """
    if run_index.end(send.rank) != "blocked":
        return False
    last = run_index.last(send.rank)
    assert last is not None
    if send.raw[STREAM] is None:
        later = run_index.run.journals[send.rank][send.at + 1 :]
        if any(raw[KIND] == "learned" and raw[ADDRESS] == send.raw[ADDRESS] for raw in later):
            return False
        did = [raw for raw in later if raw[KIND] not in ("learned", "injected")]
        return all(raw[KIND] == "transfer" and raw[OP] == "send" and raw[STREAM] is None for raw in did)
    return last.raw[KIND] not in ("take", "sleep") and not (last.raw[KIND] == "collective" and last.raw[STREAM] is None)
