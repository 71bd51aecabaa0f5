"""Tests of the engine's remote calls: it executes and samples each batch once, in this order.

If a grammar restricts the tokens, the mask of a batch depends on all earlier tokens. The rules are specification 7.5
and 10.6, and invariants I-PS-7 and I-ES-5. The faulty twins are mutants M-PS-10, M-PS-11, M-ES-10 and M-ES-11.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import Any

import pytest

from dpsim.contract.registry import variant
from dpsim.vllm.model import kernels
from dpsim.vllm.model.oracle import Oracle
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.batches import Batch, StepResult
from dpsim.vllm.pipeline.history import STEP_NS
from dpsim.vllm.pipeline.stage import Stage
from tests.properties import breaks, examples, holds, nightly_but
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, pieces, small_varied_worlds, varied_worlds
from tests.vllm.released import TRANSFERS

SEVERAL = varied_worlds(stages=(2, 2, 3), most=5)
REPLICAS = varied_worlds(stages=(2, 3), most=4, replicas=2)


class Watched(Stage):
    """A stage that records and asserts the calls that it receives."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[tuple[str, int]] = []

    async def execute(self, batch: Batch) -> StepResult | None:
        if batch.rows:
            self.calls.append(("execute", batch.number))
        return await super().execute(batch)

    def sample_tokens(self, masks: tuple[tuple[int, ...], ...] = ()) -> StepResult | None:
        assert self.executed is not None, "I-ES-5: nothing was executed"
        self.calls.append(("sample", self.executed.batch.number))
        return super().sample_tokens(masks)

    async def drain(self) -> None:
        batches = [call.batch.number for call in self.history.calls if call.batch and call.batch.rows]
        pairs = [(what, number) for number in batches for what in ("execute", "sample")]
        assert self.calls == pairs, f"I-PS-7: {self.calls}"
        await super().drain()


def watched(twin: type[Stage]) -> type[Stage]:
    """Returns a faulty twin with the assertions of `Watched`, which run before the twin changes the call."""
    return type(f"Watched{twin.__name__}", (twin, Watched), {})


WATCHED = {"stage": Watched}


def all_is_well(drawn: Drawn, **changed: Any) -> list[Any]:
    played = [drawn.play(eager, **changed) for eager in EXTREMES]
    found = [one for run in played for one in run.findings]
    assert found == [], "; ".join(f"{one.klass} {one.message}" for one in found)
    return [history for run in played for history in run.prepared.histories]


@examples(12, 37, 150)
def test_the_invariants_of_remote_calls_hold_in_random_worlds(examples: int) -> None:
    seen: Counter[str] = Counter()

    def all_hold(drawn: Drawn) -> None:
        for history in all_is_well(drawn, **WATCHED):
            seen["deferred"] += any(call.deferred for call in history.calls)
            seen["masks"] += any(call.masks and not call.deferred for call in history.calls)
            seen["dummies"] += any(call.dummy for call in history.calls)

    holds(all_hold, REPLICAS, examples)
    assert all(seen[what] for what in ("deferred", "masks", "dummies")), seen


@pytest.mark.parametrize(
    ("name", "worlds", "says"),
    [
        ("M-PS-10", SEVERAL, "I-ES-5"),
        ("M-PS-10-twice", SEVERAL, "I-ES-5"),
        ("M-ES-10", SEVERAL, "I-ES-5"),
        ("M-ES-11", REPLICAS, "I-ES-5"),
    ],
)
def test_a_twin_breaks_it(name: str, worlds: Any, says: str) -> None:
    breaks(lambda drawn: all_is_well(drawn, stage=watched(variant(name).make)), worlds, says)


GRAMMAR = Drawn(
    2,
    [Request(0, 1, 4, structured_output=True)],
    {"max_num_seqs": 1, "max_num_batched_tokens": 1, "async_scheduling": True},
)


def test_sampling_waits_for_the_token_before() -> None:
    """With a grammar, the engine takes the oldest result before it samples, although the queue has room.

    The world is computed by hand. Without a grammar, or without asynchronous scheduling, no sampling is deferred.
    """
    [history] = GRAMMAR.prepared().histories
    ran = [call for call in history.calls if call.batch and call.batch.rows]
    assert [(call.takes, call.deferred) for call in ran] == [(False, False), (True, True), (True, True), (True, True)]
    all_is_well(GRAMMAR)
    [plain] = GRAMMAR._replace(requests=[Request(0, 1, 4)]).prepared().histories
    assert not any(call.deferred or call.masks for call in plain.calls)
    [known] = GRAMMAR._replace(config={**GRAMMAR.config, "async_scheduling": False}).prepared().histories
    assert not any(call.deferred for call in known.calls), (
        "a synchronous scheduler waits for each token, so no call is deferred"
    )
    assert [bool(call.masks) for call in known.calls if call.batch and call.batch.rows] == [True] * 4


def test_masks_of_what_is_known_too_early_are_seen() -> None:
    """Mutant M-PS-11 never defers sampling, so its grammar masks are wrong, and the witness reports it."""
    assert {klass[:11] for klass in GRAMMAR.classes(**pieces("M-PS-11"))} == {"CRASH:WRONG"}


def test_a_grammar_permits_one_kind() -> None:
    """In the stand-in model, a grammar changes the sampled tokens, and each token is one that the mask permits."""
    for request in range(5):
        tokens = [Oracle(request, 3, structured=True).token(position) for position in range(20)]
        free = [Oracle(request, 3).token(position) for position in range(20)]
        assert tokens[:3] == free[:3]
        assert tokens[3:] != free[3:]
        for before, token in pairwise(tokens[2:]):
            assert kernels.masked(token, kernels.permitted(before)) == token


def test_a_request_that_ended_has_no_mask() -> None:
    """A request that has ended gets no grammar mask.

    The second token of the first request is a stop token. The engine had started further steps by then, and these
    sample without a mask.
    """
    drawn = GRAMMAR._replace(requests=[Request(0, 1, 4, stop_after=1, structured_output=True), Request(STEP_NS, 1, 2)])
    all_is_well(drawn)
    [history] = drawn.prepared().histories
    wasted = next(call for call in history.calls if call.deferred)
    assert wasted.masks == ()


WORLDS = [(0, 40), *((first, 10) for first in range(10))]
"""The first world of a test, and the step to the next one. The tenths together have all worlds."""


@pytest.mark.parametrize(("first", "step"), nightly_but(WORLDS, lambda one: one == (0, 40)))
@pytest.mark.parametrize("form", TRANSFERS)
def test_all_small_worlds(form: str, first: int, step: int) -> None:
    """No small world has a finding, neither healthy nor with mutant M-PP-13, which deferred sampling might deadlock.

    The slow tests run every fortieth world, and the nightly ones all.
    """
    deferred = 0
    for drawn in islice(small_varied_worlds(form), first, None, step):
        assert drawn.play(eager=False, **WATCHED).classes == [], drawn
        if any(call.deferred for call in drawn.prepared().histories[0].calls):
            deferred += 1
            assert drawn.play(eager=False, **pieces("M-PP-13")).classes == [], drawn
    assert deferred, "no small world defers sampling"
