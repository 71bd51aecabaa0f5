"""Tests reports on whole engines: they blame only the actor that dies, blocks or gets a malformed message."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.finding import Finding
from dpsim.diagnose.words import told
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from

DEAD, SILENT = "HANG:MAILBOX:DEAD_RANK", "HANG:MAILBOX:NO_MESSAGE"


def composition(fault: dict[str, Any] | None, runner: str = "v1", protocol: str = "whole_engine") -> list[Finding]:
    document: dict[str, Any] = {
        "name": "n",
        "protocol": {"name": protocol, "form": "current", "pieces": {"runner": runner}},
        "topology": {"data_parallel_size": 2, "pipeline_parallel_size": 2},
        "config": {"parallel_rules": "0.33", "dp_sync_interval": 4, "max_num_seqs": 2, "max_num_batched_tokens": 8},
        "workload": {"requests": [{"prompt_tokens": 5, "output_tokens": 4, "abort": "40ms"}]},
        "faults": [] if fault is None else [fault],
    }
    return run_scenario(scenario_from(document)).findings


def test_a_blocked_process_is_blamed_though_its_monitor_waits() -> None:
    fault = {"kind": "hang", "rank": "engine.0", "at": {"site": "call.sample", "ordinal": 1}}
    first = composition(fault, protocol="whole_engine_watched")[0]
    assert (first.klass, first.culprit and first.culprit.service) == (SILENT, "engine.0")


def test_a_dead_rank_is_blamed_if_ranks_swap() -> None:
    """On the V2 runner ranks agree by sends and receives, so a death shows as a receive without a send.

    The report blames the engine that died, because its worker therefore never sends.
    """
    fault = {"kind": "die", "rank": "engine.0", "at": {"site": "call.execute", "ordinal": 1}}
    first = composition(fault, "v2")[0]
    assert (first.klass, first.culprit and first.culprit.service) == ("HANG:P2P:UNMATCHED_RECV", "engine.0")


@pytest.mark.parametrize(
    ("fault", "klass"),
    [
        ({"kind": "die", "rank": "coordinator", "at": {"site": "coordinator.event", "ordinal": 1}}, DEAD),
        ({"kind": "kill", "rank": "coordinator", "at": {"site": "coordinator.event", "ordinal": 1}}, DEAD),
        ({"kind": "hang", "rank": "coordinator", "at": {"site": "coordinator.event", "ordinal": 1}}, SILENT),
        (
            {"kind": "die", "rank": "engine.0", "at": {"site": "call.execute", "ordinal": 1}},
            "HANG:COLLECTIVE:DEAD_RANK",
        ),
    ],
)
def test_a_dead_service_is_blamed_before_its_waiters(fault: dict[str, Any], klass: str) -> None:
    first = composition(fault)[0]
    assert (first.klass, first.culprit and first.culprit.service) == (klass, fault["rank"])


def test_without_the_fault_all_ends_well() -> None:
    assert composition(None) == []


# ---- a message of a wrong shape

WRONG = [
    ("coordinator", "events", ["NONSENSE", 1], "the coordinator knows no event ('NONSENSE', 1)"),
    ("coordinator", "events", 7, "the coordinator knows no event 7"),
    ("engine.1", "input", 5, "engine 1 knows no message 5"),
    ("engine.1", "answers", 5, "an engine knows no answer 5"),
    ("frontend.0", "outputs", ["X"], "front end 0 knows no message ('X',)"),
]


@pytest.mark.parametrize(("to", "mailbox", "content", "said"), WRONG)
def test_every_actor_refuses_what_it_does_not_know(to: str, mailbox: str, content: Any, said: str) -> None:
    document: dict[str, Any] = {
        "name": "n",
        "protocol": {"name": "whole_engine", "form": "current"},
        "topology": {"data_parallel_size": 2, "pipeline_parallel_size": 2},
        "config": {"parallel_rules": "0.33", "dp_sync_interval": 4, "max_num_seqs": 2, "max_num_batched_tokens": 8},
        "workload": {"requests": [{"prompt_tokens": 5, "output_tokens": 4}]},
    }
    after = {"rank": "engine.0", "site": "call.execute", "ordinal": 1}
    message = {"to": to, "mailbox": mailbox, "content": content, "after": after}
    result = run_scenario(scenario_from({**document, "messages": [message]}))
    first = told(result.run, result.findings[0])
    assert (first.klass, first.culprit and first.culprit.service) == ("CRASH:TYPEERROR", to)
    assert said in first.message
    assert "sent from outside, as engine.0 reached call.execute[1]" in first.details[-1]
    assert run_scenario(scenario_from(document)).findings == []
