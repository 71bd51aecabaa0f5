"""Tests microbatches in pipelines: they sample the same tokens as whole batches, and faulty twins are found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dpsim.contract.interface import Buffer
from dpsim.contract.program import Unsuitable
from dpsim.runner import run_scenario
from dpsim.scenario import ScenarioError, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.vllm.museum.overlap import DoesNotRestore, DoesNotWaitForComm, SharedHandle
from dpsim.vllm.museum.overlap_graphs import LeavesModeFull
from dpsim.vllm.pipeline.layers import Layers
from dpsim.vllm.whole.split_stage import SPLIT, SplitLayers, SplitWorker
from dpsim.vllm.whole.stage_worker import AgreedGraphs, StageWorker
from tests.properties import nightly_but, slow_but
from tests.vllm.released import FORWARDS
from tests.vllm.whole.whole_worlds import EAGER, Seen, explored, request, run, whole

SMALL: dict[str, Any] = {"protocol": "whole_engine", "pp": 2, "max_num_seqs": 4, "max_num_batched_tokens": 8}
SMALL |= {"form": "source", "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 2}
DBO: dict[str, Any] = {"enable_dbo": True}
CAPTURED: dict[str, Any] = {"capture_graphs": True, "cudagraph_capture_sizes": [2, 4]}
DECODES = CAPTURED | {"cudagraph_mode": "FULL_DECODE_ONLY"}
V2 = {"runner": "v2"}
AHEAD: dict[str, Any] = {"async_scheduling": True, "allow_refused": True}
FOUR = [request(2, 4)] * 4
WORLDS: dict[str, dict[str, Any]] = {
    "eager": EAGER,
    "captured": DECODES,
    "captured, ahead": DECODES | AHEAD,
    "pieces": CAPTURED | {"cudagraph_mode": "FULL_AND_PIECEWISE"},
    "current": DECODES | {"form": "current"},
    "drafts": EAGER | {"num_speculative_tokens": 1},
    "tensor parallel": DECODES | {"tp": 2},
    "three stages": EAGER | {"pp": 3},
}


def sampled(seen: Seen) -> Counter[int]:
    """Returns all tokens that last stages sampled, over all requests and steps."""
    found = [raw for rank in range(seen.world.size) for raw in seen.decided("sampled", rank)]
    return Counter(token for _, rows, _ in found for row in rows for token in row if token >= 0)


def splits(seen: Seen) -> list[int]:
    """Returns for each worker the number of split forwards, without captures."""
    return [seen.probes(rank)[SPLIT] for rank in range(seen.world.size)]


@pytest.mark.parametrize("world", slow_but(WORLDS, ("captured", "current").__contains__))
def test_the_same_tokens_as_without_microbatches(world: str) -> None:
    """Split and whole batches sample the same tokens.

    The program also compares each token with the expected one itself.
    """
    settings = SMALL | WORLDS[world]
    seen, whole_batches = run(whole(FOUR, **settings | DBO)), run(whole(FOUR, **settings))
    assert seen.classes == whole_batches.classes == []
    assert min(splits(seen)) >= 2
    assert sampled(seen) == sampled(whole_batches)
    assert set(splits(whole_batches)) == {0}


def test_every_row_of_the_decision() -> None:
    """Spec chapter 4.9: warm-ups and prefills run in threads, decodes replay, and a single decode runs eagerly."""
    seen = run(whole([request(2, 6)] * 4, **SMALL | DBO | DECODES))
    assert seen.classes == []
    for rank in range(4):
        assert set(seen.decided("overlap", rank)) == {"threads", "capture", "replay", "eager"}


@pytest.mark.slow
def test_an_abort_and_a_dummy_beside_it() -> None:
    """A dummy has too few tokens for two microbatches, so its peers do not split that step either."""
    requests = [request(5, 3), request(3, 4), request(4, 2, 0, 1), request(7, 3), request(1, 5)]
    seen = run(whole(requests, **SMALL | DBO | DECODES))
    assert seen.classes == []
    assert {"threads", "eager"} <= set(seen.decided("overlap"))
    assert seen.probes(0)["pp.dummy_step"] + seen.probes(2)["pp.dummy_step"] > 0


@pytest.mark.slow
def test_a_split_step_of_two_stages_has_no_failure_in_20_schedules() -> None:
    """Explores the first 20 schedules of one step of two engines with two stages, in which each worker splits."""
    found = explored(whole([request(2, 1)] * 2, interval=1, **SMALL | DBO | EAGER), 20)
    assert (found.failures, found.runs) == ({}, 20)


@pytest.mark.parametrize("by", nightly_but(["dpor", "portfolio"], lambda by: by == "dpor"))
def test_explored_with_graphs_and_tokens(by: str) -> None:
    """Explores the five source pages together with asynchronous scheduling (spec chapter 10.0).

    Page 000 has the agreement, 001 the microbatches, 002 the sampled tokens, 003 the finish sync, 004 the graphs.
    """
    found = explored(whole([request(2, 3)] * 4, interval=2, **SMALL | DBO | DECODES | AHEAD), 20, by)
    print(f"{by}: {found.verdict}, {found.runs} schedules, {found.redundant} of them redundant")
    assert found.failures == {}


def test_the_scenario_whole_engine_split_holds_and_replays_graphs() -> None:
    result = run_scenario(load_scenario(scenario_path("whole_engine_split")))
    assert result.met
    assert result.figures["forwards by graph mode"]["FULL"] > 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"async_scheduling": True}, "config.async_scheduling: True; expected False, as the V1 runner"),
        (
            {"swaps": {"runner": "v2"}},
            "topology.pipeline_parallel_size: 2; expected 1, as the V2 runner is to run microbatches",
        ),
        ({"swaps": V2, "allow_refused": True}, "protocol.pieces.runner: v2; expected v1"),
    ],
)
def test_a_split_stage_refuses_what_it_does_not_run(config: dict[str, Any], said: str) -> None:
    with pytest.raises((ScenarioError, Unsuitable), match=said):
        whole(FOUR, **SMALL | {"form": "current"} | DBO | EAGER | config)


# ---- twins


class FirstRows(SplitLayers):
    """Faulty: all microbatches read the rows of the first one."""

    form = FORWARDS["source-000"]

    def rows(self, buffer: Buffer, stop: int) -> Buffer:
        return self.slice(buffer, 0, stop)


class AbsentDummy(SplitWorker):
    """Faulty: a dummy agrees but skips the layers, in which its peers wait for it."""

    async def dummy(self) -> None:
        await self.agree_on(self.agreement.dummy())
        self.executed = None if self.is_last else self.dummy_record()


class OwnSplit(SplitWorker):
    """Mutant M-UB-10: the last stage of the second replica never splits, against the agreement."""

    async def agree_on(self, tokens: Any, may_skip_drafts: bool = True) -> None:
        await super().agree_on(tokens, may_skip_drafts)
        assert isinstance(self.model, SplitLayers)
        assert isinstance(self.model.graphs, AgreedGraphs)
        if self.is_last and self.peers.index == 1:
            self.model.graphs.agreed = self.model.agreed()._replace(microbatched=False)


MUTANTS = [
    (DoesNotRestore, EAGER, "CRASH:WRONGFORWARD"),
    (DoesNotWaitForComm, EAGER, "RACE:BUFFER"),
    (SharedHandle, EAGER, "HANG:FLAG:THREAD_ENDED"),
    (LeavesModeFull, DECODES, "CRASH:CAPTUREERROR"),
]


@pytest.mark.parametrize(("form", "config", "found"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_mutants_of_microbatches_are_found(form: Any, config: dict[str, Any], found: str) -> None:
    subject = whole(FOUR, **SMALL | DBO | config)
    layers = subject.prepared.pieces[Layers]
    twin = type("Twin", (layers,), {"form": form})
    assert run(whole(FOUR, (), {Layers: twin}, **SMALL | DBO | config)).classes[0].startswith(found)


@pytest.mark.parametrize(
    ("piece", "twin", "found"),
    [(Layers, FirstRows, "CRASH:WRONG"), (StageWorker, AbsentDummy, "HANG"), (StageWorker, OwnSplit, "DISAGREEMENT")],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_twins_are_found(piece: type[Any], twin: type[Any], found: str) -> None:
    """One engine has more work than the other, which therefore runs dummies at the end."""
    requests = [*FOUR, request(2, 8)]
    subject = whole(requests, **SMALL | DBO | EAGER)
    assert run(subject).classes == []
    if piece is Layers:
        twin = type("Twin", (twin, subject.prepared.pieces[Layers]), {})
    seen = run(whole(requests, (), {piece: twin}, **SMALL | DBO | EAGER))
    assert any(klass.startswith(found) for klass in seen.classes), seen.classes
