"""Properties of the scheduler and its virtual clock; for each, a faulty scheduler that the property must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel import timeline as module
from dpsim.vllm.data_parallel.timeline import IDLE, Batch, RankScheduler, Timeline
from dpsim.vllm.params.arguments import Request
from tests.properties import breaks, examples, holds

TICK = 1_000


class Case(NamedTuple):
    """A random workload of the scheduler: requests, ranks and configuration."""

    requests: list[Request]
    ranks: int
    config: EngineConfig

    def timeline(self, requests: list[Request] | None = None) -> Timeline:
        return module.Timeline(self.requests if requests is None else requests, self.ranks, self.config, TICK)


class Slot(NamedTuple):
    """The tokens of one request in one step: the request's index, the tick, the rank and the number of tokens."""

    request: int
    tick: int
    rank: int
    tokens: int


def slots(timeline: Timeline) -> Iterator[Slot]:
    for step in range(timeline.steps):
        for rank, batch in enumerate(timeline.batches(step)):
            for request, tokens, _ in batch.scheduled:
                yield Slot(request, timeline.tick(step), rank, tokens)


def of_requests(case: Case, timeline: Timeline) -> list[list[Slot]]:
    """Returns the slots of each request, in the order of steps."""
    parts: list[list[Slot]] = [[] for _ in case.requests]
    for slot in slots(timeline):
        parts[slot.request].append(slot)
    return parts


def tick_of(time_ns: int) -> int:
    """Returns the first tick that is not before a time."""
    return -(-time_ns // TICK)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draws up to eight requests on up to three ranks, with a small budget and few slots.

    So requests wait, and prompts are cut into chunks.
    """
    q, seqs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    config = EngineConfig(
        max_num_seqs=seqs,
        max_num_batched_tokens=draw(st.integers(max(seqs, q), 20)),
        num_speculative_tokens=q - 1,
    )
    times = st.one_of(st.just(0), st.sampled_from([0, 1, TICK, TICK + 1, 3 * TICK, 9 * TICK]))
    requests = []
    for _ in range(draw(st.integers(1, 8))):
        arrival = draw(times)
        later = st.sampled_from([arrival + after for after in (1, TICK, 2 * TICK, 5 * TICK)])
        abort = draw(st.one_of(st.none(), st.none(), later))
        requests.append(Request(arrival, draw(st.integers(1, 25)), draw(st.integers(1, 4)), abort))
    return Case(requests, draw(st.integers(1, 3)), config)


# ---- properties


def tokens_are_conserved(case: Case) -> None:
    """Every request that is not aborted runs all tokens of its prompt, and all its decodes."""
    q = case.config.uniform_decode_query_len
    for request, parts in zip(case.requests, of_requests(case, case.timeline()), strict=True):
        tokens, prefill = [part.tokens for part in parts], 0
        while tokens and prefill < request.prompt_tokens:
            prefill += tokens.pop(0)
        whole = prefill == request.prompt_tokens and len(tokens) == request.output_tokens - 1
        assert whole or request.abort_ns is not None, "a request gets its prompt and its decodes, no less"
        assert prefill <= request.prompt_tokens, "no chunk goes beyond the prompt"
        assert len(tokens) < request.output_tokens, "no decode after the last"
        assert all(1 <= count <= q for count in tokens), "a decode has q tokens, or what is left of the budget"


def limits_are_kept(case: Case) -> None:
    """A batch never exceeds the token budget or the slots, and contains a request once."""
    timeline = case.timeline()
    for step in range(timeline.steps):
        for batch in timeline.batches(step):
            counts = [tokens for _, tokens, _ in batch.scheduled]
            assert batch.num_tokens <= case.config.max_num_batched_tokens, "within the token budget"
            assert batch.num_reqs <= case.config.max_num_seqs, "no more requests than there are slots"
            assert (batch.num_tokens, batch.max_query_len) == (sum(counts), max(counts, default=0))
            assert len({request for request, _, _ in batch.scheduled}) == batch.num_reqs, (
                "a step has each request at most once"
            )


def first_come_first_served(case: Case) -> None:
    """On each rank, requests start in the order of their arrival."""
    parts = of_requests(case, case.timeline())
    order = sorted(range(len(case.requests)), key=lambda index: (case.requests[index].arrival_ns, index))
    started = [parts[index][0] for index in order if parts[index]]
    for rank in range(case.ranks):
        ticks = [part.tick for part in started if part.rank == rank]
        assert ticks == sorted(ticks), "a request that arrives later does not start earlier"


def ranks_take_turns(case: Case) -> None:
    """Requests go round-robin over the ranks, in the order of their arrival."""
    parts = of_requests(case, case.timeline())
    order = sorted(range(len(case.requests)), key=lambda index: (case.requests[index].arrival_ns, index))
    for place, index in enumerate(order):
        assert {part.rank for part in parts[index]} <= {place % case.ranks}, "requests go round the ranks in order"


def aborts_work(case: Case) -> None:
    """No request runs at or after the tick of its abort."""
    for request, parts in zip(case.requests, of_requests(case, case.timeline()), strict=True):
        if request.abort_ns is not None:
            end = tick_of(request.abort_ns)
            assert all(part.tick < end for part in parts), "nothing of a request after its abort"


def aborts_do_not_look_ahead(case: Case) -> None:
    """Before the first abort, the steps are the same as without any aborts: the scheduler does not look ahead."""
    first = min((tick_of(one.abort_ns) for one in case.requests if one.abort_ns is not None), default=None)
    if first is not None:
        spared = [request._replace(abort_ns=None) for request in case.requests]
        before, without = (
            [slot for slot in slots(timeline) if slot.tick < first]
            for timeline in (case.timeline(), case.timeline(spared))
        )
        assert before == without, "an abort changes nothing before it"


def idle_ranks_say_so(case: Case) -> None:
    """In each step, some rank has work, and a rank without work has the idle batch."""
    timeline = case.timeline()
    for step in range(timeline.steps):
        batches = timeline.batches(step)
        assert len(batches) == case.ranks
        assert any(batch.num_tokens for batch in batches), "some rank has work in each step"
        assert all(batch == IDLE for batch in batches if not batch.scheduled), "a rank without work has the idle batch"


def clock_runs(case: Case) -> None:
    """The clock advances by one tick, or jumps to an arrival, and no request runs before it arrives."""
    timeline = case.timeline()
    ticks = [timeline.tick(step) for step in range(timeline.steps)]
    assert all(before < after for before, after in pairwise(ticks)), "each step begins later than the one before"
    arrivals = {tick_of(request.arrival_ns) for request in case.requests}
    for part in slots(timeline):
        assert part.tick >= tick_of(case.requests[part.request].arrival_ns), "nothing runs before it arrives"
    for before, after in pairwise(ticks):
        assert after == before + 1 or after in arrivals, "the clock jumps to arrivals only"
    assert not ticks or ticks[0] in arrivals, "the first step is at an arrival"


def no_request_waits_beside_free_room(case: Case) -> None:
    """If a rank has a free slot and budget left, no request waits on it."""
    timeline, parts = case.timeline(), of_requests(case, case.timeline())
    for step in range(timeline.steps):
        tick = timeline.tick(step)
        for rank, batch in enumerate(timeline.batches(step)):
            starts = [own[0].tick for own in parts if own and own[0].rank == rank]
            arrived = [
                tick_of(case.requests[own[0].request].arrival_ns) for own in parts if own and own[0].rank == rank
            ]
            late = any(come <= tick < start for come, start in zip(arrived, starts, strict=True))
            full = batch.num_reqs == case.config.max_num_seqs or batch.num_tokens == case.config.max_num_batched_tokens
            assert full or not late, "a request waits although there is room"


def function_of_the_requests(case: Case) -> None:
    """Two timelines of the same requests are equal."""
    first, second = case.timeline(), case.timeline()
    assert list(slots(first)) == list(slots(second)), "the same requests give the same steps"


# ---- faulty schedulers


class Forgets(RankScheduler):
    """The scheduler loses all running requests but the first."""

    def step(self) -> Batch:
        batch = super().step()
        del self.running[1:]
        return batch


class Repeats(RankScheduler):
    """The scheduler runs one more decode of a request that has ended."""

    def step(self) -> Batch:
        before = list(self.running)
        batch = super().step()
        ended = [item for item in before if item not in self.running and item.remaining == 0]
        for item in ended[:1]:
            item.remaining -= 1
            self.running.append(item)
        self.running = [item for item in self.running if item.remaining > -3]
        return batch


class TwiceTheBudget(RankScheduler):
    """The scheduler uses twice the token budget."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.budget *= 2


class OneMoreSlot(RankScheduler):
    """The scheduler uses one slot too many."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.max_num_seqs += 1


class OneFewer(RankScheduler):
    """The scheduler leaves one slot unused."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.max_num_seqs = max(self.max_num_seqs - 1, 1)


class LastComeFirstServed(RankScheduler):
    """The scheduler admits the latest request first."""

    def add(self, index: int, request: Request) -> None:
        self.waiting.appendleft((index, request))


class AbortsWaitingOnly(RankScheduler):
    """An abort does not end a running request."""

    def abort(self, index: int) -> None:
        running = self.running
        super().abort(index)
        self.running = running


class Foresees(RankScheduler):
    """The scheduler never accepts a request that will be aborted later."""

    def add(self, index: int, request: Request) -> None:
        if request.abort_ns is None:
            super().add(index, request)


class Alternates(Timeline):
    """Every other timeline has half the token budget, so two timelines of the same requests differ."""

    odd = False

    def __init__(self, requests: Any, ranks: int, config: EngineConfig, step_ns: int) -> None:
        Alternates.odd = not Alternates.odd
        budget = max(config.max_num_batched_tokens // 2, 1) if Alternates.odd else config.max_num_batched_tokens
        super().__init__(requests, ranks, config.model_copy(update={"max_num_batched_tokens": budget}), step_ns)


class AllOnOne(Timeline):
    """All requests go to rank 0."""

    def __init__(self, requests: Any, ranks: int, config: EngineConfig, step_ns: int) -> None:
        super().__init__(requests, 1, config, step_ns)

    def batches(self, step: int) -> tuple[Batch, ...]:
        return (*super().batches(step), IDLE, IDLE)


class FillsIdle(Timeline):
    """An idle rank has a batch of one token, instead of the idle batch."""

    def batches(self, step: int) -> tuple[Batch, ...]:
        return tuple(batch if batch.scheduled else Batch((), 1, 1) for batch in super().batches(step))


class NoJumps(Timeline):
    """The clock does not jump to the next arrival."""

    def tick(self, step: int) -> int:
        return step


class TwoTicks(Timeline):
    """The clock advances by two ticks instead of one."""

    def tick(self, step: int) -> int:
        return 2 * super().tick(step)


Property = Callable[[Case], None]

PAIRS: list[tuple[Property, type[RankScheduler] | type[Timeline], str]] = [
    (tokens_are_conserved, Forgets, "no less"),
    (tokens_are_conserved, Repeats, "no decode after the last|no less"),
    (limits_are_kept, TwiceTheBudget, "budget"),
    (limits_are_kept, OneMoreSlot, "slots"),
    (first_come_first_served, LastComeFirstServed, "arrives later"),
    (ranks_take_turns, AllOnOne, "round the ranks"),
    (aborts_work, AbortsWaitingOnly, "after its abort"),
    (aborts_do_not_look_ahead, Foresees, "before it"),
    (idle_ranks_say_so, FillsIdle, "idle batch"),
    (clock_runs, NoJumps, "before it arrives"),
    (clock_runs, TwoTicks, "jumps to arrivals"),
    (no_request_waits_beside_free_room, OneFewer, "although there is room"),
    (function_of_the_requests, Alternates, "the same steps"),
]


@contextmanager
def swapped(wrong: type[RankScheduler] | type[Timeline]) -> Iterator[None]:
    """Replaces the scheduler or the timeline of the module while the context is active."""
    name = "Timeline" if issubclass(wrong, Timeline) else "RankScheduler"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, wrong)
        yield


@examples(50, 750, 3_000)
def test_the_properties_of_a_timeline_hold_in_random_cases(examples: int) -> None:
    properties = [key for key, _ in groupby(pair[0] for pair in PAIRS)]

    def all_hold(case: Case) -> None:
        for property_ in properties:
            property_(case)

    holds(all_hold, cases(), examples)


@pytest.mark.parametrize(("property_", "wrong", "says"), PAIRS)
def test_a_wrong_scheduler_is_found(
    property_: Property, wrong: type[RankScheduler] | type[Timeline], says: str
) -> None:
    with swapped(wrong):
        breaks(property_, cases(), says)


def test_chunks_and_slots() -> None:
    """A hand-computed example: a prompt of 10 tokens with a budget of 4 takes three steps.

    The second request starts in the third step, with the budget that remains.
    """
    config = EngineConfig(max_num_batched_tokens=4, max_num_seqs=2)
    timeline = Timeline([Request(0, 10, 2), Request(0, 3, 1)], 1, config, TICK)
    scheduled = [timeline.batches(step)[0].scheduled for step in range(timeline.steps)]
    assert scheduled == [((0, 4, 0),), ((0, 4, 4),), ((0, 2, 8), (1, 2, 0)), ((0, 1, 10), (1, 1, 2))]


def test_a_stop_token_ends_a_request() -> None:
    """A stop token ends a request at once, because no further step of the request is in flight."""
    requests = [Request(0, 5, 9, stop_after=2), Request(0, 5, 2)]
    timeline = Timeline(requests, ranks=2, config=EngineConfig(), step_ns=1)
    assert [[batch.num_tokens for batch in timeline.batches(step)] for step in range(timeline.steps)] == [
        [5, 5],
        [1, 1],
    ]


def test_an_abort_in_the_tick_of_the_arrival() -> None:
    """A request that is aborted in the tick of its arrival never runs, but takes its turn in the round-robin."""
    timeline = Timeline([Request(1, 5, 1, abort_ns=2), Request(1, 7, 1)], 2, EngineConfig(), TICK)
    assert [timeline.batches(step) for step in range(timeline.steps)] == [(IDLE, Batch(((1, 7, 0),), 7, 7))]
    assert timeline.tick(0) == 1


def test_a_batch_says_what_its_requests_need() -> None:
    """A batch counts each adapter once, and it is eager if one of its requests has to run eagerly."""
    requests = [Request(0, 1, 1, lora="a"), Request(0, 1, 1, lora="a"), Request(0, 1, 1, lora="b", force_eager=True)]
    [batch] = Timeline(requests, 1, EngineConfig(), TICK).batches(0)
    assert (batch.num_loras, batch.force_eager, batch.num_reqs) == (2, True, 3)


@pytest.mark.parametrize(
    ("prompts", "q", "uniform"),
    [([1, 1], 1, True), ([2, 2], 2, True), ([1, 2], 2, False), ([3], 1, False), ([1], 2, False)],
)
def test_a_batch_is_a_uniform_decode_if_each_request_has_q_tokens(prompts: list[int], q: int, uniform: bool) -> None:
    """A batch is a uniform decode if its longest query is q tokens and it has q tokens for each request.

    Both conditions are necessary (specification 1.6 a; mutant M-CG-8 checks only one).
    """
    requests = [Request(0, prompt, 1) for prompt in prompts]
    [batch] = Timeline(requests, 1, EngineConfig(num_speculative_tokens=q - 1), TICK).batches(0)
    assert batch.uniform_decode(q) is uniform
