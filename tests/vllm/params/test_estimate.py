"""Tests that the estimate of a run is near its real size, and that dpsim refuses an enormous run at once."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.vllm.params.estimate import estimate_of

TWO_STAGES = {"pipeline_parallel_size": 2}


def scenario(protocol: str, topology: dict[str, int], **workload: Any) -> Scenario:
    return scenario_from({"name": "x", "protocol": protocol, "topology": topology, "workload": workload})


def equal(count: int, prompt: int, output: int) -> list[dict[str, int]]:
    return [{"prompt_tokens": prompt, "output_tokens": output}] * count


SPARSE = [{"arrival": f"{at}s", "prompt_tokens": 3, "output_tokens": 5} for at in range(20)]
RUNS = [
    ("dp_batch", {}, equal(1, 5, 200)),
    ("dp_batch", {"data_parallel_size": 2}, equal(300, 5, 6)),
    ("dp_batch", {}, SPARSE),
    ("pp_tokens", TWO_STAGES, equal(3, 5, 20)),
    ("engine", {"data_parallel_size": 2}, equal(2, 5, 100)),
    ("dbo", {"data_parallel_size": 2}, equal(4, 50, 30)),
]


@pytest.mark.parametrize(("protocol", "topology", "requests"), RUNS)
def test_the_estimate_is_near(protocol: str, topology: dict[str, int], requests: list[dict[str, int]]) -> None:
    one = scenario(protocol, topology, requests=requests)
    estimate = estimate_of(one.arguments(), table=protocol == "pp_tokens")
    result = run_scenario(one)
    records = sum(map(len, result.run.journals))
    assert 0.3 < estimate.steps / result.steps < 3, (estimate, result.steps)
    assert 0.2 < estimate.records / records < 5, (estimate, records)


HUGE = [
    ("dp_batch", {}, {"requests": equal(1, 5, 16_000_000)}),
    ("pp_tokens", TWO_STAGES, {"requests": equal(1, 16_000_000, 5)}),
    ("engine", {"data_parallel_size": 2}, {"requests": equal(1, 1, 16_000_000)}),
    ("whole_engine", TWO_STAGES, {"requests": equal(1, 16_000_000, 16_000_000)}),
    ("whole_engine_dp", {"data_parallel_size": 2}, {"requests": equal(1, 1, 16_000_000)}),
    ("dbo", {"data_parallel_size": 2}, {"requests": equal(1, 1, 16_000_000)}),
    ("dp_survivors", {"data_parallel_size": 3}, {"requests": equal(1, 1, 16_000_000)}),
]


@pytest.mark.parametrize(("protocol", "topology", "workload"), HUGE, ids=[one[0] for one in HUGE])
def test_an_enormous_scenario_is_refused(protocol: str, topology: dict[str, int], workload: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"about [0-9,]+ steps, [0-9,]+ records, .* GB; expected at most 8 GB"):
        run_scenario(scenario(protocol, topology, **workload))


def test_a_million_requests_are_announced() -> None:
    lengths = {"min": 5, "max": 10}
    made = {"requests": 1_000, "prompt_tokens": lengths, "output_tokens": lengths}
    args = scenario("dp_batch", {}, synthetic=made).arguments()
    many = estimate_of(type(args)(**{**vars(args), "requests": args.requests * 1_000}))
    assert 2 * 10**9 < many.bytes < 5 * 10**9


def test_a_request_has_no_step_after_its_abort() -> None:
    endless = {"prompt_tokens": 5, "output_tokens": 2_000_000, "abort": "100ms"}
    one = scenario("dp_batch", {}, requests=[endless])
    assert estimate_of(one.arguments()).steps == 7
    assert run_scenario(one).steps <= 7


SHORT = {"prompt_tokens": 5, "output_tokens": 1_000_000, "stop_after": 1}
SESSION = [{"prompt_tokens": 5, "output_tokens": 50_000, "stop_after": 1, "session": "a"}] * 20


@pytest.mark.parametrize("requests", [[SHORT], SESSION])
def test_the_room_of_a_request_that_ends_early(requests: list[dict[str, Any]]) -> None:
    """A pipeline stage allocates memory for the maximum length of a request, 3.5 kB a token, even if the request ends
    early.
    """
    args = scenario("pp_tokens", TWO_STAGES, requests=requests).arguments()
    assert 6 * 10**9 < estimate_of(args, table=True).bytes < 11 * 10**9
    args = scenario("whole_engine_dp", {"data_parallel_size": 2}, requests=[SHORT] * 999).arguments()
    assert estimate_of(args).bytes < 10**7
    captures = type(args)(**{**vars(args), "config": {**args.config, "capture_graphs": True}})
    assert 15 * 10**9 < estimate_of(captures).bytes < 17 * 10**9
