"""Requests as an engine has them: the model stops early, decodes have some drafts or none, nobody enters at a bad time.

What is different in such worlds is counted, for a property over worlds without it proves nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dpsim.program import Request
from dpsim.protocol.pipeline.batches import Row
from dpsim.protocol.pipeline.sampled_tokens import SampledTokens
from tests.properties import breaks, examples, holds
from tests.protocol.pipeline.token_worlds import EXTREMES, Drawn, Played, pieces, varied_worlds

SEVERAL = varied_worlds(stages=(2, 2, 3), most=5)


def nothing_found(drawn: Drawn, **changed: Any) -> None:
    """In neither extreme: inputs, outputs and what clients are told are the oracle's."""
    findings = [one for eager in EXTREMES for one in drawn.play(eager, **changed).findings]
    assert findings == [], "; ".join(f"{one.klass} {one.message}" for one in findings)


def what_is_in(played: Played) -> Counter[str]:
    """Of one world: wasted steps, widths of decodes, preemptions."""
    seen: Counter[str] = Counter()
    for history in played.prepared.histories:
        batches = [call.batch for call in history.calls if call.batch]
        most = history.config.num_speculative_tokens
        for batch in batches:
            told = history.told[batch.number]
            wasted = [row.request for row, heard in zip(batch.rows, told, strict=True) if row.samples and not heard]
            seen["wasted"] += any(history.requests[number].abort_ns is None for number in wasted)
            decodes = [row.drafts for row in batch.rows if not row.prefilling]
            seen["some drafts"] += any(0 < drafts < most for drafts in decodes)
            seen["none beside some"] += 0 in decodes and any(decodes)
            seen["no drafts at all"] += most > 0 and bool(decodes) and not any(decodes)
            seen["preempting"] += bool(batch.preempted)
    return seen


@examples(16, 400)
def test_tokens_are_the_oracles(examples: int) -> None:
    seen: Counter[str] = Counter()

    def property_(drawn: Drawn) -> None:
        played = [drawn.play(eager) for eager in EXTREMES]
        assert [one.classes for one in played] == [[], []], [one.findings for one in played]
        seen.update({what: 1 for what, times in what_is_in(played[0]).items() if times})

    holds(property_, varied_worlds(), examples)
    assert all(seen[what] for what in ("wasted", "some drafts", "none beside some", "no drafts at all")), seen


def test_what_was_started_after_a_stop_token_is_wasted() -> None:
    """By hand, two stages: the second of five tokens is a stop token, and one step more was started by then."""
    config = {"max_num_seqs": 1, "max_num_batched_tokens": 4, "async_scheduling": True}
    drawn = Drawn(2, [Request(0, 2, 5, stop_after=2)], config)
    history = drawn.prepared().histories[0]
    rows = {call.batch.number: len(call.batch.rows) for call in history.calls if call.batch}
    assert [number for number, count in rows.items() if count] == [0, 2, 4]
    assert [history.told[number] for number in (0, 2, 4)] == [(1,), (1,), (0,)]
    synchronous = Drawn(2, drawn.requests, {**config, "async_scheduling": False}).prepared().histories[0]
    assert all(all(told) for told in synchronous.told), "the scheduler waits for the result before the next step"


class NeedsByLimit(SampledTokens):
    """Takes the end for known that only the model knows."""

    def row_needs(self, row: Row) -> bool:
        return super().row_needs(row) and row.position < 3


def test_whoever_knows_the_end_before_is_found() -> None:
    breaks(lambda drawn: nothing_found(drawn, tokens=NeedsByLimit), SEVERAL, "WRONG")


def test_nobody_is_admitted_in_a_step_that_preempts() -> None:
    """By hand: the second request has no room for its draft and gives its slot back. Without a draft it would fit, and
    come back at once.
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
    """Widths of broadcasts with drafts: one place where no row has any, else as many as the longest may have."""
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
