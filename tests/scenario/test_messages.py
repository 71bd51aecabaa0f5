"""Tests of messages from outside in a scenario: what the backend receives, and that files store them."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.properties import DoesNotHold
from dpsim.contract.world import At, Message
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, dump_scenario, parse_scenario, prepare, scenario_from, world
from dpsim.testing import holds
from tests.protocols import agreed, served

BOTH: list[dict[str, Any]] = [
    {"to": "engine.1", "mailbox": "inbox", "content": ["wave", [3, True, 0.5, None]]},
    {"to": 0, "mailbox": "in", "content": "x", "after": {"rank": "engine.0", "site": "serve", "ordinal": 2}},
]


def made(messages: list[dict[str, Any]] = BOTH) -> Scenario:
    return served(4, messages=messages)


def test_messages_reach_the_program() -> None:
    program, _, prepared = prepare(made())
    assert world(made(), program, prepared).messages == (
        Message(7, "inbox", ("wave", (3, True, 0.5, None)), by=7),
        Message(0, "in", "x", by=6, at=At("serve", 2)),
    )


def test_files_keep_messages() -> None:
    assert parse_scenario(dump_scenario(made())) == made()
    assert scenario_from(made().model_dump(mode="json", by_alias=True, exclude_defaults=True)) == made()


def test_a_message_that_no_rank_takes_is_not_met() -> None:
    healthy = agreed()
    assert run_scenario(healthy).met
    for extra, said in (
        ({}, "rank 0 never polled this mailbox; it polls no mailbox"),
        ({"after": {"rank": 1, "site": "dp.agre", "ordinal": 0}}, "rank 1 never reached dp.agre[0]; did you mean"),
    ):
        unmet = run_scenario(agreed(messages=[{"to": 0, "mailbox": "in", "content": 1, **extra}])).unmet
        assert unmet is not None
        assert said in unmet


def test_a_message_that_is_never_sent_is_not_proven_away() -> None:
    """Explores a scenario with a message that no rank ever sends. No schedule applies it, so `holds` raises an error
    that names the message.
    """
    assert holds(agreed()).verdict == "proven"
    lost = {"to": 0, "mailbox": "in", "content": 1, "after": {"rank": 1, "site": "dp.agre", "ordinal": 0}}
    with pytest.raises(
        DoesNotHold, match=r"never applied: message 1 to in of rank 0: rank 1 never reached dp.agre\[0\]"
    ):
        holds(agreed(messages=[lost]))
