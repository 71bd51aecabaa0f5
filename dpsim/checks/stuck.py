"""Where each rank of a hang stands."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.checks.run_index import Entry, Evidence


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
        return str(raw[8]) if raw[0] == "transfer" else "collective"


def find_stuck(evidence: Evidence) -> list[Stuck]:
    """The first collective of each communicator that not all members joined and the first transfer of each pair that
    one side did not make, in order of the step in which they were called.
    """
    stuck = []
    for communicator, members in evidence.collectives.items():
        seq = min(len(entries) for entries in members.values())
        joined = {rank: entries[seq] for rank, entries in members.items() if len(entries) > seq}
        if joined:
            missing = tuple(rank for rank in members if rank not in joined)
            stuck.append(Stuck(communicator, seq, joined, missing))
    for (communicator, sender, receiver), (sends, receives) in evidence.transfers.items():
        if len(receives) > len(sends):
            stuck.append(Stuck(communicator, len(sends), {receiver: receives[len(sends)]}, (sender,)))
    waiting = {rank for one in stuck for rank in one.joined}
    for (communicator, sender, receiver), (sends, receives) in evidence.transfers.items():
        stands = [seq for seq in range(len(receives), len(sends)) if _stands_in(evidence, sends[seq])]
        if stands and sender not in waiting:
            stuck.append(Stuck(communicator, stands[0], {sender: sends[stands[0]]}, (receiver,)))
    return sorted(stuck, key=lambda one: min(evidence.position(entry) for entry in one.joined.values()))


def _stands_in(evidence: Evidence, send: Entry) -> bool:
    """Whether a rank may stand in that send: on the host if it has not heard of its end and did nothing after it but
    send; on a stream if it did not end.
    """
    if evidence.end(send.rank) != "blocked":
        return False
    last = evidence.last(send.rank)
    assert last is not None
    if send.raw[5] is None:
        later = evidence.run.journals[send.rank][send.at + 1 :]
        if any(raw[0] == "learned" and raw[2:4] == send.raw[2:4] for raw in later):
            return False
        did = [raw for raw in later if raw[0] not in ("learned", "injected")]
        return all(raw[0] == "transfer" and raw[8] == "send" and raw[5] is None for raw in did)
    return last.raw[0] not in ("take", "sleep") and not (last.raw[0] == "collective" and last.raw[5] is None)
