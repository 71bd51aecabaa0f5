"""Tests the program `whole_engine`: all workers run the same steps in lockstep. Each faulty twin of a piece is found.

The program consists of engine cores, pipeline workers, a coordinator and front ends.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import COMMUNICATOR, KIND, POST_CONTENT, SITE, STEP
from dpsim.runner import run_scenario
from dpsim.scenario import ScenarioError, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.pipeline.batches import Batch, StepResult
from dpsim.vllm.programs.stacks import STACKS
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.calls import Executor
from dpsim.vllm.whole.stage_worker import StageWorker
from tests.vllm.whole.whole_worlds import EAGER, Seen, explored, request, run, whole
from tests.vllm.whole.whole_worlds import Control as Asked

SMALL: dict[str, Any] = {"protocol": "whole_engine", "pp": 2, "max_num_seqs": 4, "max_num_batched_tokens": 8}
CAPTURED: dict[str, Any] = {"capture_graphs": True, "cudagraph_capture_sizes": [1, 2, 4]}
REQUESTS = [request(5, 3), request(3, 2), request(9, 4, 2, abort=3), request(7, 3, 4)]
WORLDS: dict[str, dict[str, Any]] = {
    "eager": EAGER,
    "drafts": EAGER | {"num_speculative_tokens": 1},
    "captured": CAPTURED,
    "captured, drafts": CAPTURED | {"num_speculative_tokens": 1},
    "three stages": EAGER | {"pp": 3},
    "counts": EAGER | {"swaps": {"counts": "published"}},
    "preempted": EAGER | {"num_gpu_blocks_override": 6, "block_size": 4},
}
PAUSE: Asked = [(1, ("PAUSE", "keep")), (2, ("UPDATE_WEIGHTS", 1)), (3, ("RESUME",))]


def in_lockstep(seen: Seen, dp: int = 2) -> None:
    """Asserts I-EL-1, I-ES-2 and I-ES-9: engines run equally many forwards, and each worker agrees once in each
    forward.
    """
    workers = range(seen.world.size)
    forwards = [sum(seen.forwards[core]) for core in range(len(workers), len(workers) + dp)]
    assert len(set(forwards)) == 1
    for rank in workers:
        met = [raw for raw in seen.run.journals[rank] if raw[KIND] in ("collective", "transfer")]
        told = [(raw[STEP], raw[KIND]) for raw in met if raw[COMMUNICATOR].startswith("dp_cpu")]
        of_v2 = {kind for _, kind in told} == {"transfer"}
        agreed = [step for step, _ in told[:: 2 if of_v2 else 1]]  # V2 agrees by a receive and a send
        assert agreed == list(range(forwards[0]))
        summed = [raw[STEP] for raw in met if raw[SITE] == "experts.combine"]
        assert summed == agreed


@pytest.mark.parametrize("form", STACKS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_worker_makes_every_forward(form: str, world: str) -> None:
    seen = run(whole(REQUESTS, form=form, interval=4, **SMALL | WORLDS[world]))
    assert seen.classes == []
    in_lockstep(seen)


def counts(seen: Seen, core: int) -> list[Any]:
    """Returns the counts of waiting and running requests that an engine sent."""
    journal = seen.run.journals[core]
    return [raw[POST_CONTENT][4:] for raw in journal if (raw[KIND], raw[SITE]) == ("post", "engine.counts")]


def test_engines_tell_their_counts() -> None:
    """With the piece `counts: published`, an engine sends its counts as a request waits, runs and ends.

    Without the piece, no engine sends counts.
    """
    world: dict[str, Any] = {"requests": [request(5, 2)], **SMALL | EAGER}
    assert counts(run(whole(**world)), 4) == []
    assert counts(run(whole(**world, swaps={"counts": "published"})), 4) == [(1, 0, 0.0), (0, 1, 0.0), (0, 0, 0.0)]
    assert counts(run(whole(**world, swaps={"counts": "published"}, form="source")), 4) == [(0, 1), (0, 0)]


def test_workers_of_a_stage() -> None:
    """With tensor parallelism, workers transfer slices, and all ranks of a stage run experts."""
    seen = run(whole(REQUESTS[:2], tp=2, **SMALL | EAGER))
    assert seen.classes == []
    in_lockstep(seen)


@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize("mode", ["keep", "wait", "abort"])
@pytest.mark.parametrize(("stop", "go"), [("PAUSE", "RESUME"), ("SLEEP", "WAKE_UP")])
def test_engines_stay_in_lockstep_through_each_kind_of_pause(
    stop: str, go: str, mode: str, async_scheduling: bool
) -> None:
    control: Asked = [(1, (stop, mode)), (2, ("UPDATE_WEIGHTS", 1)), (3, (go,))]
    seen = run(whole([request(5, 3), request(3, 4)], control, async_scheduling=async_scheduling, **SMALL | EAGER))
    assert seen.classes == []
    in_lockstep(seen)


def test_graphs_are_those_that_were_agreed_on() -> None:
    """If one rank has a graph for its batch and the other has none, both agree on one mode."""
    seen = run(whole([request(1, 6), request(8, 2)], **SMALL | CAPTURED))
    modes = set(seen.decided("mode"))
    assert {"FULL", "NONE"} <= modes
    assert seen.decided("mode", 0) == seen.decided("mode", 2)


def test_the_scenario_whole_engine_small_holds() -> None:
    result = run_scenario(load_scenario(scenario_path("whole_engine_small")))
    assert result.met
    assert result.figures["waves"] == 1


@pytest.mark.slow
def test_the_scenario_whole_engine_holds_and_replays_graphs() -> None:
    result = run_scenario(load_scenario(scenario_path("whole_engine")))
    assert result.met
    assert result.figures["forwards by graph mode"]["FULL"] > 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"pp": 1}, "topology: expected pipelines of 2 to"),
        ({"form": "source", "async_scheduling": True}, "config.async_scheduling"),
    ],
)
def test_the_whole_engine_refuses_what_it_does_not_run(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        whole([request(1, 1)], **SMALL | config)


# ---- twins


class FirstWorkerOnly(Executor):
    """Mutant M-EL-15: only the first worker runs a dummy batch."""

    async def dummy(self) -> None:
        others, output, self.others = self.others, self.output, self.others[:1]
        await super().dummy()
        self.others, self.output = others, output


class TakesNewest(QueuedLoop[Batch]):
    """Mutant M-PS-9: the engine takes the newest batch out of the queue instead of the oldest."""

    async def take_result(self) -> None:
        self.queue.rotate(1)
        await super().take_result()


class OwnCounts(StageWorker):
    """Like mutant M-DP-6: the experts' collectives have the rank's own counts of rows instead of the agreed ones."""

    async def agree(self, batch: Batch) -> None:
        await super().agree(batch)
        self.counts = (batch.num_tokens,) * len(self.counts)


class DummyWithoutAgreement(StageWorker):
    """Breaks I-ES-2: a dummy batch runs the experts without an agreement."""

    async def dummy(self) -> None:
        self.counts = self.counts or (1,) * self.peers.size
        self.run_experts(0)


class AgreesOnEmpty(StageWorker):
    """Like mutant M-ES-10: a batch without tokens also agrees, so the worker agrees twice in that step."""

    async def execute(self, batch: Batch) -> StepResult | None:
        if not batch.rows:
            await self.agree_on(self.agreement.dummy())
        return await super().execute(batch)


class LeavesDevice(Control):
    """Faulty: the engine confirms a pause before the workers' devices are idle. Release 0.33 waits for them."""

    async def device_idle(self) -> None:
        return


TWINS: list[tuple[type[Any], type[Any], Asked, str]] = [
    (Executor, FirstWorkerOnly, (), "HANG"),
    (QueuedLoop, TakesNewest, (), "CRASH:ASSERTIONERROR"),
    (StageWorker, OwnCounts, (), "MISMATCH:COLLECTIVE:COUNT"),
    (StageWorker, DummyWithoutAgreement, (), "HANG"),
    (StageWorker, AgreesOnEmpty, (), "HANG"),
    (Control, LeavesDevice, PAUSE, "RACE:BUFFER"),
]


@pytest.mark.parametrize(("piece", "twin", "control", "found"), TWINS, ids=lambda one: getattr(one, "__name__", ""))
def test_twins_are_found(piece: type[Any], twin: type[Any], control: Asked, found: str) -> None:
    """One schedule shows the mistake of each faulty twin.

    The tests above show that the healthy pieces have no findings.
    """
    seen = run(whole([request(3, 2), request(2, 3, 1)], control, {piece: twin}, interval=3, **SMALL | EAGER))
    assert any(klass.startswith(found) for klass in seen.classes), seen.classes


def test_two_engines_of_two_stages_have_no_failure_in_20_schedules() -> None:
    """Explores the first 20 schedules of two engines with two stages each, and one request."""
    found = explored(whole([request(1, 1)], interval=1, **SMALL | EAGER), 20)
    print(f"one request: {found.verdict}, {found.runs} schedules, {found.redundant} of them redundant")
    assert found.failures == {}
