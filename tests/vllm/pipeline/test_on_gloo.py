"""Runs the same pipelines on real processes with gloo: the journals equal those of the simulator, record by record.

The worlds are random but fixed, with one to four stages; others are scenarios that dpsim contains. On gloo, dpsim does
not check the use of memory.
"""

from __future__ import annotations

from collections import Counter

import pytest

from dpsim.contract.ops import SITE
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, load_scenario
from dpsim.scenario.locate import scenario_path
from tests.properties import nightly_but
from tests.records import unplaced
from tests.vllm.pipeline.token_worlds import DRAFTS, STAGES, fixed_varied_worlds, fixed_worlds, pieces
from tests.vllm.released import TRANSFERS

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

QUICK, SLOW, NIGHTLY = 6, 54, 170
WORLDS = fixed_worlds(QUICK + SLOW + NIGHTLY)
WORLDS[:QUICK] = sorted(WORLDS[:QUICK], key=lambda drawn: -drawn.stages)  # all workers start at once
NUMBERS = [*range(QUICK), *nightly_but(range(QUICK, len(WORLDS)), lambda number: number < QUICK + SLOW)]


VARIED_WORLDS = fixed_varied_worlds(5 + 60)
VARIED_NUMBERS = [*range(5), *(pytest.param(number, marks=pytest.mark.slow) for number in range(5, 65))]


@pytest.fixture
def gloo() -> str:
    """The name of the backend. Its workers stay alive for other files, until dpsim's pytest plugin ends them."""
    return "gloo"


def same_as_simulated(scenario: Scenario, backend: str, really: Scenario | None = None) -> None:
    """Asserts equal journals of a scenario on a backend and on the simulator. On the backend, `really` replaces it."""
    real, simulated = run_scenario(really or scenario, backend), run_scenario(scenario)
    assert real.findings == simulated.findings == []
    for rank in range(real.world.size):
        assert unplaced(real.run.journals[rank]) == unplaced(simulated.run.journals[rank]), f"rank {rank}"


@pytest.mark.parametrize("number", NUMBERS)
def test_pipelines_on_gloo_have_the_journals_of_the_simulation(gloo: str, number: int) -> None:
    """The journals are equal. No finding means that the tokens are the oracle's, and that no queue has entries left."""
    same_as_simulated(WORLDS[number].scenario(), gloo)


@pytest.mark.parametrize("number", VARIED_NUMBERS)
def test_requests_of_all_kinds_on_gloo(gloo: str, number: int) -> None:
    same_as_simulated(VARIED_WORLDS[number].scenario(), gloo)


def test_varied_worlds_have_something_in_them() -> None:
    """The fixed worlds with requests of all kinds contain wasted steps, deferred sampling and sessions often enough."""
    seen: Counter[str] = Counter()
    for drawn in VARIED_WORLDS:
        history = drawn.prepared().histories[0]
        batches = [call.batch for call in history.calls if call.batch]
        wasted = [
            history.requests[row.request].abort_ns is None
            for batch in batches
            for row, told in zip(batch.rows, history.delivered_tokens[batch.number], strict=True)
            if row.samples and not told
        ]
        drafts = [{row.drafts for row in batch.rows if not row.prefilling} for batch in batches]
        seen["wasted"] += any(wasted)
        seen["several numbers of drafts"] += any(len(numbers) > 1 for numbers in drafts)
        seen["deferred"] += any(call.deferred for call in history.calls)
        seen["sessions"] += any(one.continues is not None for batch in batches for one in batch.admitted)
    assert min(seen.values()) >= 5, seen


@pytest.mark.slow
def test_fixed_worlds_have_something_in_them() -> None:
    """The first 30 fixed worlds contain each kind of case at least twice.

    A "free in flight" is a request that frees its slot while one of its tokens is in flight.
    """
    seen: Counter[str] = Counter()
    for drawn in WORLDS[:30]:
        seen.update({f"{drawn.stages} stages": 1, drawn.form: 1, f"async {drawn.config['async_scheduling']}": 1})
        seen.update({f"{drawn.config['num_speculative_tokens']} drafts": 1, f"{len(drawn.requests)} requests": 1})
        batches = [call.batch for call in drawn.prepared().histories[0].calls if call.batch]
        seen["chunks"] += any(not row.samples for batch in batches for row in batch.rows)
        seen["preemptions"] += any(times > 1 for times in Counter(r for batch in batches for r in batch.freed).values())
        seen["aborts"] += any(request.abort_ns is not None for request in drawn.requests)
        decodes = [row for batch in batches for row in batch.rows if not row.prefilling]
        seen["drafts rejected"] += any(row.computed > row.position for row in decodes)
        seen["frees in flight"] += drawn.stages > 1 and any(
            row.request in batch.freed and row.samples
            for batch in batches
            for before in batches[max(0, batch.number - drawn.stages + 1) : batch.number]
            for row in before.rows
        )
        seen.update({record[SITE]: 1 for record in drawn.play().records(0, "probe")})
    wanted = {f"{stages} stages" for stages in STAGES} | {f"{drafts} drafts" for drafts in DRAFTS} | {*TRANSFERS}
    wanted |= {"async False", "async True", "chunks", "aborts", "drafts rejected", "frees in flight", "8 requests"}
    wanted |= {"preemptions", "pp.some_excluded", "pp.all_excluded"}
    assert all(seen[what] >= 2 for what in wanted), seen


@pytest.mark.parametrize(
    "name",
    ["pp2_free_in_flight", "pp2_preempted", "pp2_tp2_sliced", "dp2_pp2_dummy_steps", "pp2_tp2_captured"],
)
def test_scenarios_on_gloo(gloo: str, name: str) -> None:
    same_as_simulated(load_scenario(scenario_path(name)), gloo)


@pytest.mark.parametrize(
    ("variant", "seen"), [("M-PP-3", "rank 0"), pytest.param("M-PP-1", "CRASH:WRONG", marks=pytest.mark.slow)]
)
def test_another_order_and_other_tokens_are_seen(gloo: str, variant: str, seen: str) -> None:
    """The comparison fails for a run with other tokens or another order.

    Mutant M-PP-3 applies tokens too early, which does no harm. Mutant M-PP-1 applies those of the slot's former
    request. The test is the last one on gloo, because it ends all workers.
    """
    candidates = (drawn for drawn in WORLDS if (drawn.stages, drawn.form) == (2, "source-002"))
    drawn = next(drawn for drawn in candidates if drawn.play(**pieces("M-PP-1")).classes)
    with pytest.raises(AssertionError, match=seen):
        same_as_simulated(drawn.scenario(), gloo, drawn.scenario(variant))


@pytest.mark.gpu(2)
@pytest.mark.parametrize("name", ["pp2_free_in_flight", "pp2_preempted"])
def test_pipelines_on_two_gpus_have_the_journals_of_the_simulation(name: str) -> None:
    same_as_simulated(load_scenario(scenario_path(name)), "nccl")


@pytest.mark.gpu(4)
@pytest.mark.parametrize("name", ["pp4_free_in_flight", "pp2_tp2_sliced", "dp2_pp2_dummy_steps", "pp2_tp2_captured"])
def test_pipelines_on_four_gpus_have_the_journals_of_the_simulation(name: str) -> None:
    same_as_simulated(load_scenario(scenario_path(name)), "nccl")
