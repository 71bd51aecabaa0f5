"""The broadcast of sampled tokens from the last stage of a pipeline to all others (specification chapter 6).

The other stages need the token before the request's next decode, but must not stall until it arrives. So the last stage
broadcasts on a *side stream*, over a separate communicator. The other stages post the receive in the same step, and
read the result `stages` steps later:

    step t             all: forward.  last: broadcast a_t;  others: receive into the newest place of a queue
    step t + stages    others: take the oldest entry, main stream waits for it, state is updated, then inputs are read

The queue has one entry for each stage, and `None` is the entry of a step without tokens. Every step removes one entry
and adds one, so an entry always waits the same number of steps. Its slot may get another request meanwhile. So a stage
counts the *generations* of each slot (how often it was freed), and an entry stores those of its slots. When a stage
removes the entry, it drops each row whose slot has a newer generation.

Sender and receivers do not negotiate: each computes `need` and `width` from the same batch.

The structure of this module is that of source page 002 (vLLM 0.24). The need mask, the width and the broadcast of
drafts are those of 0.33.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.contract.interface import Buffer, DeviceCommunicator, Event, Rank
from dpsim.vllm.model import kernels
from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.need_mask import needs_033

DROPPED = -1
"""In a mapping, the slot of a row that has no effect."""


class PendingTokens(NamedTuple):
    """Tokens that the stage receives, of `step`, with the `slots` and `generations` of its rows in that step.

    `need`: by row. `batch_mapping`: the slots on the device, int64 (rows,). `arrived`: behind the receives.
    """

    step: int
    tokens: Buffer
    counts: Buffer
    drafts: Buffer | None
    batch_mapping: Buffer
    arrived: Event
    slots: tuple[int, ...]
    generations: tuple[int, ...]
    need: tuple[bool, ...]


class Arrived(NamedTuple):
    """Tokens int64 (rows, width), counts int32 (2, rows), drafts int64 (rows, drafts) or None.

    `mapping`: the slot of each row, or `DROPPED`. `batch_mapping`: all slots on the device, right if no row is dropped.
    The caller calls `free` after the last use.
    """

    step: int
    tokens: Buffer
    counts: Buffer
    drafts: Buffer | None
    batch_mapping: Buffer
    mapping: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether no row is dropped."""
        return DROPPED not in self.mapping

    def free(self) -> None:
        for buffer in (self.tokens, self.counts, self.drafts, self.batch_mapping):
            if buffer is not None:
                buffer.free()


class SampledTokens:
    """One rank's side of the broadcast. `slots`: of the request table. `drafts`: of a step."""

    def __init__(self, rank: Rank, slots: int, drafts: int) -> None:
        self.rank, self.drafts = rank, drafts
        self.group = self.communicator()
        self.last = self.group.ranks[-1]
        self.is_last = rank.rank == self.last
        self.main, self.side = rank.stream("main"), rank.stream("broadcast")
        self.generations = [0] * slots
        self.queue: deque[PendingTokens | None] = deque() if self.is_last else deque([None] * self.length())
        self.sent = False  # whether the tokens of this step went out, so that its drafts will

    def communicator(self) -> DeviceCommunicator:
        """A communicator with the same members as the pipeline's, which carries no hidden states."""
        return self.rank.device("pp_broadcast")

    def length(self) -> int:
        """The entries of the queue: one for each step that a token needs to arrive."""
        return self.group.size

    # ---- what both sides compute alike

    def need(self, rows: Sequence[Row]) -> tuple[bool, ...] | None:
        """Whether each row needs its token. None if none does: then no stage broadcasts (specification 6.4)."""
        needed = tuple(self.row_needs(row) for row in rows)
        return needed if any(needed) else None

    def row_needs(self, row: Row) -> bool:
        """Whether a row needs its token, by the rule of 0.33."""
        return needs_033(row)

    def width(self, rows: Sequence[Row]) -> int:
        """The places for tokens in a row: one, and one for each draft if the batch has drafts (specification 6.5)."""
        return 1 + self.drafts if any(row.drafts for row in rows) else 1

    def freed(self, slot: int) -> None:
        """Record that a request gave its slot back, so that the next owner does not get tokens that are on their way to
        it.
        """
        self.generations[slot] += 1

    # ---- the last stage

    def broadcast(self, rows: Sequence[Row], tokens: Buffer, sampled: Buffer, rejected: Buffer) -> None:
        """Send the tokens that the main stream just sampled, from the last stage.

        `tokens`: int64 (rows, width). `sampled`, `rejected`: int32 (rows,), stacked into one buffer.
        """
        self.sent = not self.skips_send(self.need(rows))
        if not self.sent:
            return
        self.refuse_dtype(tokens)
        self.refuse_width(tokens, rows)
        self.join_side()
        self.group.broadcast(tokens, self.last, self.side, site="tokens.send")
        counts = self.side.alloc((2, len(rows)), "int32", "counts.stacked")
        self.side.launch("counts.stack", kernels.stack, reads=[sampled, rejected], writes=[counts], cost=0)
        self.group.broadcast(counts, self.last, self.side, site="counts.send")
        counts.free()
        for source in self.kept(tokens, sampled, rejected):
            self.keep(source)

    def refuse_dtype(self, tokens: Buffer) -> None:
        """Raises AssertionError for another dtype than int64, which the receivers expect (source page 002)."""
        assert tokens.dtype == "int64", f"sampled tokens are {tokens.dtype}, the receivers expect int64"

    def refuse_width(self, tokens: Buffer, rows: Sequence[Row]) -> None:
        """Raises AssertionError for another shape than (rows, width), which the receivers expect (0.33)."""
        expected = (len(rows), self.width(rows))
        assert tokens.shape == expected, (
            f"sampled tokens have the shape {tokens.shape}, the receivers expect {expected}"
        )

    def kept(self, *sources: Buffer) -> Sequence[Buffer]:
        """The buffers that the side stream reads: all. The main stream owns them, and may free them earlier."""
        return sources

    def broadcast_drafts(self, drafts: Buffer) -> None:
        """Send the drafts that follow the tokens of this step, int64 (rows, drafts), if the stage sent the tokens."""
        if not self.sent or not self.relays(drafts.shape[1]):
            return
        self.join_side()
        self.group.broadcast(drafts, self.last, self.side, site="drafts.send")
        self.keep(drafts)

    def relays(self, drafts: int) -> bool:
        """Whether drafts follow the tokens, if a step proposes `drafts` for each row (specification 6.6)."""
        return drafts > 0

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return need is None

    def join_side(self) -> None:
        """Make the side stream wait for the main stream. Then the data that it sends is final, and the memory that it
        reuses is free.
        """
        self.side.wait_stream(self.main)

    def keep(self, buffer: Buffer) -> None:
        """Keep the allocator from reusing this memory until the other stream has used it."""
        buffer.record_stream(self.side if self.is_last else self.main)

    # ---- the other stages

    def receive(self, rows: Sequence[Row], slots: Sequence[int], mapping: Buffer, drafts: int) -> bool:
        """Post the receive of this step's tokens. Returns whether all rows need theirs; if not, the caller settles the
        others.

        `mapping`: the slots on the device. `drafts`: the drafts that the drafter proposes for each row after this step.
        """
        need = self.need(rows)
        if self.skips_receive(need):
            return False
        needed = need or (True,) * len(rows)
        self.join_side()
        tokens = self.side.alloc((len(rows), self.received_width(rows)), "int64", "tokens.received")
        counts = self.side.alloc((2, len(rows)), "int32", "counts.received")
        relayed = self.side.alloc((len(rows), drafts), "int64", "drafts.received") if self.relays(drafts) else None
        named = {"tokens": tokens, "counts": counts, "drafts": relayed}
        for name, buffer in named.items():
            if buffer is not None:
                self.group.broadcast(buffer, self.last, self.side, site=f"{name}.receive")
                self.keep(buffer)
        generations = tuple(self.generations[slot] for slot in slots)
        arrived = self.side.record()
        self.put(
            PendingTokens(self.rank.step, tokens, counts, relayed, mapping, arrived, tuple(slots), generations, needed)
        )
        return all(needed)

    def holds(self, mapping: Buffer) -> bool:
        """Whether an entry of the queue keeps this mapping. The stage then frees it together with the entry."""
        return any(entry is not None and entry.batch_mapping is mapping for entry in self.queue)

    def skips_receive(self, need: tuple[bool, ...] | None) -> bool:
        return need is None

    def received_width(self, rows: Sequence[Row]) -> int:
        return self.width(rows)

    def put(self, entry: PendingTokens) -> None:
        """Store an entry in the place that `consume` added for this step."""
        self.queue[-1] = entry

    def consume(self) -> Arrived | None:
        """Remove the oldest entry, and add a place for this step. The main stream then waits for the entry's tokens.

        Returns None if the entry has no tokens, or if no request needs any of them.
        """
        entry = self.queue.popleft()
        self.queue.append(None)
        if entry is None:
            return None
        mapping = tuple(DROPPED if self.excluded(entry, row) else slot for row, slot in enumerate(entry.slots))
        if self.nothing_left(mapping):
            self.rank.probe("pp.all_excluded")
            self.discard(entry)
            return None
        if DROPPED in mapping:
            self.rank.probe("pp.some_excluded")
        self.wait(entry)
        return Arrived(entry.step, entry.tokens, entry.counts, entry.drafts, entry.batch_mapping, mapping)

    def excluded(self, entry: PendingTokens, row: int) -> bool:
        """Whether the stage drops a row: it does not need its token, or another request has its slot now."""
        return self.outdated(entry, row) or not entry.need[row]

    def outdated(self, entry: PendingTokens, row: int) -> bool:
        return self.generations[entry.slots[row]] != entry.generations[row]

    def nothing_left(self, mapping: tuple[int, ...]) -> bool:
        return all(slot == DROPPED for slot in mapping)

    def wait(self, entry: PendingTokens) -> None:
        self.main.wait(entry.arrived)

    def discard(self, entry: PendingTokens) -> None:
        """Free tokens for which no stream waits. The side stream owns their memory, and frees it behind the
        receives.
        """
        Arrived(entry.step, entry.tokens, entry.counts, entry.drafts, entry.batch_mapping, ()).free()

    def drain(self) -> list[int]:
        """Free the entries left in the queue. Returns the steps whose tokens a request still needs: none if all
        requests ended.
        """
        missed = []
        for entry in self.queue:
            if entry is not None:
                rows = zip(entry.slots, entry.generations, entry.need, strict=True)
                if any(need and self.generations[slot] == then for slot, then, need in rows):
                    missed.append(entry.step)
                self.discard(entry)
        self.queue.clear()
        return missed
