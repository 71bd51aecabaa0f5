"""Microbatches in threads of a process, with gloo and on two GPUs: the same, thread by thread, as on the simulation.

Threads run when they like there. So their records are compared thread by thread, and what their order has to be the
same for, communicator by communicator and stream by stream. The literal barrier alone is left out: who comes last of
three is chance.
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
    """Its workers stay warm for the tests of other files; the plugin of dpsim ends them with the session."""
    return str(request.param)


@pytest.fixture(params=[GLOO])
def gloo(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def told(journal: list[RawRecord]) -> list[dict[str, list[RawRecord]]]:
    """What has to be the same: what each thread did, and all of them on communicators and streams, and decided."""
    records = [record for record in unplaced(journal) if not record[SITE].startswith("ready.")]
    return [split(records) for split in (fold.threads, fold.communicators, fold.streams, fold.decisions)]


def same_as_simulated(one: Scenario, backend: str, really: Scenario | None = None) -> Result:
    """`really`: what is run on the other backend in place of the scenario."""
    real, simulated = run_scenario(really or one, backend), run_scenario(one)
    assert real.findings == simulated.findings == []
    assert real.figures == simulated.figures
    for rank in range(real.world.size):
        for here, there in zip(told(real.run.journals[rank]), told(simulated.run.journals[rank]), strict=True):
            assert here == there, f"rank {rank}"
    return real


@pytest.mark.parametrize("name", WORLDS)
def test_the_same_as_simulated(backend: str, name: str) -> None:
    """That no finding is there says that each token came back from its experts to its place."""
    same_as_simulated(WORLDS[name], backend)


def test_a_capture_that_is_given_up(backend: str) -> None:
    """Microbatches that were refused before touch the library first in the capture. They do so beside one another, so
    events on their streams are numbered as it comes.
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
def test_the_example(backend: str) -> None:
    real = same_as_simulated(load_scenario(scenario_path("dp2_overlap")), backend)
    forwards = real.figures["forwards"]
    assert min(forwards["threads"], forwards["capture"], forwards["replay"]) > 0


# ---- what is not the same


def test_another_order_is_seen(backend: str) -> None:
    """M-BT-4 puts the same on the same streams, one thing after a yield in place of before it, and harms nothing."""
    with pytest.raises(AssertionError, match="rank 0"):
        same_as_simulated(scenario(WHOLE), backend, scenario(WHOLE, variant="M-BT-4"))


@pytest.mark.slow
def test_other_tokens_are_seen(gloo: str) -> None:
    """Who is first through has his rows put first."""
    with pytest.raises(AssertionError, match="WRONGSUM"):
        same_as_simulated(scenario(WHOLE), gloo, scenario(WHOLE, variant="M-BT-7"))


# ---- a microbatch that raises in a capture


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_in_a_capture_is_clean(backend: str, number: int) -> None:
    """Main raises what the microbatch raised, after it has given the capture up, on both ranks as on the simulation;
    and the next scenario passes.
    """
    raising = scenario(DECODES, variant=f"raises-{number}", **SIZES)
    real, simulated = run_scenario(raising, backend), run_scenario(raising)
    assert [one.message for one in real.findings] == [one.message for one in simulated.findings]
    assert [finding.klass for finding in real.findings] == ["CRASH:BROKENKERNEL"]
    for here, there in zip(real.run.journals, simulated.run.journals, strict=True):
        assert told(here) == told(there)
        captures = [one for one in map(as_record, here) if isinstance(one, Capture)]
        assert [(one.graph, one.what) for one in captures] == [("ubatches.0", "begin"), ("ubatches.0", "abandon")]
        assert (here[-1][KIND], here[-1][THREAD]) == ("raised", MAIN)
    same_as_simulated(WORLDS["captured-0.33"], backend)
