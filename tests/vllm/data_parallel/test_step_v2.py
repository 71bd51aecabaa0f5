"""Steps of the V2 runner on the simulated machine: ranks agree on one plan, and tokens come out.

The agreement itself is held to the engine's answers in `test_batch_v2.py`; here it goes over the wire, with dummies and
drafters. Release 0.33 has two defects, which random worlds find; worlds that hold run it with both repaired.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.contract.interface import HostArray
from dpsim.contract.ops import KIND, SITE, STEP
from dpsim.contract.program import Unsuitable
from dpsim.vllm.data_parallel import doubling
from dpsim.vllm.data_parallel.batch_v2 import LocalV2
from dpsim.vllm.data_parallel.captured_v2 import CapturedForwardV2
from dpsim.vllm.data_parallel.drafter_v2 import DrafterV2
from dpsim.vllm.data_parallel.flow import Flow033
from dpsim.vllm.data_parallel.forward import Execution
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.data_parallel.step_v2_017 import DataParallelStepV2017
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.museum.batch_v2 import FirstRecord, KeepsHalfEmpty, OwnThreshold, Repaired, SplitsBeforeModes
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.programs.dp_batch import DataParallelBatch
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import Drawn, Played, decodes, drawn_worlds, line_up, play, prefill

RANDOM = drawn_worlds(force_eager=True, more=True)


def worlds(**config: Any) -> st.SearchStrategy[Drawn]:
    """The random ones that all have something in common."""
    return RANDOM.map(lambda drawn: drawn._replace(config=drawn.config | config))


DRAFTING = worlds(cudagraph_mode="NONE", num_speculative_tokens=2)
TWO_THRESHOLDS = worlds(enable_dbo=True, dbo_decode_token_threshold=2, dbo_prefill_token_threshold=512)


def played(drawn: Drawn, step: type[DataParallelStepV2] = Repaired, drafter: type[DrafterV2] = DrafterV2) -> Played:
    return drawn.play(step=step, drafter=drafter, flow=Flow033, parts=1, enable_sp=False)


# ---- random worlds


def one_decision(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> None:
    """I-DP-1: what a rank decided, and in which order, all did; and no check found anything wrong with it."""
    done = played(drawn, step)
    for label in ("plan", "mode", "draft.plan"):
        first, *others = (done.decided(label, rank) for rank in done.ranks)
        assert all(other == first for other in others), f"I-DP-1: ranks differ in {label}"
    assert done.classes == [], f"found: {done.classes}"


def one_agreement_a_step(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> None:
    """I-DP-2: of each step one, which the drafter goes by as well (10.3)."""
    done = played(drawn, step)
    for rank in done.ranks:
        steps = [raw[STEP] for raw in done.run.journals[rank] if raw[KIND] == "decision" and raw[SITE] == "plan"]
        assert steps == list(range(done.prepared.timeline.steps)), "I-DP-2"
        for at in steps:
            told = done.count(rank, "transfer", "dp.agree", at)
            assert told == 2 * sum(map(len, doubling.exchanges(rank, done.world.size))), f"I-DP-2: {told} swaps"


@examples(25, 500)
def test_every_rank_decides_the_same(examples: int) -> None:
    holds(one_decision, RANDOM, examples)


@examples(10, 200)
def test_one_agreement_a_step(examples: int) -> None:
    holds(one_agreement_a_step, RANDOM, examples)


class ByRows(Repaired):
    """Tokens and modes of the table are taken for one another."""

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        table = await super().gather(column)
        return table[[1, 0, *range(2, len(column))]]


class ByOwnThreshold(Repaired):
    """M-UB-12, in which nothing else is wrong."""

    class Agreement(OwnThreshold.Agreement, Repaired.Agreement):
        pass

    agreement = Agreement


class OwnRequestsInTheRecord(Repaired):
    """The record says how many requests the own rank has: the drafter's further forwards differ."""

    class Agreement(Repaired.Agreement):
        def decide(self, table: HostArray, local: LocalV2) -> Any:
            chosen, state = super().decide(table, local)
            return chosen, state and state._replace(num_reqs=local.num_reqs)

    agreement = Agreement


class AgreesTwice(Repaired):
    async def gather(self, column: tuple[int, ...]) -> HostArray:
        await super().gather(column)
        return await super().gather(column)


@pytest.mark.parametrize(
    ("wrong", "worlds", "says"),
    [
        (ByOwnThreshold, TWO_THRESHOLDS, "I-DP-1: ranks differ in plan"),
        (ByRows, RANDOM, "found|I-DP-1"),
        (OwnRequestsInTheRecord, DRAFTING, "I-DP-1: ranks differ in draft.plan"),
        pytest.param(KeepsHalfEmpty, RANDOM, "found: .*CRASH:EMPTYREPLAY", marks=pytest.mark.slow),
        pytest.param(SplitsBeforeModes, RANDOM, "found: .*CRASH:EAGERINGRAPH", marks=pytest.mark.slow),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_mistake_is_found(wrong: type[DataParallelStepV2], worlds: st.SearchStrategy[Drawn], says: str) -> None:
    """The last two are what release 0.33 does."""
    breaks(lambda drawn: one_decision(drawn, wrong), worlds, says, examples=500)


def test_a_second_agreement_is_found() -> None:
    breaks(lambda drawn: one_agreement_a_step(drawn, AgreesTwice), RANDOM, "I-DP-2", examples=50)


# ---- examples


def plans(*of_ranks: Any, step: type[DataParallelStepV2] = DataParallelStepV2, **config: Any) -> list[Any]:
    done = play(line_up(*of_ranks), step=step, flow=Flow033, **config)
    assert done.classes == []
    assert done.decided("plan", 0) == done.decided("plan", 1)
    return done.decided("plan", 0)


def test_examples_over_the_wire() -> None:
    """A-16 to A-18, with a dummy, and unpadded where the mode is NONE; A-20, split and padded all the same."""
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": (1, 2, 4, 8, 16), "max_num_seqs": 8}
    assert plans(decodes(3), [], **sizes) == [(False, (4, 4), 2)]
    assert plans(decodes(3), prefill(11), **sizes) == [(False, (16, 16), 1)]
    assert plans(decodes(3), prefill(100), **sizes) == [(False, (3, 100), 0)]
    assert plans(prefill(600), prefill(1500), enable_dbo=True) == [(True, (1500, 1500), 0)]


SPLIT: dict[str, Any] = {"enable_dbo": True, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": (64, 128)}


def test_a_last_microbatch_without_a_token() -> None:
    """A-19: (64, 128) keeps its FULL graph, in which the smaller rank's second half is padding; eagerly it may be."""
    done = play(line_up(decodes(64), decodes(128)), step=DataParallelStepV2, flow=Flow033, **SPLIT)
    assert done.classes == ["CRASH:EMPTYREPLAY"]
    assert done.decided("plan", 0) == [(True, (128, 128), 2)]
    assert plans(decodes(64), decodes(128), step=Repaired, **SPLIT) == [(True, (128, 128), 0)]
    assert plans(decodes(63), decodes(128), **SPLIT) == [(True, (128, 128), 0)]
    assert plans(decodes(65), decodes(128), **SPLIT) == [(True, (128, 128), 2)]


def test_one_rank_agrees_with_nobody() -> None:
    """I-DP-8, with a drafter."""
    config: dict[str, Any] = {"num_speculative_tokens": 3, "speculative_method": "mtp", "cudagraph_mode": "NONE"}
    done = play(prefill(3), ranks=1, step=DataParallelStepV2, drafter=DrafterV2, flow=Flow033, **config)
    assert done.classes == []
    assert done.decided("plan", 0) == [(False, None, 0)]
    assert done.decided("draft.plan", 0) == []
    assert done.count(0, "collective", "draft.experts.combine", 0) == 3


def drafted(drafter: type[DrafterV2], *of_ranks: Any, **config: Any) -> Played:
    told: dict[str, Any] = {"num_speculative_tokens": 3, "speculative_method": "mtp", "cudagraph_mode": "NONE"}
    return play(line_up(*of_ranks), step=DataParallelStepV2, drafter=drafter, flow=Flow033, **told | config)


def test_a_drafter_runs_under_the_record() -> None:
    """A prompt of three and one of one are four tokens; then each rank runs as many as the most requests of a rank."""
    done = drafted(DrafterV2, [*prefill(3), *decodes(1)], [])
    assert done.classes == []
    assert done.decided("plan", 0) == [(False, (4, 4), 0)]
    assert done.decided("draft.plan", 0) == done.decided("draft.plan", 1) == [((4, 4), 0), ((2, 2), 0)]


def test_a_record_of_another_batch() -> None:
    """M-DP-14: a rank with another count raises. Where all counts match no rank raises, and nothing is wrong."""
    assert drafted(FirstRecord, prefill(4, 2), prefill(4, 2), num_speculative_tokens=1).classes[0].startswith("CRASH")
    assert drafted(FirstRecord, prefill(8), prefill(8), max_num_batched_tokens=4, max_num_seqs=4).classes == []


# ---- captured


def captured(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> list[str]:
    """What is found where graphs are really captured and replayed; nothing is split."""
    config = {"enable_dbo": False, "capture_graphs": True, "parts": 1, "enable_sp": False, "cudagraph_mode": "FULL"}
    return drawn.play(step=step, captured=CapturedForwardV2, drafter=DrafterV2, flow=Flow033, **config).classes


def nothing_in_graphs(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> None:
    found = captured(drawn, step)
    assert found == [], f"found: {found}"


class NamesNoRequests(Repaired):
    """The key of a graph says nothing of its requests: none was captured under it."""

    async def coordinate(self, batch: Batch) -> Execution:
        execution = await super().coordinate(batch)
        return execution._replace(key=execution.key._replace(num_reqs=None))


def test_graphs_are_those_that_are_looked_up() -> None:
    worlds_of = worlds(cudagraph_capture_sizes=[2, 6])
    holds(nothing_in_graphs, worlds_of, 5)
    breaks(lambda drawn: nothing_in_graphs(drawn, NamesNoRequests), worlds_of, "found: ", examples=20)


def test_no_rank_asks_another_in_a_capture() -> None:
    """Only the steps agree; of each size there is one graph for decodes and one for all."""
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": (1, 2), "max_num_seqs": 2, "capture_graphs": True}
    done = play(
        line_up(decodes(2, 3), decodes(1, 3)),
        step=DataParallelStepV2,
        flow=Flow033,
        captured=CapturedForwardV2,
        cudagraph_mode="FULL_AND_PIECEWISE",
        **sizes,
    )
    assert done.classes == []
    agreed = [raw[STEP] for raw in done.run.journals[0] if (raw[KIND], raw[SITE]) == ("transfer", "dp.agree")]
    assert sorted(set(agreed)) == [0, 1, 2]
    assert len(done.decided("capture", 0)) == 4


# ---- release 0.17


def plan_017(*of_ranks: Any, **config: Any) -> Any:
    done = play(line_up(*of_ranks), step=DataParallelStepV2017, **config)
    assert done.classes == []
    ranks = [done.decided("plan", rank) for rank in done.ranks]
    assert all(plan == ranks[0] for plan in ranks)
    return ranks[0][0]


def test_sizes_over_the_wire() -> None:
    """A-15: a rank without tokens has one all the same, or that of the graph. Where all have graphs the largest is run,
    in the smallest mode.
    """
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": (1, 2, 4, 8), "max_num_seqs": 6}
    assert plan_017(decodes(3), [], **sizes) == (False, (3, 1), 0)
    assert plan_017(decodes(3), prefill(7), **sizes) == (False, (8, 8), 1)
    assert plan_017(prefill(3), prefill(900), **sizes) == (False, (3, 900), 0)


# ---- what a form of V2 does not look at


@pytest.mark.parametrize(
    ("form", "config", "said"),
    [
        ("v2-0.33", {"enable_lora": True}, "config.enable_lora: the form v2-0.33 does not use it"),
        ("v2-0.17", {"enable_dbo": True}, "config.enable_dbo or config.ubatch_size: the form v2-0.17"),
        ("v2-0.17", {"num_speculative_tokens": 1, "speculative_method": "mtp"}, "config.speculative_method"),
    ],
)
def test_refused(form: str, config: dict[str, Any], said: str) -> None:
    with pytest.raises(Unsuitable, match=said):
        DataParallelBatch().prepare(EngineArguments({"data_parallel_size": 2}, config, tuple(decodes(1)), 1, form=form))
