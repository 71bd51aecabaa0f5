"""Tests the remote calls of an engine to its workers, which are messages.

Invariant I-PS-7: each worker executes each batch with tokens once and then samples it once. The grammar masks that a
worker samples with contain all earlier tokens (spec chapter 7.5). Faulty twins are mutants M-PS-10, M-PS-11 and
M-ES-10.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from dpsim.contract.ops import KIND, POST_CONTENT, POST_MAILBOX, POST_TO
from dpsim.vllm.engine.forward import RPC
from dpsim.vllm.museum.remote_calls import NeverDefers
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.whole.batch_queue import Masks, QueuedLoop
from dpsim.vllm.whole.calls import Executor, plain
from tests.vllm.whole.whole_worlds import EAGER, Seen, explored, request, run, whole

SMALL: dict[str, Any] = {"protocol": "whole_engine", "pp": 2, "max_num_seqs": 4, "max_num_batched_tokens": 8} | EAGER
AHEAD: dict[str, Any] = {**SMALL, "async_scheduling": True}
GRAMMAR = [request(1, 4) | {"structured_output": True}, request(3, 3, 1), request(5, 2, 2, abort=3)]


def calls(seen: Seen, core: int) -> list[list[Any]]:
    """Returns the calls of an engine to each of its workers, in order."""
    posts = [raw for raw in seen.run.journals[core] if raw[KIND] == "post" and raw[POST_MAILBOX] == RPC]
    workers = sorted({raw[POST_TO] for raw in posts})
    return [[raw[POST_CONTENT] for raw in posts if raw[POST_TO] == worker] for worker in workers]


def wrong_calls(seen: Seen, core: int) -> list[Any]:
    """Returns the calls that break I-PS-7.

    After the execution of a batch with tokens a sampling must follow, and no sampling may follow anything else.
    """
    first, *others = calls(seen, core)
    wrong: list[Any] = [other for other in others if other != first]
    both = [call for call in first if call[0] in ("execute", "sample")]
    forwards = ["sample" if call[0] == "sample" else len(call[2][3]) for call in both]
    for before, after in pairwise([0, *forwards, 0]):
        if (before == "sample" or before == 0) == (after == "sample"):
            wrong.append((before, after))
    return wrong


def deferred(seen: Seen, core: int) -> int:
    """Returns the number of batches that the engine samples only after it has taken an earlier result."""
    return sum(
        (one[0], two[0], three[0]) == ("execute", "take", "sample")
        for (one, two), (_, three) in pairwise(pairwise(calls(seen, core)[0]))
    )


@pytest.mark.parametrize("form", ["current", "source"])
@pytest.mark.parametrize("drafts", [0, 1])
def test_each_step_has_one_execution_and_one_sampling(form: str, drafts: int) -> None:
    seen = run(whole(GRAMMAR, form=form, **SMALL, num_speculative_tokens=drafts))
    assert seen.classes == []
    assert [wrong_calls(seen, core) for core in (4, 5)] == [[], []]
    assert deferred(seen, 4) == 0, "a synchronous scheduler waits for each token, so no call is deferred"


def test_sampling_waits_for_the_token_before() -> None:
    """With two stages and asynchronous scheduling, the engine samples a decode with a grammar after the result before
    it.

    Without a grammar, it defers no sampling.
    """
    seen = run(whole(GRAMMAR[:1], **AHEAD))
    assert seen.classes == []
    assert [wrong_calls(seen, core) for core in (4, 5)] == [[], []]
    assert deferred(seen, 4) == 3
    assert deferred(run(whole([request(1, 4)], **AHEAD)), 4) == 0
    masks = [call[2] for call in calls(seen, 4)[0] if call[0] == "sample"]
    assert [len(mask) for mask in masks] == [1] * 4


# ---- twins


class SamplesFirst(Executor):
    """Mutant M-PS-10: the engine calls sample before execute."""

    async def submit(self, batch: Batch) -> None:
        if not batch.num_tokens:
            await super().submit(batch)

    def sample(self, batch: Batch, masks: Masks) -> None:
        super().sample(batch, masks)
        self.call("execute", plain(batch))


class SamplesNothing(QueuedLoop[Batch]):
    """Mutant M-ES-10: the engine also samples a batch without tokens."""

    def is_sampled(self, batch: Batch) -> bool:
        return True


class SamplesAtOnce(QueuedLoop[Batch]):
    """Faulty: the queue never defers a batch. The engine samples it at once, and takes its result in its turn."""

    async def step(self) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.live, "defers", lambda: False)
            return await super().step()


class WithoutMasks(Executor):
    """Faulty: the executor sends no grammar masks."""

    def sample(self, batch: Batch, masks: Masks) -> None:
        super().sample(batch, ())


class ExecutesTwo(Executor):
    """Like mutant M-PS-10: the engine executes two batches before it samples them, but a worker keeps one record."""

    owed: tuple[Masks, ...] = ()

    def sample(self, batch: Batch, masks: Masks) -> None:
        self.owed = (*self.owed, masks)
        if len(self.owed) == 2:
            for one in self.owed:
                super().sample(batch, one)
            self.owed = ()


TWINS: list[tuple[type[Any], type[Any], str]] = [
    (Executor, SamplesFirst, "CRASH:ASSERTIONERROR"),
    (Executor, ExecutesTwo, "CRASH:ASSERTIONERROR"),
    (QueuedLoop, SamplesNothing, "CRASH:ASSERTIONERROR"),
    (QueuedLoop, SamplesAtOnce, "CRASH:WRONG"),
    (PipelineScheduler, NeverDefers, "CRASH:WRONG"),
    (Executor, WithoutMasks, "CRASH:WRONG"),
]


@pytest.mark.parametrize(("piece", "twin", "found"), TWINS, ids=lambda one: getattr(one, "__name__", ""))
def test_twins_are_found(piece: type[Any], twin: type[Any], found: str) -> None:
    seen = run(whole(GRAMMAR, pieces={piece: twin}, **AHEAD))
    assert any(klass.startswith(found) for klass in seen.classes), seen.classes
    if twin in (SamplesFirst, ExecutesTwo, SamplesNothing):
        assert [wrong_calls(seen, core) for core in (4, 5)] != [[], []]


@pytest.mark.slow
def test_a_grammar_in_every_schedule() -> None:
    """Explores one request with a grammar, whose second token waits for the first."""
    found = explored(whole([request(1, 2) | {"structured_output": True}], interval=1, **AHEAD), 1500)
    print(f"a grammar: {found.verdict}, {found.runs} schedules")
    assert found.failures == {}
