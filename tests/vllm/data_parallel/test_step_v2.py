"""Tests of steps of the V2 runner on the simulator: all ranks agree on one plan, and run all tokens of their batches.

The file test_batch_v2.py compares the agreement alone with the engine's answers. Here the ranks exchange messages, and
the worlds have dummies and drafters. Random worlds show the two defects of release 0.33. Tests that find nothing use
`Repaired`, which is release 0.33 without the two defects.
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
    """Returns the random worlds with some configuration fields fixed."""
    return RANDOM.map(lambda drawn: drawn._replace(config=drawn.config | config))


DRAFTING = worlds(cudagraph_mode="NONE", num_speculative_tokens=2)
TWO_THRESHOLDS = worlds(enable_dbo=True, dbo_decode_token_threshold=2, dbo_prefill_token_threshold=512)


def played(drawn: Drawn, step: type[DataParallelStepV2] = Repaired, drafter: type[DrafterV2] = DrafterV2) -> Played:
    return drawn.play(step=step, drafter=drafter, flow=Flow033, parts=1, enable_sp=False)


# ---- random worlds


def one_decision(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> None:
    """All ranks decide the same, in the same order (invariant I-DP-1), and no check reports a finding."""
    done = played(drawn, step)
    for label in ("plan", "mode", "draft.plan"):
        first, *others = (done.decided(label, rank) for rank in done.ranks)
        assert all(other == first for other in others), f"I-DP-1: ranks differ in {label}"
    assert done.classes == [], f"found: {done.classes}"


def one_agreement_a_step(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> None:
    """The ranks agree exactly once in each step (invariant I-DP-2). The drafter reuses the agreement (spec 10.3)."""
    done = played(drawn, step)
    for rank in done.ranks:
        steps = [raw[STEP] for raw in done.run.journals[rank] if raw[KIND] == "decision" and raw[SITE] == "plan"]
        assert steps == list(range(done.prepared.timeline.steps)), "I-DP-2"
        for at in steps:
            told = done.count(rank, "transfer", "dp.agree", at)
            assert told == 2 * sum(map(len, doubling.exchanges(rank, done.world.size))), f"I-DP-2: {told} swaps"


@examples(25, 500)
def test_every_rank_decides_the_same(examples: int) -> None:
    """All ranks decide the same in random worlds."""
    holds(one_decision, RANDOM, examples)


@examples(10, 200)
def test_each_rank_makes_one_agreement_a_step(examples: int) -> None:
    holds(one_agreement_a_step, RANDOM, examples)


class ByRows(Repaired):
    """A rank reads the row of tokens as the row of modes, and the reverse."""

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        table = await super().gather(column)
        return table[[1, 0, *range(2, len(column))]]


class ByOwnThreshold(Repaired):
    """Mutant M-UB-12 on top of the repaired release: a rank selects the split threshold by its own batch only."""

    class Agreement(OwnThreshold.Agreement, Repaired.Agreement):
        pass

    agreement = Agreement


class OwnRequestsInTheRecord(Repaired):
    """The record contains the rank's own number of requests, so the ranks' drafters plan different forwards."""

    class Agreement(Repaired.Agreement):
        def decide(self, table: HostArray, local: LocalV2) -> Any:
            chosen, state = super().decide(table, local)
            return chosen, state and state._replace(num_reqs=local.num_reqs)

    agreement = Agreement


class AgreesTwice(Repaired):
    """A rank agrees twice in each step."""

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
    """In some random world, a check finds each mistake. The last two are the defects of release 0.33."""
    breaks(lambda drawn: one_decision(drawn, wrong), worlds, says, examples=500)


def test_a_second_agreement_is_found() -> None:
    breaks(lambda drawn: one_agreement_a_step(drawn, AgreesTwice), RANDOM, "I-DP-2", examples=50)


# ---- examples


def plans(*of_ranks: Any, step: type[DataParallelStepV2] = DataParallelStepV2, **config: Any) -> list[Any]:
    """Returns the plans of both ranks, which have to be equal, for the requests of each rank."""
    done = play(line_up(*of_ranks), step=step, flow=Flow033, **config)
    assert done.classes == []
    assert done.decided("plan", 0) == done.decided("plan", 1)
    return done.decided("plan", 0)


def test_examples_over_the_wire() -> None:
    """Steps reach the results of examples A-16 to A-18 and A-20 of the specification, over real messages.

    In mode NONE (A-18), ranks keep their own counts. A split step (A-20) is padded all the same.
    """
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": (1, 2, 4, 8, 16), "max_num_seqs": 8}
    assert plans(decodes(3), [], **sizes) == [(False, (4, 4), 2)]
    assert plans(decodes(3), prefill(11), **sizes) == [(False, (16, 16), 1)]
    assert plans(decodes(3), prefill(100), **sizes) == [(False, (3, 100), 0)]
    assert plans(prefill(600), prefill(1500), enable_dbo=True) == [(True, (1500, 1500), 0)]


SPLIT: dict[str, Any] = {"enable_dbo": True, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": (64, 128)}


def test_a_last_microbatch_without_a_token() -> None:
    """Example A-19: with 64 and 128 tokens, the ranks keep a FULL graph, and the last microbatch of rank 0 is empty.

    This is a defect of release 0.33, and the witness finds it. The repaired release runs such a step eagerly, where an
    empty microbatch does no harm.
    """
    done = play(line_up(decodes(64), decodes(128)), step=DataParallelStepV2, flow=Flow033, **SPLIT)
    assert done.classes == ["CRASH:EMPTYREPLAY"]
    assert done.decided("plan", 0) == [(True, (128, 128), 2)]
    assert plans(decodes(64), decodes(128), step=Repaired, **SPLIT) == [(True, (128, 128), 0)]
    assert plans(decodes(63), decodes(128), **SPLIT) == [(True, (128, 128), 0)]
    assert plans(decodes(65), decodes(128), **SPLIT) == [(True, (128, 128), 2)]


def test_a_single_rank_makes_no_agreement() -> None:
    """A single rank makes no agreement, neither for the target model nor for the drafter (invariant I-DP-8)."""
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
    """The drafter runs under the record of the step: first all tokens, then one token for each request.

    The first forward has four tokens (prompts of three and one). In further forwards, each rank runs the largest number
    of requests on a rank, here two.
    """
    done = drafted(DrafterV2, [*prefill(3), *decodes(1)], [])
    assert done.classes == []
    assert done.decided("plan", 0) == [(False, (4, 4), 0)]
    assert done.decided("draft.plan", 0) == done.decided("draft.plan", 1) == [((4, 4), 0), ((2, 2), 0)]


def test_a_record_of_another_batch() -> None:
    """Mutant M-DP-14, a drafter that keeps the first record, raises on a rank whose token count differs.

    If all counts match, no rank raises, and no check reports a finding.
    """
    assert drafted(FirstRecord, prefill(4, 2), prefill(4, 2), num_speculative_tokens=1).classes[0].startswith("CRASH")
    assert drafted(FirstRecord, prefill(8), prefill(8), max_num_batched_tokens=4, max_num_seqs=4).classes == []


# ---- captured


def captured(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> list[str]:
    """Returns the classes of findings in a world whose ranks capture and replay graphs, without microbatches."""
    config = {"enable_dbo": False, "capture_graphs": True, "parts": 1, "enable_sp": False, "cudagraph_mode": "FULL"}
    return drawn.play(step=step, captured=CapturedForwardV2, drafter=DrafterV2, flow=Flow033, **config).classes


def nothing_in_graphs(drawn: Drawn, step: type[DataParallelStepV2] = Repaired) -> None:
    found = captured(drawn, step)
    assert found == [], f"found: {found}"


class NamesNoRequests(Repaired):
    """A rank looks up a graph by a key without the number of requests; no graph was captured under such a key."""

    async def coordinate(self, batch: Batch) -> Execution:
        execution = await super().coordinate(batch)
        return execution._replace(key=execution.key._replace(num_reqs=None))


def test_graphs_are_those_that_are_looked_up() -> None:
    """Every graph that a rank looks up was captured. The faulty twin looks up another key."""
    worlds_of = worlds(cudagraph_capture_sizes=[2, 6])
    holds(nothing_in_graphs, worlds_of, 5)
    breaks(lambda drawn: nothing_in_graphs(drawn, NamesNoRequests), worlds_of, "found: ", examples=20)


def test_no_rank_asks_another_in_a_capture() -> None:
    """A capture session of the V2 runner makes no agreement; only the three steps do.

    For each of the two sizes, the session captures one graph for decodes and one for other batches.
    """
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
    """Returns the plan of the first step in release 0.17, which has to be equal on all ranks."""
    done = play(line_up(*of_ranks), step=DataParallelStepV2017, **config)
    assert done.classes == []
    ranks = [done.decided("plan", rank) for rank in done.ranks]
    assert all(plan == ranks[0] for plan in ranks)
    return ranks[0][0]


def test_sizes_over_the_wire() -> None:
    """Example A-15: in release 0.17, a rank without tokens runs one token, or the tokens of the graph.

    If all ranks have a graph, they run the largest size in the smallest mode.
    """
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": (1, 2, 4, 8), "max_num_seqs": 6}
    assert plan_017(decodes(3), [], **sizes) == (False, (3, 1), 0)
    assert plan_017(decodes(3), prefill(7), **sizes) == (False, (8, 8), 1)
    assert plan_017(prefill(3), prefill(900), **sizes) == (False, (3, 900), 0)


# ---- configuration that a form of the V2 runner refuses


@pytest.mark.parametrize(
    ("form", "config", "said"),
    [
        ("v2-0.33", {"enable_lora": True}, "config.enable_lora: the form v2-0.33 does not use it"),
        ("v2-0.17", {"enable_dbo": True}, "config.enable_dbo or config.ubatch_size: the form v2-0.17"),
        ("v2-0.17", {"num_speculative_tokens": 1, "speculative_method": "mtp"}, "config.speculative_method"),
    ],
)
def test_a_form_of_the_v2_runner_refuses_configuration_that_it_does_not_model(
    form: str, config: dict[str, Any], said: str
) -> None:
    """A form of the V2 runner refuses configuration that it does not model."""
    with pytest.raises(Unsuitable, match=said):
        DataParallelBatch().prepare(EngineArguments({"data_parallel_size": 2}, config, tuple(decodes(1)), 1, form=form))
