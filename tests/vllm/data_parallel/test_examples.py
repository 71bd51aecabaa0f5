"""Tests of rows A-1 to A-9, A-14 and A-31 in Appendix A of the specification.

Each row is tested as numbers, and as a small world whose ranks reach these numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan
from dpsim.vllm.data_parallel.microbatch import last_microbatch_empty, wants_microbatching
from dpsim.vllm.graphs.dispatcher import Descriptor, Dispatcher033
from dpsim.vllm.params.arguments import Request
from tests.vllm.data_parallel.batch_worlds import decodes, line_up, play, prefill, released
from tests.vllm.released import AGREEMENTS

NONE, PIECEWISE, FULL = RuntimeMode

DBO = {"enable_dbo": True}
THREE = {"ubatch_size": 3, "dbo_prefill_token_threshold": 32}


class Local(NamedTuple):
    """One rank of a row: its tokens, the tokens of its graph, its mode, and two flags.

    The flags are whether all its requests are decodes, and whether it may be microbatched.
    """

    tokens: int
    padded: int
    mode: RuntimeMode
    uniform: bool = True
    allowed: bool = True

    def requests(self) -> list[Request]:
        return decodes(self.tokens) if self.uniform else prefill(self.tokens)


class Row(NamedTuple):
    """A row of Appendix A. A world with graphs of `sizes` reaches it. `plan_014` is the plan of 0.14, if it differs."""

    name: str
    config: dict[str, Any]
    locals: list[Local]
    plan: StepPlan
    plan_014: StepPlan | None = None
    sizes: tuple[int, ...] = (4, 8, 64)

    def expected(self, form: str) -> StepPlan:
        return self.plan_014 or self.plan if form == "0.14" else self.plan


def eager(tokens: int, allowed: bool = True) -> Local:
    """Returns a rank with a prefill that is larger than every graph."""
    return Local(tokens, tokens, NONE, uniform=False, allowed=allowed)


def plan(microbatched: bool, num_tokens: tuple[int, ...] | None, mode: RuntimeMode) -> StepPlan:
    return StepPlan(microbatched, num_tokens, mode)


ROWS = [
    Row("A-2", {}, [Local(3, 4, FULL), Local(7, 8, FULL)], plan(False, (8, 8), FULL)),
    Row("A-3", {}, [Local(5, 8, FULL), Local(60, 64, PIECEWISE, uniform=False)], plan(False, (64, 64), PIECEWISE)),
    Row("A-4", {}, [Local(3, 4, FULL), eager(900)], plan(False, (4, 900), NONE), plan(False, (900, 900), NONE)),
    Row("A-5", DBO, [Local(40, 40, FULL), Local(64, 64, FULL)], plan(True, (64, 64), FULL), sizes=(40, 64)),
    Row("A-6", DBO, [Local(20, 24, FULL), Local(64, 64, FULL)], plan(False, (64, 64), FULL), sizes=(24, 64)),
    Row("A-7", DBO, [Local(32, 32, FULL), Local(64, 64, FULL)], plan(False, (64, 64), FULL), sizes=(32, 64)),
    Row("A-7 r0 33", DBO, [Local(33, 40, FULL), Local(64, 64, FULL)], plan(True, (64, 64), FULL), sizes=(32, 40, 64)),
    Row("A-8", DBO, [eager(600), eager(1000)], plan(True, (1000, 1000), NONE)),
    Row(
        "A-8 r0 may not",
        DBO,
        [eager(600, allowed=False), eager(1000)],
        plan(False, (600, 1000), NONE),
        plan(False, (1000, 1000), NONE),
    ),
    Row("A-9 a", THREE, [eager(66), eager(100)], plan(False, (66, 100), NONE), plan(False, (100, 100), NONE)),
    Row("A-9 b", THREE, [eager(67), eager(100)], plan(True, (100, 100), NONE)),
]


@pytest.mark.parametrize("form", AGREEMENTS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_agreement_decides_each_example_as_its_row(row: Row, form: str) -> None:
    """The agreement decides what the row specifies, given the row's numbers."""
    config, rules = EngineConfig(**row.config), AGREEMENTS[form]()
    columns = []
    for local in row.locals:
        wish = local.allowed and wants_microbatching(local.tokens, local.uniform, config)
        columns.append(rules.column(LocalBatch(local.tokens, local.padded, wish, True, local.mode)))
    assert rules.decide(np.array(columns, np.int32).T, config) == row.expected(form)


@pytest.mark.parametrize("form", AGREEMENTS)
@pytest.mark.parametrize("row", [row for row in ROWS if "may not" not in row.name], ids=lambda row: row.name)
def test_ranks_decide_and_run_each_example_as_its_row(row: Row, form: str) -> None:
    """In a world whose workload leads to the row's numbers, all ranks decide what the row specifies, and run it."""
    requests = line_up(*(local.requests() for local in row.locals))
    played = play(requests, **released(form), cudagraph_capture_sizes=row.sizes, **row.config)
    assert played.findings == []
    microbatched, num_tokens, mode = row.expected(form)
    parts = EngineConfig(**row.config).num_ubatches if microbatched else 1
    for rank in played.ranks:
        assert played.decided("plan", rank) == [(microbatched, num_tokens, int(mode))]
        assert played.decided("mode", rank) == [(mode.name, microbatched)]
        assert played.count(rank, "launch", "attention", 0) == parts


@pytest.mark.parametrize("form", AGREEMENTS)
def test_a_single_rank_makes_no_agreement_and_keeps_its_mode(form: str) -> None:
    """Row A-1: a single rank makes no agreement and keeps its own mode."""
    played = play(decodes(3), ranks=1, **released(form), cudagraph_capture_sizes=(1, 2, 4, 8))
    assert played.decided("plan", 0) == [(False, None, FULL)]
    assert played.decided("mode", 0) == [("FULL", False)]
    assert played.count(0, "collective", "dp.agree", 0) == 0


def test_why_a_step_is_not_split() -> None:
    """In row A-6, the threshold forbids the split; in A-7 and A-9, an empty last microbatch does."""
    assert not wants_microbatching(20, True, EngineConfig(enable_dbo=True))
    assert [last_microbatch_empty(32, 64, 2), last_microbatch_empty(33, 64, 2)] == [True, False]
    assert [last_microbatch_empty(66, 100, 3), last_microbatch_empty(67, 100, 3)] == [True, False]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (CUDAGraphMode.FULL_AND_PIECEWISE, (PIECEWISE, Descriptor(8))),
        (CUDAGraphMode.FULL_DECODE_ONLY, (NONE, Descriptor(5))),
    ],
)
def test_decodes_without_a_decode_graph(mode: CUDAGraphMode, expected: tuple[RuntimeMode, Descriptor]) -> None:
    """Row A-14: five decodes need the graph of eight tokens.

    Only PIECEWISE has this graph, because a graph for decodes has at most six requests.
    """
    config = EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8), max_num_seqs=6, cudagraph_mode=mode)
    assert Dispatcher033(config).dispatch(5, uniform_decode=True) == expected


@pytest.mark.parametrize(
    ("specialized", "expected"),
    [(True, (False, (4, 4), int(FULL))), (False, (False, (4, 1), int(NONE)))],
)
def test_an_idle_rank_has_no_adapter(specialized: bool, expected: tuple[bool, tuple[int, ...], int]) -> None:
    """Row A-31: rank 0 has three decodes with an adapter, and rank 1 a dummy without one.

    If only batches with an adapter have graphs, no graph fits the dummy, so both ranks run eagerly.
    """
    requests = line_up(decodes(3, lora="french"), [])
    played = play(
        requests, cudagraph_capture_sizes=(1, 2, 4, 8), enable_lora=True, cudagraph_specialize_lora=specialized
    )
    assert played.findings == []
    assert [played.decided("plan", rank) for rank in played.ranks] == [[expected], [expected]]
