"""Tests invariant I-EL-12 in the loop with a batch queue: the engine applies aborts before it takes a result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsim.contract.ops import KIND, POST_CONTENT, SITE
from dpsim.contract.world import At, Delay
from dpsim.vllm.whole.batch_queue import QueuedLoop
from tests.vllm.whole.whole_worlds import EAGER, Seen, request, run, whole

OUTPUT, CORE, FRONTEND = 1, 2, 3
"""Actors of one engine with two stages: the worker that returns results, the core, and its front end."""


def late_abort(pieces: dict[type[Any], type[Any]]) -> Seen:
    """Runs a request of one token whose abort arrives while the core waits for the result from the output rank."""
    of = whole([request(2, 1, 0, abort=1)], protocol="whole_engine", dp=1, pp=2, interval=1, pieces=pieces, **EAGER)
    abort = Delay(FRONTEND, At("frontend.abort", 0), 500_000_000)
    again = Delay(FRONTEND, At("frontend.abort_in_order", 0), 2_000_000_000)
    answer = Delay(OUTPUT, At("worker.take", 0), 1_000_000_000)
    return run(replace(of, world=replace(of.world, delays=(abort, again, answer))))


def messages_to_clients(seen: Seen) -> list[Any]:
    """Returns the messages of the core to the clients of requests."""
    journal = seen.run.journals[CORE]
    return [raw[POST_CONTENT] for raw in journal if (raw[KIND], raw[SITE]) == ("post", "engine.output")]


class ResultFirst(QueuedLoop[Any]):
    """Faulty: the scheduler takes the result first, and then the engine reads aborts."""

    async def take_result(self) -> None:
        oldest = self.queue.popleft()
        await self.worker.result(oldest)
        self.answers.finished(self.live.taken(oldest))
        await self.take_aborts()


def test_the_result_of_an_aborted_request_is_dropped() -> None:
    seen = late_abort({})
    assert (seen.classes, seen.run.finished) == ([], True)
    assert messages_to_clients(seen) == []


def test_a_result_that_is_taken_first_is_reported() -> None:
    assert messages_to_clients(late_abort({QueuedLoop: ResultFirst})) == [("FINISHED", "r0")]
