"""Tests of invariants I-DP-1 to I-DP-12 of specification 1.10; for each, a decision or rank that breaks it is found.

Some properties concern only the decision; random groups of ranks check these. Others concern what ranks do; small
worlds on the simulator check these by the journals. Invariant I-DP-13 (every entry into the agreement returns) holds
because all worlds here finish. Invariant I-DP-14 concerns the V2 runner (test_batch_v2_invariants.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from dpsim.contract.ops import COMMUNICATOR, KIND
from dpsim.diagnose.words import text
from dpsim.vllm.config import Microbatching, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, LocalBatch, Release014, Source000, StepPlan
from dpsim.vllm.data_parallel.flow import Flow017, Flow033
from dpsim.vllm.data_parallel.forward import Execution, Microbatch
from dpsim.vllm.data_parallel.microbatch import slice_sizes
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model.rows import Piece
from dpsim.vllm.params.arguments import Request
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
    request_lists,
)

# ---- the decision: random groups


class Group(NamedTuple):
    """A group of ranks: the microbatching configuration, and what each rank sends."""

    config: Microbatching
    locals: list[LocalBatch]

    def plan(self, form: BatchForm) -> StepPlan:
        return form.decide(np.array([form.column(local) for local in self.locals], np.int32).T, self.config)

    @property
    def padded(self) -> list[int]:
        return [local.num_tokens_padded for local in self.locals]

    @property
    def modes(self) -> list[RuntimeMode]:
        return [local.mode for local in self.locals]

    def changed(self, rank: int, **fields: Any) -> Group:
        """Returns the group with some fields of one rank changed."""
        locals_ = list(self.locals)
        locals_[rank] = locals_[rank]._replace(**fields)
        return Group(self.config, locals_)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Draws groups of two to five ranks, most of which send equal modes and wishes.

    All ranks want padding, or none does; if one has a graph, all want it.
    """
    config = Microbatching(ubatch_size=draw(st.integers(2, 4)))
    wishes = st.just(True) if draw(st.booleans()) else st.booleans()
    modes = st.just(draw(st.sampled_from(RuntimeMode))) if draw(st.booleans()) else st.sampled_from(RuntimeMode)
    local = st.builds(
        lambda tokens, extra, wish, mode: LocalBatch(tokens, tokens + extra, wish, False, mode),
        st.integers(1, 40),
        st.one_of(st.just(0), st.integers(1, 40)),
        wishes,
        modes,
    )
    locals_ = draw(st.lists(local, min_size=2, max_size=5))
    wants_padding = any(one.mode for one in locals_) or draw(st.booleans())
    return Group(config, [one._replace(wants_padding=wants_padding) for one in locals_])


def smallest_mode(form: BatchForm, group: Group) -> None:
    """The agreed mode is the smallest mode that a rank sent (invariant I-DP-3)."""
    mode = group.plan(form).mode
    assert mode == min(group.modes), "I-DP-3: the agreed mode is the smallest"
    assert mode != RuntimeMode.FULL or set(group.modes) == {RuntimeMode.FULL}, "I-DP-3: FULL only if all are FULL"


def equal_counts(form: BatchForm, group: Group) -> None:
    """In a graph and in a split step, all ranks have one count, at least the largest padded count (invariant
    I-DP-4).
    """
    plan = group.plan(form)
    assert plan.num_tokens is not None
    if plan.mode != RuntimeMode.NONE or plan.microbatched:
        assert len(set(plan.num_tokens)) == 1, "I-DP-4: equal counts in a graph or a split step"
        assert plan.num_tokens[0] >= max(group.padded), "I-DP-4: at least what each rank needs"


def own_counts(form: BatchForm, group: Group) -> None:
    """In mode NONE without microbatches, each rank keeps its padded count (invariant I-DP-5)."""
    plan = group.plan(form)
    if plan.mode == RuntimeMode.NONE and not plan.microbatched:
        assert plan.num_tokens == tuple(group.padded), "I-DP-5: no padding across ranks"


def tokens_in_last_microbatch(form: BatchForm, group: Group) -> None:
    """In a split step, each rank has a real token in its last microbatch (invariant I-DP-7)."""
    plan = group.plan(form)
    assert plan.num_tokens is not None
    if plan.microbatched:
        for local, count in zip(group.locals, plan.num_tokens, strict=True):
            start = sum(slice_sizes(count, group.config.num_ubatches)[:-1])
            assert local.num_tokens > start, "I-DP-7: a real token in each rank's last microbatch"


def order_of_ranks(form: BatchForm, group: Group) -> None:
    """Another order of the ranks changes only the order of the list (invariant I-DP-10)."""
    plan, turned = group.plan(form), Group(group.config, group.locals[1:] + group.locals[:1]).plan(form)
    assert plan.num_tokens is not None
    turned_back = plan._replace(num_tokens=plan.num_tokens[1:] + plan.num_tokens[:1])
    assert turned == turned_back, "I-DP-10: permuting ranks permutes the list only"


def lower_mode(form: BatchForm, group: Group) -> None:
    """If one rank lowers its mode, the agreed mode does not rise (invariant I-DP-11)."""
    mode = group.plan(form).mode
    for rank, local in enumerate(group.locals):
        for lower in RuntimeMode:
            if lower < local.mode:
                assert group.changed(rank, mode=lower).plan(form).mode <= mode, (
                    "I-DP-11: a lower mode raised the agreed"
                )


def more_tokens(form: BatchForm, group: Group) -> None:
    """If one rank has more tokens, and mode and split stay, no other rank's count falls (invariant I-DP-11)."""
    plan = group.plan(form)
    for rank, local in enumerate(group.locals):
        for more in (1, 7):
            counts = {"num_tokens": local.num_tokens + more, "num_tokens_padded": local.num_tokens_padded + more}
            other = group.changed(rank, **counts).plan(form)
            if (other.mode, other.microbatched) == (plan.mode, plan.microbatched):
                assert plan.num_tokens is not None
                assert other.num_tokens is not None
                pairs = list(zip(plan.num_tokens, other.num_tokens, strict=True))
                assert all(before <= after for before, after in pairs), "I-DP-11: more tokens lowered another's count"


Property = Callable[[BatchForm, Group], None]

OF_BOTH: list[Property] = [
    smallest_mode,
    equal_counts,
    tokens_in_last_microbatch,
    order_of_ranks,
    lower_mode,
    more_tokens,
]


@examples(33, 500, 2_000)
@pytest.mark.parametrize("form", [Source000(), Release014()], ids=["source-000", "0.14"])
def test_the_invariants_of_a_decision_hold_for_random_groups(form: BatchForm, examples: int) -> None:
    """Invariants I-DP-3, 4, 7, 10 and 11 hold for random groups."""

    def all_hold(group: Group) -> None:
        for property_ in OF_BOTH:
            property_(form, group)

    holds(all_hold, groups(), examples)


@pytest.mark.slow
def test_source_000_pads_no_eager_rank_and_014_does() -> None:
    """Invariant I-DP-5 (no padding across ranks in mode NONE) holds for source page 000, but not for release 0.14.

    Release 0.14 pads if padding is configured (example A-4).
    """
    holds(lambda group: own_counts(Source000(), group), groups())
    breaks(lambda group: own_counts(Release014(), group), groups(), "I-DP-5")


class OfFirstRank(Source000):
    """All ranks take the mode of rank 0, instead of the smallest mode."""

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(modes[0])


class Remainder(Source000):
    """The agreed mode is the sum of the modes, modulo 3."""

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(sum(modes) % 3)


class SmallestCount(Source000):
    """Ranks pad to the smallest padded count, instead of the largest."""

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return (min(padded),) * len(padded) if pad else super().padded_tokens(padded, pad)


class NeverPads(Source000):
    """Ranks never pad to a common count."""

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return super().padded_tokens(padded, False)


class LeavesRoom(Source000):
    """Ranks pad to the largest count plus its distance from the smallest, and without padding run this distance."""

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        room = max(padded) - min(padded)
        return tuple(count + room for count in super().padded_tokens(padded, pad)) if pad else (room,) * len(padded)


class SortsCounts(Source000):
    """The list of counts is sorted, so a count may belong to another rank."""

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return tuple(sorted(super().padded_tokens(padded, pad)))


class OffByOne(Source000):
    """The check for an empty last microbatch counts one real token too many."""

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        return super().agreed_microbatching(wishes, [count + 1 for count in tokens], padded, config)


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (smallest_mode, pieces("M-DP-3")["form"], "I-DP-3"),
        (smallest_mode, OfFirstRank(), "I-DP-3"),
        (equal_counts, SmallestCount(), "I-DP-4: at least"),
        (equal_counts, NeverPads(), "I-DP-4: equal"),
        (own_counts, LeavesRoom(), "I-DP-5"),
        (tokens_in_last_microbatch, pieces("M-DP-8")["form"], "I-DP-7"),
        (tokens_in_last_microbatch, OffByOne(), "I-DP-7"),
        (order_of_ranks, OfFirstRank(), "I-DP-10"),
        (order_of_ranks, SortsCounts(), "I-DP-10"),
        (lower_mode, Remainder(), "I-DP-11: a lower mode"),
        (more_tokens, LeavesRoom(), "I-DP-11: more tokens"),
    ],
)
def test_a_wrong_decision_is_found(property_: Property, wrong: BatchForm, says: str) -> None:
    breaks(lambda group: property_(wrong, group), groups(), says)


def test_more_tokens_may_lower_a_count_when_the_mode_falls() -> None:
    """More tokens on one rank may lower the count of another one if the mode falls, so I-DP-11 assumes equal modes.

    From example A-2 to A-4, rank 1 grows from 7 to 900 tokens, and rank 0 drops from 8 to 4.
    """
    a_2 = Group(
        Microbatching(),
        [LocalBatch(3, 4, False, True, RuntimeMode.FULL), LocalBatch(7, 8, False, True, RuntimeMode.FULL)],
    )
    a_4 = a_2.changed(1, num_tokens=900, num_tokens_padded=900, mode=RuntimeMode.NONE)
    assert [a_2.plan(Source000()).num_tokens, a_4.plan(Source000()).num_tokens] == [(8, 8), (4, 900)]


# ---- what ranks do: small worlds


def every_agreement_returns(played: Played) -> None:
    """Every entry into the agreement returns (invariant I-DP-13), and no check has a finding."""
    assert played.findings == [], "I-DP-13: every entry into the agreement returns, and nothing else is wrong"


def same_plans(played: Played) -> None:
    """All ranks decide the same plans (invariant I-DP-1)."""
    plans = [played.decided("plan", rank) for rank in played.ranks]
    shortest = min(map(len, plans))
    assert all(own[:shortest] == plans[0][:shortest] for own in plans), "I-DP-1: all ranks decide the same"


def one_call_a_step(played: Played) -> None:
    """Every rank enters the agreement once in each step (invariant I-DP-2)."""
    for step in range(played.prepared.timeline.steps):
        calls = [played.count(rank, "collective", "dp.agree", step) for rank in played.ranks]
        assert calls == [1] * len(calls), "I-DP-2: each rank enters the agreement once a step"


def counts_run(played: Played, ran: dict[tuple[int, int], list[int]]) -> None:
    """A rank runs the count that was agreed for it, and it is at least its scheduled tokens (invariant I-DP-6)."""
    for rank in played.ranks:
        for step, (_, num_tokens, _) in enumerate(played.decided("plan", rank)):
            assert sum(ran[rank, step]) == num_tokens[rank], "I-DP-6: a rank runs the count that was agreed for it"
            given = played.prepared.timeline.batches(step)[rank].num_tokens
            assert num_tokens[rank] >= given, "I-DP-6: a rank runs all tokens that its scheduler gave it"


def mode_run(played: Played) -> None:
    """A rank runs the agreed mode and count (invariant I-DP-9)."""
    for rank in played.ranks:
        assert played.run.ends[rank] != "raised", "I-DP-9: the second dispatch changed the count"
        agreed = [RuntimeMode(mode).name for _, _, mode in played.decided("plan", rank)]
        ran = [name for name, _ in played.decided("mode", rank)]
        assert ran == agreed[: len(ran)], "I-DP-9: the second dispatch changed the mode"


def recording(step: type[DataParallelStep]) -> tuple[type[DataParallelStep], dict[tuple[int, int], list[int]]]:
    """Returns a step class that records the rows that each rank runs in each step, and the dict of these records."""
    ran: dict[tuple[int, int], list[int]] = {}

    class Recording(step):  # type: ignore[misc,valid-type]
        def launch_layer(
            self, total: int, start: int, count: int, pieces: tuple[Piece, ...], model: str = ""
        ) -> Microbatch:
            if not model:
                ran.setdefault((self.rank.rank, self.rank.step), []).append(count)
            part: Microbatch = super().launch_layer(total, start, count, pieces, model)
            return part

    return Recording, ran


def counts_run_by(small: Drawn, step: type[DataParallelStep]) -> None:
    recorded, ran = recording(step)
    counts_run(small.play(step=recorded), ran)


class AsksTwice(DataParallelStep):
    """A rank with more than five tokens enters a second agreement before its forward."""

    async def execute(self, execution: Execution) -> None:
        if execution.batch.num_tokens > 5:
            await self.gather((1,) * self.form.rows)
        await super().execute(execution)


class RunsRealTokens(DataParallelStep):
    """The ranks agree on padding, but a rank runs only its real tokens."""

    async def execute(self, execution: Execution) -> None:
        real = execution.batch.num_tokens
        plan = execution.plan._replace(num_tokens=(real,) * self.host.size)
        await super().execute(execution._replace(plan=plan, num_tokens=real))


class CountsTooEarly(DataParallelStep):
    """A rank sends one token fewer than it has. The others decide correctly for that count."""

    async def coordinate(self, batch: Batch) -> Execution:
        told = batch._replace(num_tokens=batch.num_tokens - 1) if batch.num_tokens > 1 else batch
        return (await super().coordinate(told))._replace(batch=batch)


class NeighboursCount(DataParallelStep):
    """A rank runs the count that was agreed for the next rank."""

    async def execute(self, execution: Execution) -> None:
        assert execution.plan.num_tokens is not None
        count = execution.plan.num_tokens[(self.host.index + 1) % self.host.size]
        await super().execute(execution._replace(num_tokens=count))


OF_RANKS = [every_agreement_returns, same_plans, one_call_a_step, mode_run]


@examples(25, 250, 1_000)
def test_the_invariants_of_ranks_hold_in_random_worlds(examples: int) -> None:
    """Invariants I-DP-1, 2, 6, 9 and 13 hold in random worlds."""

    def all_hold(small: Drawn) -> None:
        recorded, ran = recording(DataParallelStep)
        played = small.play(step=recorded)
        for property_ in OF_RANKS:
            property_(played)
        counts_run(played, ran)

    holds(all_hold, drawn_worlds(force_eager=True), examples)


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (every_agreement_returns, pieces("M-DP-1"), "I-DP-13"),
        (same_plans, pieces("M-DP-2"), "I-DP-1"),
        (same_plans, pieces("M-DP-6"), "I-DP-1"),
        (one_call_a_step, pieces("M-DP-1"), "I-DP-2"),
        (one_call_a_step, {"step": AsksTwice}, "I-DP-2"),
        (mode_run, pieces("M-DP-7"), "I-DP-9: .* the mode"),
        (mode_run, pieces("M-DP-11"), "I-DP-9: .* the count"),
        (mode_run, {"form": Release014()}, "I-DP-9"),
    ],
)
def test_a_wrong_rank_is_found(property_: Callable[[Played], None], wrong: dict[str, Any], says: str) -> None:
    breaks(lambda small: property_(small.play(**wrong)), drawn_worlds(force_eager=True), says)


def test_a_rank_that_runs_another_count_is_found() -> None:
    breaks(lambda small: counts_run_by(small, RunsRealTokens), drawn_worlds(), "I-DP-6: .* that was agreed")


def test_a_rank_that_runs_fewer_tokens_than_it_has_is_found() -> None:
    """A rank that runs fewer tokens than it has breaks only the second half of I-DP-6.

    What the ranks decide is correct for the counts that they sent, and equal on all ranks.
    """
    breaks(lambda small: counts_run_by(small, CountsTooEarly), drawn_worlds(), "I-DP-6: .* gave it")
    played = play(line_up(decodes(3), decodes(1)), step=CountsTooEarly, cudagraph_mode="NONE")
    assert [played.decided("plan", rank) for rank in played.ranks] == [[(False, (2, 1), RuntimeMode.NONE)]] * 2
    assert played.classes == ["CRASH:DROPPEDTOKENS"]
    assert "3 tokens were scheduled in step 0, the forward had room for 2, and token 2 " in text(
        played.findings[0].message
    )


def test_a_forward_of_another_size_than_agreed() -> None:
    """A forward of another size than agreed raises.

    The engine asserts this first half of I-DP-6 when it makes the metadata of a forward.
    """
    played = play(line_up(decodes(3), decodes(1)), step=NeighboursCount, cudagraph_mode="NONE")
    assert played.classes == ["CRASH:ASSERTIONERROR"]
    assert "a forward of 1 tokens, where 3 are agreed for this rank (I-DP-6)" in text(played.findings[0].message)


# ---- a single rank (invariant I-DP-8)


class Alone(NamedTuple):
    requests: list[Request]
    config: dict[str, Any]


def makes_no_agreement(alone: Alone, **wrong: Any) -> None:
    """A single rank makes no agreement, and keeps its mode (invariant I-DP-8)."""
    played = play(alone.requests, ranks=1, **alone.config, **wrong)
    assert played.run.finished
    calls = [raw for raw in played.run.journals[0] if raw[KIND] == "collective" and raw[COMMUNICATOR] != "ep"]
    assert calls == [], "I-DP-8: one rank enters no collective"
    for plan, (mode, _) in zip(played.decided("plan", 0), played.decided("mode", 0), strict=True):
        assert plan == (False, None, RuntimeMode[mode]), "I-DP-8: its mode stays as it is"


class TalksToItself(DataParallelStep):
    """A single rank enters the agreement."""

    async def coordinate(self, batch: Batch) -> Execution:
        await self.gather((1,) * self.form.rows)
        return await super().coordinate(batch)


class GivesUpItsGraph(DataParallelStep):
    """A single rank runs eagerly although it has a graph."""

    async def coordinate(self, batch: Batch) -> Execution:
        mode, descriptor = self.flow.first_dispatch(batch)
        self.rank.decide("plan", (False, None, int(mode)), "dp_cpu")
        self.rank.decide("mode", ("NONE", False), "dp_cpu")
        return Execution(StepPlan(False, None, mode), RuntimeMode.NONE, descriptor.num_tokens, batch, descriptor)


@pytest.mark.slow
def test_a_single_rank_enters_no_collective_and_keeps_its_mode() -> None:
    alone = st.builds(Alone, request_lists(force_eager=True), configs())
    holds(makes_no_agreement, alone)
    breaks(lambda one: makes_no_agreement(one, step=TalksToItself), alone, "I-DP-8: one rank")
    breaks(lambda one: makes_no_agreement(one, step=GivesUpItsGraph), alone, "I-DP-8: its mode")


# ---- a rank without work (invariant I-DP-12)


class Beside(NamedTuple):
    """A world with decodes or a prefill on rank 0, and no request on rank 1."""

    requests: list[Request]
    config: dict[str, Any]


@st.composite
def beside_an_idle_rank(draw: st.DrawFn) -> Beside:
    """Draws worlds with requests on rank 0 and no request on rank 1."""
    config = draw(configs())
    if draw(st.booleans()):
        config |= {"enable_lora": True, "cudagraph_specialize_lora": True}
    lora = draw(st.sampled_from([None, "french"])) if "enable_lora" in config else None
    tokens = draw(st.one_of(st.just(config["num_speculative_tokens"] + 1), st.integers(1, 70)))
    requests = [Request(1_000_000, tokens, draw(st.integers(1, 3)), lora=lora)] * draw(st.integers(1, 4))
    return Beside(requests, config)


def changes_nothing(beside: Beside, **wrong: Any) -> None:
    """An idle rank does not change the modes of its peer (invariant I-DP-12). The release is 0.33, unless `wrong`
    differs.
    """
    alone = play(beside.requests, ranks=1, flow=Flow033, **beside.config).decided("mode", 0)
    together = play(line_up(beside.requests, []), **beside.config, **({"flow": Flow033} | wrong))
    assert together.run.finished
    modes = [mode for mode, _ in together.decided("mode", 0)]
    assert modes == [mode for mode, _ in alone], "I-DP-12: a dummy batch took a graph away"


@pytest.mark.slow
def test_an_idle_rank_takes_no_graph_away() -> None:
    holds(changes_nothing, beside_an_idle_rank())
    breaks(lambda beside: changes_nothing(beside, **pieces("M-DP-10")), beside_an_idle_rank(), "I-DP-12")


def test_a_dummy_takes_a_graph_away_in_mode_full_with_drafts_in_0_17() -> None:
    """Release 0.17 breaks I-DP-12 in mode FULL with drafts.

    A uniform decode looks for a graph that does not exist (specification 5.4). A dummy is forced to count as a uniform
    decode, so it takes the graph of a prefill away.
    """
    config: dict[str, Any] = {"cudagraph_mode": "FULL", "num_speculative_tokens": 1}
    config["cudagraph_capture_sizes"] = (2, 4)
    beside = Beside([Request(1_000_000, 3, 1)], config)
    with pytest.raises(AssertionError, match="I-DP-12"):
        changes_nothing(beside, flow=Flow017)
    changes_nothing(beside)


def test_a_rank_of_0_17_that_cannot_idle_in_mode_full_with_drafts() -> None:
    """In mode FULL with drafts, an idle rank of release 0.17 raises (specification 5.4).

    Its graph sizes are not rounded to whole decodes, and its dummy of one token counts as a uniform decode.
    """
    config: dict[str, Any] = {"cudagraph_mode": "FULL", "num_speculative_tokens": 1}
    config["cudagraph_capture_sizes"] = (1, 2, 4)
    idle = play(line_up(decodes(2), []), flow=Flow017, **config)
    assert idle.run.ends[1] == "raised"
    assert idle.count(1, "collective", "dp.agree", 0) == 0
    assert "a decode graph of 1 tokens does not hold whole requests of 2" in text(idle.findings[0].message)
    assert play(line_up(decodes(2), []), flow=Flow033, **config).findings == []


def test_a_dummy_takes_a_graph_away_if_only_adapters_have_graphs() -> None:
    """Known exception of I-DP-12 (example A-31): the dummy has no adapter, and only batches with one have graphs."""
    a_31 = Beside(decodes(3, lora="french"), {"enable_lora": True, "cudagraph_specialize_lora": False})
    with pytest.raises(AssertionError, match="I-DP-12"):
        changes_nothing(a_31)
    changes_nothing(a_31._replace(config={"enable_lora": True, "cudagraph_specialize_lora": True}))


# ---- what a rank asserts by itself


class RoundsDown(Flow017):
    """A rank looks for a graph that is one token too small (mutant M-CG-1)."""

    def dispatch(
        self, batch: Batch, num_tokens: int, allowed: frozenset[RuntimeMode]
    ) -> tuple[RuntimeMode, Descriptor]:
        return super().dispatch(batch, max(num_tokens - 1, 1), allowed)


def test_a_graph_that_is_too_small() -> None:
    """A rank asserts that the padded count is not below the unpadded one (specification 1.3)."""
    played = play(line_up(decodes(5), decodes(5)), flow=RoundsDown, cudagraph_capture_sizes=(4, 8))
    assert {finding.klass for finding in played.findings} == {"CRASH:ASSERTIONERROR"}
    assert "5 tokens padded to 4" in text(played.findings[0].message)
