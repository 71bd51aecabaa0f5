"""Tests of requests of all kinds: they stop early, have drafts or none, arrive at any time, and continue in sessions.

The tests count what happens in random worlds, because a property over trivial worlds proves nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dpsim.contract.ops import SITE
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.history import STEP_NS
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from tests.properties import breaks, examples, holds
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, Played, pieces, varied_worlds

SEVERAL = varied_worlds(stages=(2, 2, 3), most=5)


def nothing_found(drawn: Drawn, **changed: Any) -> None:
    """Asserts that neither extreme run has a finding: inputs, outputs and what clients receive are the oracle's.

    In one extreme run, all sends are eager; in the other one, none is.
    """
    findings = [one for eager in EXTREMES for one in drawn.play(eager, **changed).findings]
    assert findings == [], "; ".join(f"{one.klass} {one.message}" for one in findings)


def what_is_in(played: Played) -> Counter[str]:
    """Counts what happens in a world: wasted steps, widths of decodes, preemptions and sessions."""
    seen: Counter[str] = Counter()
    for history in played.prepared.histories:
        batches = [call.batch for call in history.calls if call.batch]
        most = history.config.num_speculative_tokens
        for batch in batches:
            told = history.delivered_tokens[batch.number]
            wasted = [row.request for row, heard in zip(batch.rows, told, strict=True) if row.samples and not heard]
            seen["wasted"] += any(history.requests[number].abort_ns is None for number in wasted)
            decodes = [row.drafts for row in batch.rows if not row.prefilling]
            seen["some drafts"] += any(0 < drafts < most for drafts in decodes)
            seen["none beside some"] += 0 in decodes and any(decodes)
            seen["no drafts at all"] += most > 0 and bool(decodes) and not any(decodes)
            seen["preempting"] += bool(batch.preempted)
            seen["sessions"] += any(one.continues is not None for one in batch.admitted)
    return seen


@examples(16, 32, 100)
def test_tokens_are_the_oracles(examples: int) -> None:
    seen: Counter[str] = Counter()

    def property_(drawn: Drawn) -> None:
        played = [drawn.play(eager) for eager in EXTREMES]
        assert [one.classes for one in played] == [[], []], [one.findings for one in played]
        seen.update({what: 1 for what, times in what_is_in(played[0]).items() if times})

    holds(property_, varied_worlds(), examples)
    assert all(seen[what] for what in ("wasted", "some drafts", "none beside some", "no drafts at all", "sessions")), (
        seen
    )


def test_the_engine_drops_a_step_that_it_started_before_a_stop_token() -> None:
    """The engine drops the result of a step that it started before it knew a stop token.

    In this hand-computed example with two stages, the second of five tokens is a stop token, and one more step has
    started by then.
    """
    config = {"max_num_seqs": 1, "max_num_batched_tokens": 4, "async_scheduling": True}
    drawn = Drawn(2, [Request(0, 2, 5, stop_after=2)], config)
    history = drawn.prepared().histories[0]
    rows = {call.batch.number: len(call.batch.rows) for call in history.calls if call.batch}
    assert [number for number, count in rows.items() if count] == [0, 2, 4]
    assert [history.delivered_tokens[number] for number in (0, 2, 4)] == [(1,), (1,), (0,)]
    synchronous = Drawn(2, drawn.requests, {**config, "async_scheduling": False}).prepared().histories[0]
    assert all(all(told) for told in synchronous.delivered_tokens), (
        "the scheduler waits for the result before the next step"
    )


class NeedsByLimit(SampledTokens):
    """A stage assumes that a request ends early, which only the model can know."""

    def row_needs(self, row: Row) -> bool:
        return super().row_needs(row) and row.position < 3


def test_random_requests_find_needs_by_limit() -> None:
    breaks(lambda drawn: nothing_found(drawn, tokens=NeedsByLimit), SEVERAL, "WRONG")


def test_a_step_that_preempts_admits_no_request() -> None:
    """The scheduler admits no request in a step that preempts one.

    In this hand-computed example, the second request has no room for its draft and loses its slot. Without a draft it
    would fit, so the faulty twin admits it at once.
    """
    blocks = {"block_size": 1, "num_gpu_blocks_override": 10}
    drawn = Drawn(
        1,
        [Request(0, 1, 5)] * 2,
        {"max_num_seqs": 2, "max_num_batched_tokens": 24, "num_speculative_tokens": 1, **blocks},
    )
    history = drawn.prepared().histories[0]
    preempting = [call.batch for call in history.calls if call.batch and call.batch.preempted]
    assert preempting
    assert not any(batch.admitted for batch in preempting)
    assert all(set(batch.preempted) <= set(batch.freed) for batch in preempting)
    assert drawn.play(**pieces("pp-admits-preempting")).classes == ["CRASH:WRONGADMISSION"]


def test_sends_as_many_as_there_are_places_for() -> None:
    """A broadcast has one place for tokens in each row if no row has drafts, and otherwise one and all possible
    drafts.
    """
    drawn = Drawn(
        2,
        [Request(0, 1, 4, drafts=(0, 2)), Request(0, 1, 4, drafts=(0, 0, 1))],
        {"max_num_seqs": 2, "max_num_batched_tokens": 8, "num_speculative_tokens": 2},
    )
    nothing_found(drawn)
    played = drawn.play()
    batches = [call.batch for call in played.prepared.histories[0].calls if call.batch and call.batch.rows]
    drafts = [[row.drafts for row in batch.rows] for batch in batches]
    assert drafts[:2] == [[0, 0], [0, 0]]
    assert [0, 2] in [sorted(one) for one in drafts]
    told = list(played.decided("sampled", 1))
    widths = {tuple(sorted(one)): len(tokens[0]) for one, (_, tokens, _) in zip(drafts, told, strict=True)}
    assert widths == {key: 3 if any(key) else 1 for key in widths}


# ---- sessions

CONFIG = {"max_num_seqs": 1, "max_num_batched_tokens": 8, "async_scheduling": True}


def session(*requests: tuple[int, ...], config: dict[str, Any] | None = None) -> Drawn:
    """Returns a world of two stages, with requests (arrival, prompt, output, stop) of one session."""
    made = [Request(when * STEP_NS, p, o, stop_after=stop, session="s") for when, p, o, stop in requests]
    return Drawn(2, made, config or CONFIG)


def test_a_session_resumes_where_it_ended() -> None:
    """A session continues with all tokens so far, and the stages compute them again.

    In this hand-computed example, the first request has one prompt token and two outputs, and the second a prompt of
    two more tokens. So the second request computes five tokens.
    """
    drawn = session((0, 1, 2, 2), (9, 2, 2, 2))
    nothing_found(drawn)
    [history] = drawn.prepared().histories
    first, second = (one for call in history.calls if call.batch for one in call.batch.admitted)
    assert (first.continues, second.continues) == (None, 0)
    assert [len(first.tokens), len(second.tokens)] == [1, 5]
    assert second.tokens[:3] == history.oracles[0].first(3)
    assert [call.batch.freed for call in history.calls if call.batch and call.batch.freed] == [(1,)], (
        "the engine frees request 1 only"
    )


def test_a_token_in_flight_reaches_no_later_request() -> None:
    """A token in flight of a session's earlier request goes to no request.

    The first request stops early. The second one arrives at once, while a token of the first is on its way to their
    slot.
    """
    drawn = session((0, 1, 5, 1), (0, 1, 3, 3))
    nothing_found(drawn)
    assert "pp.all_excluded" in {record[SITE] for record in drawn.play().records(0, "probe")}
    assert {klass[:11] for klass in drawn.classes(**pieces("pp-session-generation"))} == {"CRASH:WRONG"}
    assert {klass[:11] for klass in drawn.classes(**pieces("pp-session-result"))} == {"CRASH:WRONG"}


def test_a_session_holds_its_slot_while_it_waits() -> None:
    """A session keeps its slot while it waits for its next request, so with one slot, another request has to wait."""
    requests = [*session((0, 1, 1, 1), (9, 1, 1, 1)).requests, Request(STEP_NS, 1, 1)]
    for slots, order in ((1, [0, 1, 2]), (2, [0, 2, 1])):
        drawn = Drawn(2, requests, {**CONFIG, "max_num_seqs": slots})
        nothing_found(drawn)
        calls = drawn.prepared().histories[0].calls
        assert [one.request for call in calls if call.batch for one in call.batch.admitted] == order
    assert "CRASH:INDEXERROR" in Drawn(2, requests, CONFIG).classes(**pieces("pp-session-seat"))


def test_an_abort_ends_a_session() -> None:
    """An abort ends a session at any time: while it waits for input, while it runs, or while its next request waits."""
    for tick in range(1, 14):
        first, second = session((0, 1, 3, 2), (6, 1, 3, 3)).requests
        drawn = Drawn(2, [first._replace(abort_ns=tick * STEP_NS), second, Request(0, 1, 1)], CONFIG)
        nothing_found(drawn)
        history = drawn.prepared().histories[0]
        admitted = [one.request for call in history.calls if call.batch for one in call.batch.admitted]
        assert (1 in admitted) == (tick > 6), tick
        freed = [number for call in history.calls if call.batch for number in call.batch.freed]
        assert len(freed) == len(admitted) - sum(
            one.continues is not None for call in history.calls if call.batch for one in call.batch.admitted
        )


def test_a_session_stays_with_its_engine() -> None:
    """All requests of a session go to one engine; the others take turns."""
    requests = [Request(0, 1, 1, session="s"), Request(0, 1, 1), Request(0, 1, 1, session="s"), Request(0, 1, 1)]
    made = Drawn(2, requests, CONFIG, replicas=2).prepared().histories
    assert [history.mine for history in made] == [[0, 2, 3], [1]]
