"""Tests of the prefix cache of a rank, and of what it changes in a batch (specification 1.8 and 3.3).

The tests compare the cache with a naive one. A request that reads unwritten blocks forbids microbatches. A batch with
cascade attention or encoder inputs may not have a FULL graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.flow import Flow017, Flow033
from dpsim.vllm.data_parallel.prefixes import CASCADE_REQUESTS, CASCADE_TOKENS, PrefixCache
from dpsim.vllm.data_parallel.timeline import Batch, RankScheduler, Timeline
from dpsim.vllm.params.arguments import Request
from tests.properties import breaks, holds
from tests.vllm.data_parallel.batch_worlds import ARRIVAL, STEP_NS, Played, configs, line_up, play, request_lists

LONG = CASCADE_TOKENS + 1
SPLIT: dict[str, Any] = {"enable_dbo": True, "dbo_prefill_token_threshold": 4, "block_size": 4}


class Workload(NamedTuple):
    """Requests and the configuration of one rank's scheduler."""

    requests: list[Request]
    config: EngineConfig

    def batches(self, scheduler: type[RankScheduler] = RankScheduler) -> list[Batch]:
        one, found = scheduler(self.config), []
        waiting = sorted(range(len(self.requests)), key=lambda index: self.requests[index].arrival_ns)
        for tick in range(1_000):
            while waiting and self.requests[waiting[0]].arrival_ns <= tick * STEP_NS:
                index = waiting.pop(0)
                one.add(index, self.requests[index])
            if one.has_work:
                found.append(one.step())
            elif not waiting:
                break
        return found


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    requests = [request._replace(abort_ns=None) for request in draw(request_lists(20, prefixes=True))]
    budget = draw(st.sampled_from([16, 8192]))
    config = EngineConfig(block_size=draw(st.sampled_from([1, 4, 16])), max_num_seqs=4, max_num_batched_tokens=budget)
    return Workload(requests, config)


# ---- a naive cache: it records which step wrote which block


def as_the_naive_cache_says(workload: Workload, scheduler: type[RankScheduler] = RankScheduler) -> None:
    """The scheduler's batches agree with a naive cache of blocks.

    The first step that computes the last token of a block writes the block. A new request starts behind the leading
    blocks that an earlier step, or an earlier request of the same step, has written. It always computes at least one
    token.
    """
    size = workload.config.block_size
    written: dict[tuple[str | None, int], int] = {}
    started: dict[int, int] = {}
    for step, batch in enumerate(workload.batches(scheduler)):
        unwritten = False
        for index, tokens, position in batch.scheduled:
            request = workload.requests[index]
            if index not in started:
                started[index] = position
                blocks = 0
                while (blocks + 1) * size < request.prompt_tokens and (request.prefix, blocks) in written:
                    blocks += 1
                expected = blocks * size if request.prefix is not None else 0
                assert position == expected, "a request continues after its last whole cached block"
                read = [written[request.prefix, block] for block in range(position // size)]
                unwritten = unwritten or (tokens > 1 and step in read)
            for end in range(position + 1, min(position + tokens, request.prompt_tokens) + 1):
                if end % size == 0:
                    written.setdefault((request.prefix, end // size - 1), step)
        assert batch.reads_unwritten == unwritten, "the batch reports reads of blocks that it writes itself"
        encoder = [started[index] == position for index, _, position in batch.scheduled]
        brought = sum(
            first and not position and workload.requests[index].encoder_inputs
            for first, (index, _, position) in zip(encoder, batch.scheduled, strict=True)
        )
        assert batch.encoder_reqs == brought, "the first step of a request brings its encoder inputs"


def test_the_naive_cache() -> None:
    holds(as_the_naive_cache_says, workloads(), 100)


class NoCache(PrefixCache):
    """The cache never finds a prefix."""

    def hit(self, prefix: str | None, prompt_tokens: int) -> int:
        return 0


class HalfBlocks(PrefixCache):
    """The cache also counts blocks that are not full."""

    def _whole(self, tokens: int) -> int:
        return tokens


class WholePrompt(PrefixCache):
    """If a whole prompt is cached, the cache counts one token too many."""

    def hit(self, prefix: str | None, prompt_tokens: int) -> int:
        return min(super().hit(prefix, prompt_tokens + 1), prompt_tokens - 1)


class AlwaysWritten(PrefixCache):
    """The cache counts blocks as written in the step that still writes them."""

    def unwritten(self, prefix: str | None, tokens: int) -> bool:
        return False


class NeverWritten(PrefixCache):
    """The cache never counts the blocks of a step as written."""

    def end_step(self) -> None:
        pass


def faulty(cache: type[PrefixCache]) -> type[RankScheduler]:
    """Returns a scheduler with another prefix cache."""

    class Faulty(RankScheduler):
        def __init__(self, config: EngineConfig) -> None:
            super().__init__(config)
            self.cache = cache(config.block_size)

    return Faulty


@pytest.mark.parametrize(
    ("cache", "says"),
    [
        (NoCache, "continues after"),
        (HalfBlocks, "continues after"),
        (WholePrompt, "continues after"),
        (AlwaysWritten, "reads of blocks"),
        (NeverWritten, "reads of blocks"),
    ],
)
def test_a_wrong_cache_is_found(cache: type[PrefixCache], says: str) -> None:
    breaks(lambda workload: as_the_naive_cache_says(workload, faulty(cache)), workloads(), says)


# ---- the veto of microbatching (3.3)


def readers(prompt: int = 9) -> list[Request]:
    """Returns two requests; the second one reads two blocks that the first one writes in the same step."""
    return [Request(ARRIVAL, prompt, 1, prefix="same")] * 2


def split(played: Played, rank: int) -> list[bool]:
    return [microbatched for microbatched, _, _ in played.decided("plan", rank)]


@pytest.mark.parametrize(("flow", "expected"), [(Flow017, True), (Flow033, False)])
def test_a_reader_of_unwritten_blocks_vetoes_for_all(flow: type[Flow017] | type[Flow033], expected: bool) -> None:
    """In release 0.33, a request forbids microbatches for all ranks if it reads blocks that its step still writes.

    Source: specification 3.3. Here such a request is on rank 0. Release 0.17 does not check this and splits.
    """
    requests = line_up(
        [Request(ARRIVAL, 9, 1, prefix="same"), Request(ARRIVAL, 14, 1, prefix="same")], [Request(ARRIVAL, 15, 1)]
    )
    played = play(requests, flow=flow, **SPLIT)
    assert played.findings == []
    assert [split(played, rank) for rank in played.ranks] == [[expected]] * 2


def test_a_reader_of_one_token_vetoes_nothing() -> None:
    """A request that computes only one token forbids no microbatches, whatever blocks it reads (specification 3.3)."""
    requests = line_up(readers(), [Request(ARRIVAL, 10, 1)])
    assert split(play(requests, flow=Flow033, **SPLIT), 0) == [True]


def test_nothing_is_vetoed_a_step_later() -> None:
    """Blocks that an earlier step wrote forbid no microbatches."""
    later = Request(2 * STEP_NS, 14, 1, prefix="same")
    requests = line_up(
        [Request(ARRIVAL, 9, 1, prefix="same"), later], [Request(ARRIVAL, 9, 1), Request(2 * STEP_NS, 6, 1)]
    )
    assert split(play(requests, flow=Flow033, **SPLIT), 1) == [True, True]


# ---- first dispatch without FULL (1.8)


def cascading(requests: int = CASCADE_REQUESTS, prompt: int = LONG) -> list[Request]:
    """Returns requests with one long prefix. By default, they are enough for cascade attention."""
    return [Request(ARRIVAL, prompt, 3, prefix="long")] * requests


def modes(played: Played, rank: int = 0) -> list[str]:
    return [mode for mode, _ in played.decided("mode", rank)]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (cascading(), ["NONE", "PIECEWISE", "PIECEWISE"]),
        (cascading(CASCADE_REQUESTS - 1), ["NONE", "FULL", "FULL"]),
        (cascading(prompt=LONG - 2), ["NONE", "FULL", "FULL"]),
        ([request._replace(prefix=None) for request in cascading()], ["NONE", "FULL", "FULL"]),
    ],
)
def test_cascade_attention_has_no_full_graph(requests: list[Request], expected: list[str]) -> None:
    """Up to release 0.17, cascade attention forbids FULL graphs, so the decodes of both ranks run in PIECEWISE graphs.

    Release 0.33 does not forbid them. The other cases are just below the thresholds for cascade attention.
    """
    idle = line_up(requests, [])
    played = play(idle, flow=Flow017)
    assert played.findings == []
    assert modes(played, 0) == modes(played, 1) == expected
    assert modes(play(idle, flow=Flow033))[1:] == ["FULL", "FULL"]


@pytest.mark.parametrize("flow", [Flow017, Flow033])
def test_encoder_inputs_have_no_full_graph(flow: type[Flow017] | type[Flow033]) -> None:
    """A request with encoder inputs forbids a FULL graph in its first step only.

    Its prompt of one token looks like a decode to the runner.
    """
    played = play([Request(ARRIVAL, 1, 2, encoder_inputs=True), Request(ARRIVAL, 1, 2)], flow=flow)
    assert played.findings == []
    assert modes(played, 0) == modes(played, 1) == ["PIECEWISE", "FULL"]


# ---- random worlds with prefixes and encoder inputs


@pytest.mark.parametrize("flow", [Flow017, Flow033])
def test_random_worlds_with_prefixes_have_no_finding(flow: type[Flow017] | type[Flow033]) -> None:
    """Random worlds with prefixes have no finding in either release."""

    def nothing_found(drawn: tuple[list[Request], dict[str, Any]]) -> None:
        requests, config = drawn
        assert play(requests, flow=flow, **config, block_size=4).findings == []

    holds(nothing_found, st.tuples(request_lists(prefixes=True), configs()), 40)


def test_a_timeline_counts_cached_tokens_as_computed() -> None:
    """A request with a cached prefix begins behind the cached tokens."""
    timeline = Timeline(readers(), 1, EngineConfig(block_size=4), STEP_NS)
    assert timeline.batches(0)[0].scheduled == ((0, 9, 0), (1, 1, 8))
