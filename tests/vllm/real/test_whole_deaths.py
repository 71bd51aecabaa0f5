"""Tests on gloo that engines with several workers end soon after a process dies, because they are notified of the
death.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.subject import Subject
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from tests.unnoticed import notices_text
from tests.vllm.engine.watched_worlds import Seen, owed

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.slow]

PLACES = [
    ("1", "dp.agree", 1),
    ("2", "worker.call", 3),
    ("3", "inputs.read", 0),
    ("engine.0", "answer.take", 0),
    ("engine.1", "engine.finish_sync", 1),
    ("frontend.0", "frontend.output", 1),
]
"""The actor that dies, and the op of its main thread at which it dies: workers, cores, the front end."""


def run(*faults: dict[str, Any]) -> Seen:
    told = scenario_from(
        {
            "name": "deaths",
            "protocol": "whole_engine_watched",
            "topology": {"data_parallel_size": 2, "pipeline_parallel_size": 2},
            "config": {"parallel_rules": "0.33", "dp_sync_interval": 2, "max_num_seqs": 2, "cudagraph_mode": "NONE"},
            "workload": {
                "requests": [{"prompt_tokens": 5, "output_tokens": 3}, {"prompt_tokens": 3, "output_tokens": 3}]
            },
            "faults": list(faults),
            "limits": {"stall": "5s"},
        }
    )
    done = run_scenario(told, "gloo")
    return Seen(done.world, done.run, owed(Subject.of(told)))


def test_without_a_death_all_end_in_order() -> None:
    seen = run()
    assert seen.wrong == []
    assert seen.run.finished, seen.run.observed


@pytest.mark.parametrize(("actor", "site", "ordinal"), PLACES)
def test_a_death_ends_all_ranks(actor: str, site: str, ordinal: int) -> None:
    rank: int | str = int(actor) if actor.isdigit() else actor
    seen = run({"kind": "die", "rank": rank, "at": {"site": site, "ordinal": ordinal}})
    assert seen.wrong == [], seen.run.observed
    assert seen.run.ends.count("died") == 1
    gone, ms = seen.run.ends.index("died"), seen.run.elapsed_ns / 1e6
    print(f"at {site}[{ordinal}]: {notices_text(seen.run, gone)}; all have ended {ms:.0f} ms after the start")


def test_a_worker_that_dies_unseen_is_found() -> None:
    """Faulty twin: `whole_engine`, which does not watch processes, blocks until the stall time after a worker died."""
    told = scenario_from(
        {
            "name": "unseen",
            "protocol": "whole_engine",
            "topology": {"data_parallel_size": 2, "pipeline_parallel_size": 2},
            "config": {"parallel_rules": "0.33", "dp_sync_interval": 2, "cudagraph_mode": "NONE"},
            "workload": {"requests": [{"prompt_tokens": 5, "output_tokens": 3}]},
            "faults": [{"kind": "die", "rank": 1, "at": {"site": "dp.agree", "ordinal": 1}}],
            "limits": {"stall": "2s"},
        }
    )
    done = run_scenario(told, "gloo")
    assert "blocked" in done.run.ends
