"""The mutants of sampled tokens and hidden states: found in random worlds without being told where, or harmless there.

The smallest world of each that is registered is its exhibit. Those below are not: to show most of them takes three
steps with tokens, so twelve sends and more, and to explore each send both ways is more than a museum explores. The
last two are shown by the simulation alone, for real backends do not tell that memory is reused, and an exhibit is run
on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from batch_worlds import breaks, holds
from hypothesis.strategies import SearchStrategy
from token_worlds import EXTREMES, Drawn, drawn_worlds, pieces

from dpsim.checks import matches
from dpsim.interface import Buffer
from dpsim.protocol.requests import Batch, Row
from dpsim.protocol.sampled_tokens import DROPPED, Arrived, Entry, SampledTokens
from dpsim.protocol.stage import Stage
from dpsim.registry import variant, variants


class NoGeneration(SampledTokens):
    """Nobody looks at generations: a slot's new request gets a token of the old one.

    Its last token is right soon after, so what shows are its length, its history and its count of computed tokens.
    """

    def outdated(self, entry: Entry, row: int) -> bool:
        return False


class OldestPlace(SampledTokens):
    """A step's tokens go into the oldest place of the queue, not into the newest.

    Performance only, against the specification: the next step takes them, before another step's could be put there, so
    the main stream waits early and nothing is lost.
    """

    def put(self, entry: Entry) -> None:
        self.queue[0] = entry


class FinishedByBound(SampledTokens):
    """A decode whose optimistic count says that it will be finished is left out (source page 002).

    If drafts are rejected it lives on, and the earlier stages go on from its old token (pull request 54436).
    """

    def row_needs(self, row: Row) -> bool:
        return row.samples and max(row.computed, row.prefill) + 1 < row.limit


class DraftsOfDropped(Stage):
    """Drafts are stored with -1 left in the mapping, which as an index is the last slot: another request's."""

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        last = len(self.free) + len(self.slot_of) - 1
        wrapped = self.put(tuple(last if slot == DROPPED else slot for slot in arrived.mapping), "wrapped.mapping")
        super().store_drafts(arrived, drafts, wrapped)
        wrapped.free()


class FreesInAnotherOrder(Stage):
    """The stages before the last free slots in the opposite order.

    Equivalent: tokens travel by batch row, and nothing uses a slot across ranks.
    """

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        return sorted(freed, reverse=not self.is_last)


class GateFromMirror(SampledTokens):
    """Each stage decides from its own lengths whether a token is needed, and only the last takes rejected drafts back.

    The mirrors drift apart until one side broadcasts and the other does not (vllm issue 54260).
    """

    def row_needs(self, row: Row) -> bool:
        known = row.position if self.is_last else row.computed
        return row.samples and max(known, row.prefill) + 1 < row.limit


class SendsEmptySteps(Stage):
    """A step without tokens is told to the next stage, which takes it for the next step's."""

    async def execute(self, batch: Batch) -> None:
        await super().execute(batch)
        if not batch.rows and self.transfer is not None and not self.is_last:
            await self.transfer.send({})


class KeepsNothing(SampledTokens):
    """The allocator is not told that the other stream uses the tokens."""

    def keep(self, buffer: Buffer) -> None:
        pass


class KeepsTokensOnly(SampledTokens):
    """What the last stage reads for its drafts on the side stream is freed without telling (vllm issue 56470)."""

    def broadcast_drafts(self, drafts: Buffer) -> None:
        if self.sent:
            self.join_side()
            self.group.broadcast(drafts, self.last, self.side, site="drafts.send")


UNREGISTERED: dict[str, tuple[dict[str, Any], str | None]] = {
    "M-PP-1": ({"tokens": NoGeneration}, "CRASH:WRONG*"),
    "M-PP-12": ({"tokens": OldestPlace}, None),
    "M-PP-14": ({"tokens": FinishedByBound}, "CRASH:WRONG*"),
    "M-PP-15": ({"stage": DraftsOfDropped}, "CRASH:WRONG*"),
    "M-PP-18": ({"stage": FreesInAnotherOrder}, None),
    "pp-gate-from-mirror": ({"tokens": GateFromMirror}, "DISAGREEMENT:NEED"),
    "M-PS-6": ({"stage": SendsEmptySteps}, "[CH]*"),
    "M-PP-10": ({"tokens": KeepsNothing}, "RACE:REUSED_IN_FLIGHT"),
    "pp-record-stream": ({"tokens": KeepsTokensOnly}, "RACE:REUSED_IN_FLIGHT"),
}

KNOWN = {**{entry.name: (pieces(entry.name), entry.expected) for entry in variants("pp_tokens")}, **UNREGISTERED}
HARMLESS = [name for name, (_, expected) in KNOWN.items() if expected is None]
SEVERAL = drawn_worlds(stages=(2, 2, 3), most=5)
OTHERS = {
    "dpsim.museum.steps": drawn_worlds(stages=(2, 2, 3), most=4, replicas=2),  # dummy steps need replicas
    "dpsim.museum.tensor_parallel": drawn_worlds(stages=(2, 2, 3), most=2, tensor_parallel_size=2),
}


def worlds(name: str) -> SearchStrategy[Drawn]:
    return SEVERAL if name in UNREGISTERED else OTHERS.get(variant(name).make.__module__, SEVERAL)


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in HARMLESS])
def test_a_mutant_is_found_without_being_told_where(name: str) -> None:
    changed, expected = KNOWN[name]
    assert expected is not None

    def not_found(drawn: Drawn) -> None:
        classes = drawn.play(**changed).classes
        assert not any(matches(klass, expected) for klass in classes), "found"

    breaks(not_found, worlds(name), "found")


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_mutant_is_harmless_everywhere(name: str) -> None:
    def nothing_found(drawn: Drawn) -> None:
        for eager in EXTREMES:
            assert drawn.play(eager, **KNOWN[name][0]).classes == []

    holds(nothing_found, worlds(name), examples=40)


def test_both_defects_of_the_page_are_found() -> None:
    """One property finds the width, and with the width mended the mask, each without being told where to look."""

    def all_is_well(drawn: Drawn, **changed: Any) -> None:
        found = drawn.play(**changed).findings
        assert found == [], f"{found[0].klass}: {found[0].message}"

    holds(all_is_well, SEVERAL, examples=40)
    breaks(lambda drawn: all_is_well(drawn, **pieces("page-002")), SEVERAL, "MISMATCH:COLLECTIVE:COUNT")
    breaks(lambda drawn: all_is_well(drawn, tokens=FinishedByBound), SEVERAL, "CRASH:WRONG")
