"""Tests that the sums of a step contain exactly the scheduled tokens, and that the witness notices wrong tokens.

The tests compare the sums with a naive computation from the batches (`naive_tokens.py`). Then they plant faults where a
rank writes its tokens into rows. The witness must report a fault that changes a row, and no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.diagnose.words import text
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from dpsim.vllm.data_parallel.batch import Release014, Source000
from dpsim.vllm.data_parallel.forward import Execution, Microbatch
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.model.rows import Piece, cut
from dpsim.vllm.programs.dp_batch import DataParallelBatch
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import (
    Drawn,
    Played,
    configs,
    decodes,
    drawn_worlds,
    line_up,
    pieces,
    play,
    prefill,
    request_lists,
    scenario,
)
from tests.vllm.data_parallel.naive_tokens import Reckoner

WRONG = {"CRASH:DROPPEDTOKENS", "CRASH:WRONGSUM"}


@st.composite
def worlds(draw: st.DrawFn) -> Drawn:
    """Draws worlds of two to four ranks with few requests, so that some ranks are idle.

    Some worlds have a small budget and few slots, so that prompts are cut into chunks.
    """
    config = draw(configs())
    if draw(st.sampled_from([False, False, True])):
        config |= {"max_num_seqs": 4, "max_num_batched_tokens": 16}
    return Drawn(draw(st.integers(2, 4)), draw(request_lists(force_eager=True)), config)


# ---- sums


def naive_sums(played: Played) -> Iterator[int]:
    """Yields the sums that each rank has to read, for each microbatch of each step."""
    timeline, requests = played.prepared.timeline, played.requests
    reckoner = Reckoner([request.prompt_tokens for request in requests])
    for step, (microbatched, counts, _) in enumerate(played.decided("plan", 0)):
        batches = [[(request, tokens) for request, tokens, _ in batch.scheduled] for batch in timeline.batches(step)]
        yield from reckoner.sums(batches, counts, played.prepared.config.num_ubatches if microbatched else 1)


def sums_are_the_naive_ones(played: Played) -> None:
    """Asserts that every rank read the sums that the naive computation yields."""
    expected = list(naive_sums(played))
    for rank in played.ranks:
        assert played.decided("experts", rank) == expected, "the sums are those of the scheduled tokens"


@examples(75, 375, 1_500)
@pytest.mark.parametrize("form", [Source000(), Release014()], ids=["source-000", "0.14"])
def test_all_ranks_read_the_naive_sums_in_random_worlds(form: Source000 | Release014, examples: int) -> None:
    """In random worlds, all ranks read the naive sums, and each kind of world occurs at least five times."""
    seen: Counter[str] = Counter()

    def hold(drawn: Drawn) -> None:
        played = drawn.play(form=form)
        if played.findings:  # release 0.14 with a rank that has to run eagerly: see test_release_014.py
            assert isinstance(form, Release014)
            assert WRONG.isdisjoint(played.classes)
            return
        sums_are_the_naive_ones(played)
        seen.update(features(played))

    holds(hold, worlds(), examples=examples)
    wanted = {"2 ranks", "3 ranks", "4 ranks", "dummy", "padding", "microbatches", "chunk", "drafts"}
    assert all(seen[what] >= 5 for what in wanted), seen


def features(played: Played) -> set[str]:
    timeline, config = played.prepared.timeline, played.prepared.config
    batches = [batch for step in range(timeline.steps) for batch in timeline.batches(step)]
    counts = [count for _, counts, _ in played.decided("plan", 0) for count in counts]
    return {
        f"{played.world.size} ranks",
        "dummy" if any(not batch.scheduled for batch in batches) else "",
        "padding" if any(batch.num_tokens < count for batch, count in zip(batches, counts, strict=True)) else "",
        "microbatches" if any(split for split, _, _ in played.decided("plan", 0)) else "",
        "chunk" if any(position for batch in batches for _, tokens, position in batch.scheduled if tokens > 3) else "",
        "drafts" if config.num_speculative_tokens and any(batch.num_reqs for batch in batches) else "",
    }


class WithoutPositions(DataParallelStep):
    """A rank writes the same value for all tokens of a request, so the sums are wrong."""

    def launch_layer(
        self, total: int, start: int, count: int, pieces: tuple[Piece, ...], model: str = ""
    ) -> Microbatch:
        return super().launch_layer(total, start, count, tuple((one, tokens, 0) for one, tokens, _ in pieces), model)


def test_a_kernel_without_positions_gives_other_sums() -> None:
    breaks(lambda drawn: sums_are_the_naive_ones(drawn.play(step=WithoutPositions)), worlds(), "the scheduled tokens")


def test_tensor_parallel_ranks_add_the_same_rows() -> None:
    """With two tensor-parallel ranks, each of them has every token, so the sums are twice those of one rank."""
    alone = scenario(line_up(decodes(3), prefill(9)))
    twice = scenario_from(
        alone.model_dump(by_alias=True, exclude_unset=True)
        | {"topology": {"data_parallel_size": 2, "tensor_parallel_size": 2}}
    )
    one, two = run_scenario(alone), run_scenario(twice)
    assert one.findings == two.findings == []
    assert [2 * number for number in sums(one.run.journals[0])] == sums(two.run.journals[0])


def sums(journal: Any) -> list[int]:
    return [raw[DECISION_VALUE] for raw in journal if raw[KIND] == "decision" and raw[SITE] == "experts"]


# ---- planted faults


Rows = tuple[int, tuple[Piece, ...]]
"""The row at which a rank's tokens start, and its tokens."""

Change = Callable[[int, int, int, tuple[Piece, ...]], Rows]
"""A planted fault. It takes the rows of all ranks, the rank's first row, its number of rows and its tokens.

It returns the row and the tokens that the rank writes instead.
"""


def drops_last(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank does not write its last token."""
    return start, cut(own, 0, length(own) - 1)


def drops_first(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank does not write its first token."""
    return start, cut(own, 1, length(own))


def doubles_first(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank writes its first token twice."""
    return start, cut(cut(own, 0, 1) + own, 0, count)


def turns_round(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The ranks exchange their places: the first rank writes at the place of the last one, and so on."""
    return total - start - count if own else start, own


def leaks_padding(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank writes tokens of another request into its rows of padding."""
    return start, (*own, (7, count - length(own), 0)) if count > length(own) else own


def runs_a_dummy(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank writes no token."""
    return start, ()


def moves_down(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank writes its tokens one row too low, if it has padding."""
    return start + bool(own and length(own) < count), own


def forgets_what_is_computed(total: int, start: int, count: int, own: tuple[Piece, ...]) -> Rows:
    """The rank writes each request from its first position, in every step."""
    return start, tuple((request, tokens, 0) for request, tokens, _ in own)


def length(own: tuple[Piece, ...]) -> int:
    return sum(tokens for _, tokens, _ in own)


CHANGES: list[Change] = [
    drops_last,
    drops_first,
    doubles_first,
    turns_round,
    leaks_padding,
    runs_a_dummy,
    moves_down,
    forgets_what_is_computed,
]


def faulty(change: Change) -> tuple[type[DataParallelStep], list[bool]]:
    """Returns a step with a planted fault, and a list of whether each call of the fault changed something."""
    changed: list[bool] = []

    class Faulty(DataParallelStep):
        def launch_layer(
            self, total: int, start: int, count: int, pieces: tuple[Piece, ...], model: str = ""
        ) -> Microbatch:
            wrong_start, wrong = change(total, start, count, pieces)
            changed.append((wrong_start, wrong) != (start, pieces))
            buffer, _ = super().launch_layer(total, wrong_start, count, wrong, model)
            return buffer, slice(start, start + count)

    return Faulty, changed


@examples(15, 250, 1_000)
@pytest.mark.parametrize("change", CHANGES)
def test_a_fault_is_noticed_where_it_changes_a_row(change: Change, examples: int) -> None:
    """The witness reports a planted fault exactly if it changes a row."""
    seen = [0, 0]

    def noticed(drawn: Drawn) -> None:
        step, changed = faulty(change)
        played = drawn.play(step=step)
        seen[any(changed)] += 1
        assert bool(WRONG & set(played.classes)) == any(changed)
        if not any(changed):
            assert played.findings == []

    holds(noticed, worlds(), examples=examples)
    assert seen[True] > examples // 4, seen


@examples(10, 250, 1_000)
@pytest.mark.parametrize("mutant", ["M-DP-17", "M-DP-18"])
def test_a_mutant_is_noticed_where_a_rank_has_fewer_rows_than_tokens(mutant: str, examples: int) -> None:
    """The witness reports a mutant that drops tokens exactly if a rank has fewer rows than tokens."""
    seen = [0, 0]

    def noticed(drawn: Drawn) -> None:
        played = drawn.play(**pieces(mutant))
        lost = sum(dropped for dropped, _ in rows_and_tokens(played))
        seen[bool(lost)] += 1
        assert ("CRASH:DROPPEDTOKENS" in played.classes) == bool(lost), played.classes
        if not lost:
            assert played.findings == []

    holds(noticed, drawn_worlds(), examples=examples)
    assert min(seen) > examples // 20, seen


# ---- the messages of the witness


def first(played: Played) -> str:
    return text(played.findings[0].message)


def test_the_message_on_a_dropped_token() -> None:
    """The message about a dropped token names the step, the room of the forward, and the token."""
    played = play(line_up(decodes(2), decodes(3)), step=faulty(drops_last)[0])
    assert set(played.classes) == {"CRASH:DROPPEDTOKENS"}
    said = "2 tokens were scheduled in step 0, the forward had room for 4, and token 1 (request 2, position 0) did not"
    assert said in first(played)


def test_the_message_names_the_step_of_the_culprit() -> None:
    """With asynchronous scheduling, a rank compares a batch in the next step, and the message names both steps."""
    for is_async in (False, True):
        world = line_up(decodes(2, 2), decodes(3, 2))
        played = play(world, step=faulty(drops_last)[0], async_scheduling=is_async)
        culprit = played.findings[0].culprit
        assert culprit is not None
        assert culprit.step == is_async
        assert ("in step 0 (compared in step 1), the forward" in first(played)) == is_async


def test_the_message_on_a_wrong_sum() -> None:
    """The message about a wrong sum names the row, both sums and the token."""
    played = play(line_up(decodes(1), decodes(1)), step=faulty(turns_round)[0])
    assert set(played.classes) == {"CRASH:WRONGSUM"}
    assert "row 0 of 1 of step 0 sums up to 618035, the model says 1: token 0 (request 0, position 0)" in first(played)


def test_the_message_on_padding() -> None:
    """The message about a wrong row of padding names the row, and says that it is padding."""
    played = play(line_up(decodes(3), decodes(3)), step=faulty(leaks_padding)[0])
    assert set(played.classes) == {"CRASH:WRONGSUM"}
    assert "row 3 of 4 of step 0 sums up to" in first(played)
    assert first(played).endswith("the model says 0: padding")


class SkipsABusyStep(DataParallelStep):
    """No rank runs step 1."""

    async def step(self, batch: Batch) -> None:
        if self.rank.step != 1:
            await super().step(batch)


@pytest.mark.parametrize("output_tokens", [2, 3])
def test_a_step_that_no_rank_runs(output_tokens: int) -> None:
    """If all ranks leave out a step, no rank waits, but the witness reports it, in the last step and before."""
    played = play(line_up(decodes(1, output_tokens), decodes(1, output_tokens)), step=SkipsABusyStep)
    assert set(played.classes) == {"CRASH:DROPPEDTOKENS"}
    assert "1 tokens were scheduled in step 1, and it never ran (I-DP-6)" in first(played)


class ForgetsAPart(DataParallelStep):
    """A rank hands only its first microbatch to the witness."""

    async def execute(self, execution: Execution) -> None:
        await super().execute(execution)
        if execution.plan.microbatched and self.in_flight:
            del self.in_flight[-1][1][1:]


def test_the_witness_reports_a_dropped_microbatch() -> None:
    """The witness reports a microbatch that the rank does not hand to it."""
    config: dict[str, Any] = {"enable_dbo": True, "dbo_decode_token_threshold": 2, "async_scheduling": True}
    played = play(line_up(decodes(4), decodes(4)), step=ForgetsAPart, **config)
    assert set(played.classes) == {"CRASH:DROPPEDTOKENS"}
    assert "4 tokens were scheduled in step 0, the forward had room for 2" in first(played)


# ---- figures


def rows_and_tokens(played: Played) -> Iterator[tuple[int, int]]:
    """Yields for each rank and step the number of lost tokens, and the number of rows without a token."""
    for rank in played.ranks:
        for step, (_, counts, _) in enumerate(played.decided("plan", rank)):
            tokens = played.prepared.timeline.batches(step)[rank].num_tokens
            yield max(tokens - counts[rank], 0), max(counts[rank] - tokens, 0)


@pytest.mark.parametrize("mutant", [None, "M-DP-17", "M-DP-18"])
def test_no_overhead_is_negative(mutant: str | None) -> None:
    """The figures of a report count dropped tokens separately, and not as negative padding."""

    def contrasted(drawn: Drawn) -> None:
        played = drawn.play(**(pieces(mutant) if mutant else {}))
        figures = DataParallelBatch().figures(played.prepared, played.run.journals)
        plans = len(played.decided("plan", 0))
        timeline = played.prepared.timeline
        lost = padding = real = 0
        for step, (_, counts, _) in zip(range(plans), played.decided("plan", 0), strict=True):
            for count, batch in zip(counts, timeline.batches(step), strict=True):
                lost += max(batch.num_tokens - count, 0)
                padding += max(count - batch.num_tokens, 0)
                real += batch.num_tokens
        assert figures["padded-token overhead"] == f"{100 * padding / real:.1f} %"
        assert figures.get("tokens dropped", 0) == lost
        assert figures["tokens scheduled"] == real == figures["tokens run"] - padding + lost

    holds(contrasted, drawn_worlds(), examples=40)
