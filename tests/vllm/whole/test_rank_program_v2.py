"""Tests `whole_engine_dp` on the V2 runner: its steps in a whole engine, and refused options (spec chapters 10.0,
10.1).
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from dpsim.contract.ops import COMMUNICATOR, KIND, SITE, STEP
from dpsim.runner import run_scenario
from dpsim.scenario import ScenarioError, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.scenario.to_world import prepare
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2, LocalV2
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.drafter_v2 import DrafterV2
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.overlap.forms import OverlapStepV2
from dpsim.vllm.programs.pieces import AgreementOfV2
from dpsim.vllm.programs.stacks import Pieces, resolve_arguments
from dpsim.vllm.whole.rank_engine import RankWorker
from tests import ROOT
from tests.vllm.whole.test_rank_program import CAPTURED, DRAFTS, REQUESTS, SPLIT, DummyWithoutDrafter, in_lockstep
from tests.vllm.whole.whole_worlds import EAGER, Control, Seen, explored, request, run, scenario, whole

V2: dict[str, Any] = {"swaps": {"runner": "v2"}}
DECODES = CAPTURED | {"cudagraph_mode": "FULL_DECODE_ONLY"}
WORLDS: dict[str, dict[str, Any]] = {
    "plain": EAGER,
    "captured": CAPTURED,
    "drafts": DRAFTS | {"async_scheduling": True},
    "split": V2 | SPLIT | EAGER,
    "split, async": V2 | SPLIT | EAGER | {"async_scheduling": True},
    "split, captured": V2 | SPLIT | DECODES,
    "split, three ranks": V2 | SPLIT | EAGER | {"dp": 3},
}


def swaps_of_steps(seen: Seen, rank: int) -> list[int]:
    """Returns the steps in which a rank sent its batch. The V2 runner agrees by a send and a receive with each peer."""
    told = [raw for raw in seen.run.journals[rank] if (raw[KIND], raw[SITE]) == ("transfer", "dp.agree")]
    assert all(raw[COMMUNICATOR] == "dp_cpu" for raw in told)
    return sorted({raw[STEP] for raw in told})


def agrees_once_a_step(seen: Seen) -> None:
    """Asserts I-ES-2: each forward, also of a dummy, begins with one agreement; drafters and captures have none."""
    for rank in range(seen.world.size):
        assert swaps_of_steps(seen, rank) == list(range(sum(seen.forwards[rank])))
    first, *others = (
        [seen.decided(label, rank) for label in ("plan", "mode", "draft.plan")] for rank in range(seen.world.size)
    )
    assert all(other == first for other in others)


@pytest.mark.parametrize("world", WORLDS)
def test_every_rank_makes_every_forward(world: str) -> None:
    seen = run(whole(REQUESTS, **WORLDS[world]))
    assert seen.classes == []
    in_lockstep(seen)
    agrees_once_a_step(seen)
    assert world.startswith("split") == any(microbatched for microbatched, _, _ in seen.decided("plan"))


@pytest.mark.parametrize("mode", ["keep", "wait", "abort"])
def test_engines_of_the_v2_runner_stay_in_lockstep_through_a_pause(mode: str) -> None:
    control: Control = [(1, ("PAUSE", mode)), (2, ("UPDATE_WEIGHTS", 1)), (3, ("RESUME",))]
    seen = run(whole([request(5, 6), request(3, 9)], control, **V2, **SPLIT, **EAGER))
    assert seen.classes == []
    in_lockstep(seen)
    agrees_once_a_step(seen)


def test_the_scenario_whole_engine_dp_v2_holds_captures_and_splits() -> None:
    """The scenario `whole_engine_dp_v2` holds. Each rank captures two sizes, whole and split, and splits forwards."""
    result = run_scenario(load_scenario(scenario_path("whole_engine_dp_v2")))
    assert result.met
    assert result.graphs is not None
    assert result.graphs.captured == 8, "each rank captures two sizes, both whole and split"
    assert result.figures["microbatched forwards"] > 0


# ---- which runner it is


def test_microbatches_are_on_the_v1_runner_unless_asked_for() -> None:
    """Stack `current` uses the V2 runner, but with microbatches the V1 runner, unless the user selects V2.

    `source` uses V1.
    """
    asked: dict[tuple[str, str], dict[str, Any]] = {
        ("current", "plain"): EAGER,
        ("current", "split"): SPLIT | EAGER,
        ("current", "asked"): V2 | SPLIT | EAGER,
        ("source", "plain"): EAGER,
    }
    v2 = set()
    for (form, name), config in asked.items():
        setup = prepare(scenario([request(1, 1)], form=form, **config), ROOT)[2]
        if issubclass(setup.pieces[DataParallelStep], DataParallelStepV2):
            v2.add((form, name))
    assert v2 == {("current", "plain"), ("current", "asked")}


def stack(**config: Any) -> Pieces:
    return resolve_arguments(prepare(scenario([request(1, 1)], **config), ROOT)[1])


def test_steps_agree_as_their_stack_says() -> None:
    """The steps of a stack use the stack's form of the agreement and its graphs."""
    for pieces in (stack(**EAGER), stack(**V2, **SPLIT, **EAGER)):
        assert isinstance(pieces.agreement, AgreementOfV2)
        assert pieces.v2 is not None
        for step in (pieces.v2.step, pieces.v2.overlap_step):
            assert isinstance(step, type)
            assert issubclass(step, DataParallelStepV2)
            assert (step.agreement, step.graphs) == pieces.agreement


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"enable_lora": True} | EAGER, "v2_splits_no_adapters"),
        (DRAFTS | EAGER, "v2_splits_no_drafts"),
        ({"cudagraph_mode": "FULL_AND_PIECEWISE"}, "v2_splits_no_piecewise_graphs"),
        (EAGER | {"pp": 2, "protocol": "whole_engine"}, "v2_splits_no_pipelines"),
    ],
)
def test_refused_by_name(config: dict[str, Any], rule: str) -> None:
    with pytest.raises(ScenarioError, match=rf"\(rule {rule}\)\. The engine refuses this; protocol.allow_refused"):
        whole([request(1, 1)], **V2, **SPLIT, **config)


def test_the_v2_runner_refuses_settings_that_its_pieces_do_not_read() -> None:
    with pytest.raises(ScenarioError, match=re.escape("config.enable_lora: the V2 runner's pieces do not use it")):
        whole([request(1, 1)], enable_lora=True)
    whole([request(1, 1)], swaps={"runner": "v1"}, enable_lora=True)


# ---- twins


class OwnThreshold(OverlapStepV2):
    """Mutant M-UB-12: a rank selects the split threshold by its own batch only."""

    class Own(AgreementV2):
        def decodes(self, uniform: int | None, local: LocalV2) -> bool:
            return local.uniform_token_count == self.graphs.q

    agreement = Own


class AgreesInDrafter(DrafterV2):
    """Faulty: the drafter agrees once more for a batch with tokens, as in 0.24 (spec chapter 10.3), but not for a
    dummy.
    """

    async def propose(self, batch: Any) -> Any:
        if batch.num_reqs:
            await self.of_step.gather((1,) * self.reuses.rows)
        return await super().propose(batch)


class AlwaysFirst(DrafterV2):
    """Mutant M-DP-14: the drafter keeps the agreement record of the first batch."""

    kept: Any = None

    def record(self) -> Any:
        self.kept = self.kept or super().record()
        return self.kept


UNEVEN = V2 | SPLIT | EAGER | {"dbo_prefill_token_threshold": 9}
TWINS: list[tuple[type[Any], type[Any], dict[str, Any], str]] = [
    (DataParallelStep, OwnThreshold, UNEVEN, "DISAGREEMENT:PLAN"),
    (Drafter, AgreesInDrafter, DRAFTS, "HANG"),
    (Drafter, AlwaysFirst, DRAFTS | EAGER, "CRASH:ASSERTIONERROR"),
    (RankWorker, DummyWithoutDrafter, DRAFTS, "HANG"),
]


@pytest.mark.parametrize(("piece", "twin", "config", "found"), TWINS, ids=lambda one: getattr(one, "__name__", ""))
def test_twins_are_found(piece: type[Any], twin: type[Any], config: dict[str, Any], found: str) -> None:
    """One schedule shows the mistake of each faulty twin, in a world where the healthy pieces have no findings."""
    requests = [request(1, 8), request(2, 2), request(1, 8), request(5, 2, arrival=200_000)]
    assert run(whole(requests, interval=3, **config)).classes == []
    seen = run(whole(requests, pieces={piece: twin}, interval=3, **config))
    assert any(klass.startswith(found) for klass in seen.classes), seen.classes


def test_one_request_on_two_v2_engines_is_proven_unsplit_and_split() -> None:
    """Proves one request on two engines, unsplit and split.

    To split, a dummy needs two tokens, so the split world has a draft. vLLM refuses this, so the world allows it
    explicitly.
    """
    proven = explored(whole([request(1, 1)], interval=1, **EAGER), 100)
    drafts: dict[str, Any] = {"num_speculative_tokens": 1, "max_num_seqs": 2, "allow_refused": True}
    split = explored(whole([request(2, 1)], interval=1, **V2, **SPLIT, **EAGER, **drafts), 100)
    for name, found in (("one request", proven), ("one request, split", split)):
        print(f"{name}: {found.verdict} with {found.runs} schedules")
        assert (found.verdict, found.failures) == ("proven", {})


@pytest.mark.slow
def test_explored_with_two_requests() -> None:
    """Explores the first 60 schedules of a split step, in which one engine has an empty last microbatch."""
    found = explored(whole([request(4, 1), request(2, 1)], interval=1, max_num_seqs=2, **V2, **SPLIT, **EAGER), 60)
    print(f"two requests, split: {found.verdict}, {found.runs} schedules")
    assert found.failures == {}
