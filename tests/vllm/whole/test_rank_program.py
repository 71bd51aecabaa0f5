"""Tests the program `whole_engine_dp`: all ranks run forwards in lockstep in each composition, and faulty twins are
found.

The program checks the result of each forward itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import COMMUNICATOR, DECISION_VALUE, KIND, SITE, STEP
from dpsim.runner import run_scenario
from dpsim.scenario import ScenarioError, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.programs.stacks import STACKS
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.rank_engine import LiveRankScheduler, RankWorker
from tests.vllm.whole.whole_worlds import EAGER, Control, Seen, explored, request, run, scenario, whole

CAPTURED: dict[str, Any] = {"capture_graphs": True, "cudagraph_capture_sizes": [1, 2, 4], "max_num_seqs": 4}
DRAFTS: dict[str, Any] = {"num_speculative_tokens": 2, "speculative_method": "mtp"}
SPLIT: dict[str, Any] = {"enable_dbo": True, "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 2}
EXPERTS: dict[str, Any] = {"enable_expert_parallel": True, "enable_eplb": True, "eplb_config": {"step_interval": 2}}
WORLDS: dict[str, dict[str, Any]] = {
    "eager": EAGER,
    "async": {"async_scheduling": True},
    "captured": CAPTURED,
    "captured, async": CAPTURED | {"async_scheduling": True},
    "drafts": DRAFTS,
    "drafts, async": DRAFTS | {"async_scheduling": True},
    "split": SPLIT | EAGER,
    "counts": EAGER | {"swaps": {"counts": "published"}},
    "experts": EXPERTS | EAGER,
    "experts, drafts, async": EXPERTS | DRAFTS | {"async_scheduling": True},
    "experts, captured": EXPERTS | CAPTURED,
    "experts, split": EXPERTS | SPLIT | EAGER,
    "experts in a thread": EXPERTS | EAGER | {"eplb_config": {"step_interval": 2, "use_async": True}},
    "prefixes": CAPTURED | {"block_size": 4},
}
REQUESTS = [request(9, 3), request(3, 2), request(4, 4, 1, abort=2), request(6, 1, 2)]


def in_lockstep(seen: Seen) -> None:
    """Asserts I-EL-1 and I-ES-9: all ranks run equally many forwards, each in its own step."""
    ranks = range(seen.world.size)
    forwards = [sum(seen.forwards[rank]) for rank in ranks]
    assert len(set(forwards)) == 1
    for rank in ranks:
        met = [raw for raw in seen.run.journals[rank] if raw[KIND] == "decision" and raw[SITE] == "plan"]
        assert [raw[STEP] for raw in met if raw[STEP] >= 0] == list(range(forwards[rank]))


@pytest.mark.parametrize("form", STACKS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_rank_makes_every_forward(form: str, world: str) -> None:
    requests = [one | {"prefix": "a"} for one in REQUESTS] if world == "prefixes" else REQUESTS
    seen = run(whole(requests, form=form, **WORLDS[world]))
    assert seen.classes == []
    in_lockstep(seen)


def placements(seen: Seen, rank: int) -> list[tuple[int, Any]]:
    """Returns for a rank each placement of experts, and the step after which the rank moved to it."""
    journal = seen.run.journals[rank]
    return [(raw[STEP], raw[DECISION_VALUE]) for raw in journal if raw[KIND] == "decision" and raw[SITE] == "placement"]


@pytest.mark.parametrize(("swaps", "group"), [({}, "eplb"), ({"experts": "0.14"}, "ep")])
def test_experts_move_at_the_interval(swaps: dict[str, str], group: str) -> None:
    """Ranks move experts every second step, including dummy steps, over the release's group. A pause adds no step."""
    control: Control = [(1, ("PAUSE", "keep")), (2, ("RESUME",))]
    seen = run(whole([request(5, 4), request(3, 1)], control, swaps=swaps, **EXPERTS | EAGER))
    assert seen.classes == []
    for rank in (0, 1):
        assert [step for step, _ in placements(seen, rank)] == list(range(1, sum(seen.forwards[rank]), 2))
        sums = [raw for raw in seen.run.journals[rank] if raw[SITE] == "eplb.sum"]
        assert {raw[COMMUNICATOR].partition("#")[0].strip() for raw in sums} == {group}
    assert seen.forwards[1][1] > 0
    assert len({placement for _, placement in placements(seen, 0)}) > 1


def test_drafters_agree_on_their_own() -> None:
    """On the V1 runner with two drafts a token, ranks agree three times in each forward, also in dummies (spec chapter
    10.3).
    """
    seen = run(whole([request(5, 3)], swaps={"runner": "v1"}, **DRAFTS | EAGER))
    assert seen.classes == []
    for rank in (0, 1):
        agreed = [raw[STEP] for raw in seen.run.journals[rank] if raw[KIND] == "collective" and raw[SITE] == "dp.agree"]
        assert agreed == [step for step in range(sum(seen.forwards[rank])) for _ in range(3)]


@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize("mode", ["keep", "wait", "abort"])
@pytest.mark.parametrize(("stop", "go"), [("PAUSE", "RESUME"), ("SLEEP", "WAKE_UP")])
def test_engines_are_idle_when_they_confirm_a_pause(stop: str, go: str, mode: str, async_scheduling: bool) -> None:
    """When an engine confirms a pause, its device is idle. After the resume, the kept requests continue."""
    control: Control = [(1, (stop, mode)), (2, ("UPDATE_WEIGHTS", 1)), (3, (go,))]
    seen = run(whole([request(5, 6), request(3, 9)], control, async_scheduling=async_scheduling))
    assert seen.classes == []
    in_lockstep(seen)
    real = [seen.forwards[rank][0] for rank in (0, 1)]
    assert real == [6, 9] if mode != "abort" else all(ran < whole for ran, whole in zip(real, (6, 9), strict=True))


def test_a_request_costs_what_the_interval_says() -> None:
    """Spec appendix A-25: for five tokens, each rank runs 16 forwards, because ranks stop at the next finish sync."""
    seen = run(whole([request(1, 5)], interval=16))
    assert seen.forwards[:2] == [(5, 11), (0, 16)]


def test_a_single_engine_needs_no_coordinator() -> None:
    seen = run(whole([request(5, 3)], dp=1))
    assert seen.world.services == ("frontend.0",)
    assert (seen.classes, seen.forwards[0]) == ([], (3, 0))


def test_the_scenario_whole_engine_dp_holds_replays_and_splits() -> None:
    """The scenario `whole_engine_dp` holds, replays graphs, and splits forwards."""
    result = run_scenario(load_scenario(scenario_path("whole_engine_dp")))
    assert result.met
    assert result.graphs is not None
    assert result.graphs.replayed > 0
    assert result.figures["microbatched forwards"] > 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_gpu_blocks_override": 9}, "config.num_gpu_blocks_override"),
        ({**SPLIT, **DRAFTS}, "config.speculative_method"),
        ({"pp": 2}, "topology: 2 ranks a replica"),
    ],
)
def test_the_rank_program_refuses_what_it_does_not_run(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        whole([request(1, 1)], **config)


# ---- twins


class SyncsFirst(QueuedLoop[Batch]):
    """Mutant M-ES-3: an engine joins the finish sync before it runs its dummy batch."""

    async def iterate(self) -> bool:
        self.owes_dummy = False
        goes_on = await super().iterate()
        if self.owes_dummy:
            await self.forward.dummy()
        return goes_on

    def makes_dummy(self) -> bool:
        self.owes_dummy = super().makes_dummy()
        return False


class DummyWithoutDrafter(RankWorker):
    """Mutant M-ES-4: a dummy batch does not run the drafter."""

    async def dummy(self) -> None:
        drafter, self.step.drafter = self.step.drafter, None
        await super().dummy()
        self.step.drafter = drafter


class NoDummy(QueuedLoop[Batch]):
    """Mutant M-EL-1: an engine without tokens runs no forward."""

    def makes_dummy(self) -> bool:
        return False


class EmptyBatchCounts(QueuedLoop[Batch]):
    """Mutant M-EL-16: a batch without tokens counts as executed, so no dummy batch follows."""

    async def step(self) -> bool:
        scheduled = self.live.has_requests(self.waves.pause_state)
        return await super().step() or scheduled


class TellsAtOnce(LiveRankScheduler):
    """Faulty: the scheduler ends a request when it schedules the last batch, before the result arrives."""

    def next_batch(self, pause: Any) -> Batch:
        batch = super().next_batch(pause)
        self.abort([f"r{number}" for number in self.ending[-1]])
        return batch


class IdlesDoNotCount(ExpertBalance):
    """Mutant M-ES-9: a dummy step does not count as a step of the balancing interval."""

    def counted_steps(self, batch: Batch) -> int:
        return 0 if batch.is_dummy else 1


class Forgets(ExpertBalance):
    """Faulty: a rank drops the weights of incoming experts and keeps the old ones, but uses the new placement."""

    def take_over(self, placement: Any, incoming: Any) -> None:
        incoming.free()
        self.placement = placement


TWINS: list[tuple[type[Any], type[Any], dict[str, Any], set[str]]] = [
    (QueuedLoop, SyncsFirst, EAGER, {"HANG", "MISMATCH"}),
    (RankWorker, DummyWithoutDrafter, DRAFTS, {"HANG", "MISMATCH"}),
    (QueuedLoop, NoDummy, EAGER, {"HANG", "MISMATCH"}),
    (QueuedLoop, EmptyBatchCounts, EAGER | {"async_scheduling": True}, {"HANG", "MISMATCH"}),
    (ExpertBalance, IdlesDoNotCount, EXPERTS | EAGER, {"HANG", "MISMATCH"}),
    (ExpertBalance, Forgets, EXPERTS | EAGER, {"CRASH"}),
    (LiveRankScheduler, TellsAtOnce, EAGER, {"HANG"}),
]


@pytest.mark.parametrize(("piece", "twin", "config", "found"), TWINS, ids=lambda one: getattr(one, "__name__", ""))
def test_twins_are_found(piece: type[Any], twin: type[Any], config: dict[str, Any], found: set[str]) -> None:
    """One schedule shows the mistake of each faulty twin.

    The tests above show that the healthy pieces have no findings.
    """
    seen = run(whole([request(3, 1), request(2, 3, 1)], pieces={piece: twin}, interval=3, **config))
    assert {klass.partition(":")[0] for klass in seen.classes} & found, seen.classes


def test_one_request_on_two_engines_is_proven() -> None:
    """Proves one request of one token on two engines, and samples two requests with asynchronous scheduling."""
    proven = explored(whole([request(1, 1)], interval=1, **EAGER), 100)
    print(f"one request: {proven.verdict} with {proven.runs} schedules")
    assert (proven.verdict, proven.failures) == ("proven", {})
    sampled = explored(whole([request(2, 2), request(1, 1)], interval=2, async_scheduling=True, **EAGER), 60)
    print(f"two requests, scheduled ahead: {sampled.verdict}, {sampled.runs} schedules")
    assert sampled.failures == {}


def test_the_stack_that_is_not_named_is_the_current_one() -> None:
    assert scenario([request(1, 1)]).protocol.resolved_form == "current"


def test_groups_are_those_of_workers_and_of_engines() -> None:
    seen = run(whole([request(1, 1)]))
    used = {raw[COMMUNICATOR].partition("#")[0].strip() for raw in seen.run.journals[0] if raw[KIND] == "collective"}
    assert {"dp_engine", "ep"} <= used
