"""Tests replay tokens of scenarios with requests: dpsim refuses a token with too large a world before it builds the
world.

A token is a long word in the log of a failed test, which encodes a scenario and its failing schedule.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.token import Token, beyond, read_token
from dpsim.scenario import Scenario, dump_scenario, scenario_from
from tests.campaign.test_token import of, refused

TOKEN = Token(
    scenario_from({"name": "small", "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}}),
    ("rank 0 first[0]", "rank 1 delivers wake[0]", "rank 0>1 #2: eager"),
    "HANG:MAILBOX:NO_MESSAGE",
    "portfolio",
    300,
)


def world(ranks: int = 64, **workload: Any) -> Scenario:
    topology = {"data_parallel_size": ranks}
    return scenario_from({"name": "x", "topology": topology, "workload": workload})


def made_up(requests: int, tokens: int, **more: Any) -> dict[str, Any]:
    lengths = {"min": 1, "max": tokens}
    return {"requests": requests, "prompt_tokens": lengths, "output_tokens": lengths, **more}


def written(count: int = 1, prompt_tokens: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [{"prompt_tokens": prompt_tokens, "output_tokens": 1, **more}] * count


LARGE = [
    (world(65, requests=written()), "65 ranks; expected at most 64"),
    (world(4_096, requests=written()), "4,096 ranks; expected at most 64"),
    (world(requests=written(1_001)), "1,001 requests; expected at most 1,000"),
    (world(requests=written(2, 50_000)), "100,002 tokens; expected at most 100,000"),
    (world(synthetic=made_up(1_000_000, 1 << 24)), "1,000,000 requests; expected at most 1,000"),
    (world(synthetic=made_up(501, 100)), "100,200 tokens; expected at most 100,000"),
    (world(step_duration="1ns", requests=written(arrival="1s")), "1,000,000,000 steps to the last arrival; expected"),
    (world(step_duration="1ns", requests=written(abort="1s")), "1,000,000,000 steps to the last arrival; expected"),
    (world(synthetic=made_up(500, 1, rate=0.01)), "2,500,000 steps to the last arrival; expected at most 100,000"),
    (world(azure_csv={"file": "/etc/passwd"}), "its workload is a file; expected requests"),
    (world(azure_csv={"file": "trace.csv"}, limit=1), "its workload is a file; expected requests"),
]
FITTING = [
    world(requests=written(1_000, 99)),
    world(requests=written(1_001), limit=1_000),
    world(synthetic=made_up(500, 100)),
    world(synthetic=made_up(1_000_000, 50), limit=1_000),
    world(requests=written(arrival="2000s")),
]


@pytest.mark.parametrize(("scenario", "said"), LARGE, ids=[said[:20] for _, said in LARGE])
def test_a_world_that_is_too_large_is_refused_unmade(
    scenario: Scenario, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dpsim never writes such a token, and refuses to read one."""
    monkeypatch.setattr(type(scenario), "arguments", None)
    assert said in refused(of(scenario=dump_scenario(scenario)))
    assert str(TOKEN._replace(scenario=scenario)) == ""


@pytest.mark.parametrize("scenario", FITTING)
def test_a_world_at_the_limits_is_read(scenario: Scenario) -> None:
    token = TOKEN._replace(scenario=scenario)
    assert read_token(of(scenario=dump_scenario(scenario))) == token
    assert read_token(str(token)) == token


def test_a_token_is_read_as_it_was_written() -> None:
    assert read_token(str(TOKEN)) == TOKEN
    assert len(str(TOKEN)) < 400


def test_a_run_that_keeps_much_is_refused_though_its_requests_are_few() -> None:
    """dpsim refuses a token whose run needs much memory, even with one request: each slot has memory for the longest
    request.

    A token with 64 records once took 5 GB.
    """
    request = {"prompt_tokens": 5, "output_tokens": 90_000, "stop_after": 1}
    made = {"name": "x", "protocol": "pp_tokens", "topology": {"pipeline_parallel_size": 2}}
    for slots, said in ((2, ""), (1_000, "GB; expected at most 0.5 GB")):
        config = {"max_num_seqs": slots}
        one = scenario_from({**made, "config": config, "workload": {"requests": [request]}})
        assert beyond(one).endswith(said)
        assert bool(str(Token(one, (), "HANG", "dpor", 1))) == (not said)
