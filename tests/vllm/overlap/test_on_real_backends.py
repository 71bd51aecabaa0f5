"""Tests that microbatches in threads of real processes, on gloo and on two GPUs, do the same as in the simulation.

Real threads run at any time. Therefore the tests compare the journals thread by thread, communicator by communicator
and stream by stream. They leave out the records of the ready barrier, for the last of its three parties differs between
runs.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from dpsim.contract.ops import KIND, MAIN, SITE, THREAD, Capture, RawRecord, as_record
from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario, load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.trace import fold
from tests.records import unplaced
from tests.vllm.overlap import raising_variants  # noqa: F401  # registers them
from tests.vllm.overlap.dbo_worlds import GRAPHS, scenario
from tests.vllm.released import FORWARDS

pytest.importorskip("torch")
GLOO = pytest.param("gloo", marks=pytest.mark.xdist_group("gloo"))
NCCL = pytest.param("nccl", marks=[pytest.mark.gpu(2), pytest.mark.xdist_group("gpu")])

WHOLE, DECODES = [(2, 1)] * 4, [(1, 2)] * 4
SIZES: dict[str, Any] = {"cudagraph_capture_sizes": [2], "max_num_seqs": 2, **GRAPHS}
WORLDS: dict[str, Scenario] = {
    **{f"eager-{form}": scenario(WHOLE, form) for form in FORWARDS},
    **{f"captured-{form}": scenario(DECODES, form, **SIZES) for form in FORWARDS},
    "straddling": scenario([(4, 1), (4, 1)]),
    "padded": scenario([(2, 1), (2, 1), (2, 1), (1, 1)]),
    "three": scenario([(3, 1)] * 4, num_ubatches=3),
    "past-graphs": scenario([(1, 2)] * 3, **SIZES),
    "below": scenario([(1, 1), (1, 1)]),
    "low-latency": scenario(WHOLE, variant="dbo-low-latency"),
    "low-latency-captured": scenario(DECODES, variant="dbo-low-latency", **SIZES),
    "fresh-pool": scenario(DECODES, variant="dbo-fresh-pool", **SIZES),
    "refused": scenario(WHOLE, variant="dbo-falls-back"),
    "v2-empty": scenario([(4, 1), (2, 1)], "v2-0.33"),
}
DRAWN = 60


@pytest.fixture(params=[GLOO, NCCL])
def backend(request: pytest.FixtureRequest) -> str:
    """The backend.

    Its workers stay alive for the tests of other files, and dpsim's pytest plugin ends them with the session.
    """
    return str(request.param)


@pytest.fixture(params=[GLOO])
def gloo(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def compared_parts(journal: list[RawRecord]) -> list[dict[str, list[RawRecord]]]:
    """Returns the parts of a journal that must be equal: by thread, by communicator, by stream, and the decisions."""
    records = [record for record in unplaced(journal) if not record[SITE].startswith("ready.")]
    return [split(records) for split in (fold.threads, fold.communicators, fold.streams, fold.decisions)]


def same_as_simulated(one: Scenario, backend: str, really: Scenario | None = None) -> Result:
    """Compares a run on the backend with the simulation.

    `really`: another scenario to run on the backend, for a faulty twin.
    """
    real, simulated = run_scenario(really or one, backend), run_scenario(one)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    for rank in range(real.world.size):
        for here, there in zip(
            compared_parts(real.run.journals[rank]), compared_parts(simulated.run.journals[rank]), strict=True
        ):
            assert here == there, f"rank {rank}"
    return real


@pytest.mark.parametrize("name", WORLDS)
def test_microbatches_on_real_backends_have_the_journals_of_the_simulation(backend: str, name: str) -> None:
    """Each world gives equal journals, and no findings: each token returned from its experts to its row."""
    same_as_simulated(WORLDS[name], backend)


def test_a_capture_that_is_given_up(backend: str) -> None:
    """A capture that the rank abandons leaves the same communicator calls and decisions as in the simulation.

    The refused microbatches first use the library inside the capture, both at once. So the numbers of events on their
    streams may differ between runs.
    """
    refused = scenario([(1, 1)] * 4, variant="dbo-falls-back", **SIZES)
    real, simulated = run_scenario(refused, backend), run_scenario(refused)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    for here, there in zip(real.run.journals, simulated.run.journals, strict=True):
        assert fold.communicators(here) == fold.communicators(there)
        assert fold.decisions(here) == fold.decisions(there)


def drawn(number: int) -> Scenario:
    draw = random.Random(number)
    ranks, ubatches = draw.choice([2, 2, 3]), draw.choice([2, 2, 3])
    requests = [(draw.randint(1, 5), draw.randint(1, 3)) for _ in range(draw.randint(2, 9))]
    config: dict[str, Any] = {"enforce_eager": True}
    if draw.random() < 0.5:
        config = {**GRAPHS, "cudagraph_capture_sizes": draw.choice([[2, 4], [4], [3, 4]])}
    form = draw.choice(["0.14", "0.33"]) if ubatches == 2 or "enforce_eager" in config else "0.33"
    return scenario(requests, form, ranks=ranks, num_ubatches=ubatches, **config)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(DRAWN))
def test_drawn_worlds_on_gloo(gloo: str, number: int) -> None:
    same_as_simulated(drawn(number), gloo)


@pytest.mark.slow
def test_the_scenario_dp2_overlap_is_the_same_on_real_backends(backend: str) -> None:
    real = same_as_simulated(load_scenario(scenario_path("dp2_overlap")), backend)
    forwards = real.figures["forwards"]
    assert min(forwards["threads"], forwards["capture"], forwards["replay"]) > 0


# ---- differences that the comparison detects


def test_another_order_is_seen(backend: str) -> None:
    """The comparison detects another order: M-BT-4 makes the same calls, but one of them after a yield instead of
    before it.
    """
    with pytest.raises(AssertionError, match="rank 0"):
        same_as_simulated(scenario(WHOLE), backend, scenario(WHOLE, variant="M-BT-4"))


@pytest.mark.slow
def test_a_mutant_with_other_results_differs_on_gloo(gloo: str) -> None:
    """The comparison detects other results: in M-BT-7 the first microbatch to end has its rows first in the output."""
    with pytest.raises(AssertionError, match="WRONGSUM"):
        same_as_simulated(scenario(WHOLE), gloo, scenario(WHOLE, variant="M-BT-7"))


# ---- a microbatch that raises in a capture


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_in_a_capture_is_clean(backend: str, number: int) -> None:
    """If a microbatch raises in a capture, the main thread abandons the capture and raises the same error on both
    ranks.

    The next scenario on the same workers passes.
    """
    raising = scenario(DECODES, variant=f"raises-{number}", **SIZES)
    real, simulated = run_scenario(raising, backend), run_scenario(raising)
    assert [one.message for one in real.findings] == [one.message for one in simulated.findings]
    assert [finding.klass for finding in real.findings] == ["CRASH:BROKENKERNEL"]
    for here, there in zip(real.run.journals, simulated.run.journals, strict=True):
        assert compared_parts(here) == compared_parts(there)
        captures = [one for one in map(as_record, here) if isinstance(one, Capture)]
        assert [(one.graph, one.what) for one in captures] == [("ubatches.0", "begin"), ("ubatches.0", "abandon")]
        assert (here[-1][KIND], here[-1][THREAD]) == ("raised", MAIN)
    same_as_simulated(WORLDS["captured-0.33"], backend)
