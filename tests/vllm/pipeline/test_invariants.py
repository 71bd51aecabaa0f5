"""Tests of invariants I-PP-1 to I-PP-13 of specification 6.9, each with a faulty twin that breaks only this one.

`Watched` asserts what a stage does with its queue of tokens. The journals show what it sends, and the oracle what it
must compute. The file test_replicas.py tests I-PP-10 (dummy steps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import pytest

from dpsim.contract.interface import Buffer
from dpsim.contract.ops import BUFFER, COLLECTIVE_ROOT, COMMUNICATOR, COUNT, DTYPE, OP, SITE, STEP
from dpsim.diagnose.words import text
from dpsim.vllm.museum.pipeline import WaitsAtOnce
from dpsim.vllm.museum.tokens import (
    KeepsNothing,
    LongerQueue,
    NoGeneration,
    OneStepEarly,
    ReceivesWidest,
    ShorterQueue,
    TakesOverLate,
)
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.sampled_tokens import Arrived, PendingTokens, SampledTokens
from dpsim.vllm.pipeline.stage import Stage
from tests.properties import breaks, examples, holds
from tests.vllm.pipeline.token_worlds import Drawn, Played, drawn_worlds

SEVERAL = drawn_worlds(stages=(2, 2, 3), most=5)


class Watched(SampledTokens):
    """A queue of tokens that asserts invariants I-PP-1, I-PP-6, I-PP-11 and I-PP-13 at each `consume`."""

    waited = 0

    def consume(self) -> Arrived | None:
        stages, oldest, waits = self.group.size, self.queue[0], self.waited
        assert len(self.queue) == stages, f"I-PP-1: {len(self.queue)} entries for {stages} stages"
        arrived = super().consume()
        assert len(self.queue) == stages, "I-PP-1: a place for each step"
        if oldest is None:
            assert (arrived, self.waited) == (None, waits), "a stage without entries waits for no tokens"
            return arrived
        wanted = [
            need and self.generations[slot] == then
            for slot, then, need in zip(oldest.slots, oldest.generations, oldest.need, strict=True)
        ]
        if not any(wanted):
            assert (arrived, self.waited) == (None, waits), "I-PP-11: no request wants it, and no stage waits"
        if arrived is not None:
            for slot, now, need in zip(oldest.slots, arrived.mapping, oldest.need, strict=True):
                assert now in (-1, slot), "I-PP-13: a row is for its slot or for none"
                assert need or now == -1, "I-PP-6: a row that needed no token is left alone"
        return arrived

    def wait(self, entry: PendingTokens) -> None:
        self.waited += 1
        super().wait(entry)


class Aged(SampledTokens):
    """A queue of tokens that asserts the age of each entry that it takes (invariant I-PP-9)."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps, self.born = 0, dict[int, int]()

    def consume(self) -> Arrived | None:
        self.steps += 1
        arrived = super().consume()
        if arrived is not None:
            age = self.steps - self.born[arrived.step]
            assert age >= self.group.size, f"I-PP-9: waits for tokens {age} steps old"
        return arrived

    def put(self, entry: PendingTokens) -> None:
        self.born[entry.step] = self.steps
        super().put(entry)


def seen_by(watcher: type[SampledTokens], twin: type[SampledTokens] = SampledTokens) -> type[SampledTokens]:
    """Returns a faulty twin with the assertions of a watcher."""
    return type(f"{watcher.__name__}Twin", (watcher, twin), {})


# ---- properties of a run, in which a watcher may already have raised


def nothing_found(drawn: Drawn, played: Played) -> None:
    """No check has a finding, and no witness or watcher has raised.

    The witness checks I-PP-2 (tokens), I-PP-5 (histories), I-PP-7 (lengths) and I-PP-8 (computed counts). The check of
    races covers I-PP-12. `Watched` asserts I-PP-1, I-PP-6, I-PP-11 and I-PP-13. `Aged` asserts I-PP-9: the main stream
    waits only for tokens that are at least as many batches old as there are stages.
    """
    assert played.findings == [], "; ".join(f"{found.klass} {found.message}" for found in played.findings)


def broadcasts_match(drawn: Drawn, played: Played) -> None:
    """All stages make the same broadcasts, and the last stage is their root (invariant I-PP-3)."""
    sent = [
        [
            (one[OP], one[COUNT], one[DTYPE], one[COLLECTIVE_ROOT])
            for one in played.records(rank, "collective")
            if one[COMMUNICATOR] == "pp_broadcast"
        ]
        for rank in range(drawn.stages)
    ]
    assert all(one == sent[0] for one in sent), "I-PP-3: number, order, sizes and types of broadcasts"
    assert all(op == "broadcast" and root == drawn.stages - 1 for op, _, _, root in sent[0]), (
        "I-PP-3: the last stage is root"
    )


def masks_agree(drawn: Drawn, played: Played) -> None:
    """All stages compute the same need masks (invariant I-PP-4)."""
    masks = [played.decided("need", rank) for rank in range(drawn.stages)]
    assert all(one == masks[0] for one in masks), "I-PP-4: the same mask everywhere"


def memory_is_given_back(drawn: Drawn, played: Played) -> None:
    """Every rank frees all memory that it allocates in steps."""
    for rank in range(drawn.stages):
        taken = {one[BUFFER]: one[SITE] for one in played.records(rank, "alloc") if one[STEP] >= 0}
        given = {one[BUFFER] for one in played.records(rank, "free")}
        left = sorted({site for buffer, site in taken.items() if buffer not in given})
        assert not left, f"rank {rank} keeps {left}"


class TakesUnneeded(SampledTokens):
    """A stage also applies tokens that no row needs."""

    def excluded(self, entry: PendingTokens, row: int) -> bool:
        return self.outdated(entry, row)


class KeepsUnwanted(SampledTokens):
    """A stage never frees the buffers of an entry that it does not apply."""

    def discard(self, entry: PendingTokens) -> None:
        pass


class NeverNothing(SampledTokens):
    """A stage waits for an entry although no request needs it."""

    def nothing_left(self, mapping: tuple[int, ...]) -> bool:
        return False


class NextSlot(SampledTokens):
    """A stage applies a row's token to the slot after the row's own slot."""

    def consume(self) -> Arrived | None:
        arrived = super().consume()
        return arrived and arrived._replace(mapping=tuple(slot + (slot >= 0) for slot in arrived.mapping))


class LastStageKnowsBetter(SampledTokens):
    """The last stage computes another need mask than the other stages."""

    def row_needs(self, row: Row) -> bool:
        return super().row_needs(row) and not (self.is_last and row.computed > 4)


class ForgetsRejected(Stage):
    """A stage applies tokens, but does not subtract rejected drafts from its computed counts."""

    def take_over(self, arrived: Arrived) -> None:
        super().take_over(arrived)
        if self.drafts and arrived.tokens.shape[1] > 1:
            mapping = self.put(arrived.mapping, "again.mapping")
            self.main.launch("again", add_rejected, reads=[arrived.counts, mapping], writes=[self.table.computed])
            mapping.free()


class ReceivesUntold(SampledTokens):
    """A receiver does not inform its allocator that the main stream reads the tokens."""

    def keep(self, buffer: Buffer) -> None:
        if self.is_last:
            super().keep(buffer)


class ReceivesAtOnce(SampledTokens):
    """A receiver's side stream does not wait for the main stream.

    It first writes a buffer that it has allocated itself. The tokens themselves still arrive after the main stream's
    work, because the last stage needs this work for its next tokens.
    """

    def join_side(self) -> None:
        if self.is_last:
            super().join_side()
            return
        own = self.side.alloc(1, "int64", "side.own")
        self.side.launch("side.clear", zero, writes=[own])
        own.free()


class ReceivesUntoldAtOnce(ReceivesUntold, ReceivesAtOnce):
    pass


class WaitsForNoTokens(SampledTokens):
    """A stage reports that all rows need their tokens, so it never settles the chunks of prompts."""

    def receive(self, rows: Sequence[Row], slots: Sequence[int], mapping: Buffer, drafts: int) -> bool:
        super().receive(rows, slots, mapping, drafts)
        return True


def zero(memory: Any) -> None:
    memory[...] = 0


def add_rejected(counts: Any, mapping: Any, computed: Any) -> None:
    for row, slot in enumerate(mapping):
        if slot >= 0:
            computed[slot] += counts[1, row]


INVARIANTS: list[tuple[str, Callable[[Drawn, Played], None], dict[str, Any], str]] = [
    ("I-PP-1", nothing_found, {"tokens": seen_by(Watched, LongerQueue)}, "I-PP-1"),
    ("I-PP-2 early", nothing_found, {"scheduler": OneStepEarly}, "WRONG"),
    ("I-PP-2 late", nothing_found, {"stage": TakesOverLate}, "WRONG"),
    ("I-PP-3", broadcasts_match, {"tokens": ReceivesWidest}, "I-PP-3"),
    ("I-PP-4", masks_agree, {"tokens": LastStageKnowsBetter}, "I-PP-4"),
    ("I-PP-5", nothing_found, {"tokens": NoGeneration}, "WRONG"),
    ("I-PP-6", nothing_found, {"tokens": seen_by(Watched, TakesUnneeded)}, "I-PP-6"),
    ("I-PP-7", nothing_found, {"tokens": NextSlot}, "WRONG"),
    ("I-PP-8", nothing_found, {"stage": ForgetsRejected}, "WRONGCOUNT"),
    ("I-PP-9", nothing_found, {"tokens": seen_by(Aged, ShorterQueue)}, "I-PP-9"),
    ("I-PP-11", nothing_found, {"tokens": seen_by(Watched, NeverNothing)}, "I-PP-11"),
    ("I-PP-12", nothing_found, {"tokens": KeepsNothing}, "RACE:REUSED_IN_FLIGHT"),
    ("what is discarded is free", memory_is_given_back, {"tokens": KeepsUnwanted}, "tokens.received"),
    ("chunks settle at once", nothing_found, {"tokens": WaitsForNoTokens}, "WRONGSTATE"),
    ("I-PP-13", nothing_found, {"tokens": seen_by(Watched, NextSlot)}, "I-PP-13"),
]


@examples(5, 40, 400)
def test_the_invariants_of_a_pipeline_hold_in_random_worlds(examples: int) -> None:
    """All properties hold in random worlds. One run is enough for all, because the watchers change nothing."""
    properties = list(dict.fromkeys(property_ for _, property_, _, _ in INVARIANTS))

    def all_hold(drawn: Drawn) -> None:
        played = drawn.play(tokens=seen_by(Aged, Watched))
        for property_ in properties:
            property_(drawn, played)

    holds(all_hold, SEVERAL, examples)


@pytest.mark.parametrize(
    ("property_", "twin", "says"), [one[1:] for one in INVARIANTS], ids=[one[0] for one in INVARIANTS]
)
def test_a_twin_breaks_it(property_: Callable[[Drawn, Played], None], twin: dict[str, Any], says: str) -> None:
    breaks(lambda drawn: property_(drawn, drawn.play(**twin)), SEVERAL, says)


@pytest.mark.slow
def test_either_protection_of_a_receivers_memory_is_enough() -> None:
    """A receiver protects its memory twice, and either protection is enough (specification 6.8, rules 4 and 5).

    Without both, the allocator reuses memory too early.
    """

    def clean_with(twin: type[SampledTokens]) -> Callable[[Drawn], None]:
        return lambda drawn: nothing_found(drawn, drawn.play(tokens=twin))

    for twin in (ReceivesUntold, ReceivesAtOnce):
        holds(clean_with(twin), SEVERAL, examples=15)
    breaks(clean_with(ReceivesUntoldAtOnce), SEVERAL, "RACE:REUSED_IN_FLIGHT")


class EndsEarly(Stage):
    """A stage ends after its first step, although a request needs the token of this step."""

    async def run(self) -> None:
        self.history = copy(self.history)
        self.history.calls = self.history.calls[:1]
        await super().run()


def test_tokens_without_a_receiver_are_reported_at_the_end() -> None:
    """At the end, the witness reports tokens that a request needed and no stage applied."""
    drawn = Drawn(2, [Request(0, 1, 2)], {"max_num_seqs": 1, "max_num_batched_tokens": 1})
    findings = drawn.play(stage=EndsEarly, scheduler=WaitsAtOnce).findings
    assert [one.klass for one in findings] == ["CRASH:LOSTTOKENS", "CRASH:WRONGEND"], (
        "the client also receives too few tokens"
    )
    assert text(findings[0].message).endswith(
        "a request needs the tokens of the steps [0], which were never taken over"
    )
