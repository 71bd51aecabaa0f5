"""Tests that a rank that shares no Python object makes the same calls when it runs alone.

Each test runs a program that uses one part of the contract, and then runs its ranks again alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign import lone_ranks
from dpsim.campaign.pasts import note
from dpsim.campaign.subject import Origin, Subject
from dpsim.contract.registry import prepared
from dpsim.contract.world import At, Delay, Fault, World
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.testing import programs as steps
from dpsim.testing.conformance.program import PARTS
from tests.programs import world_of


def looked(protocol: str, args: Any, world: World) -> lone_ranks.Looked:
    program, made = prepared(protocol, args)
    origin = Origin(protocol, args, dict(os.environ))
    subject = Subject(world, program, made, make=lambda: prepared(protocol, args), origin=origin, alone=True)
    straight = ScheduleReplay((), strict=False, longest=subject.longest)
    straight.begin()
    run, _ = subject.run(straight)
    pasts: dict[bytes, Sequence[str]] = {}
    note(pasts, run.journals, straight.schedule)
    return lone_ranks.looked_at(subject, pasts, 0.0)


WORLD = world_of(2, hosts=["dp_cpu"], devices=["dp", "ep"])


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_contract(part: str) -> None:
    found = looked("conformance", {"rounds": 1, "parts": [part]}, WORLD)
    assert (found.finding, found.why, found.runs) == (None, "", 2)


def test_a_program_with_host_threads_does_the_same_alone() -> None:
    found = looked("conformance_threads", {"rounds": 1, "parts": ["threads", "streams", "graphs"]}, WORLD)
    assert (found.finding, found.why, found.runs) == (None, "", 2)


def test_communicators_that_are_made_at_their_first_use() -> None:
    found = looked("conformance_lazy", {"rounds": 1}, replace(WORLD, lazy=True))
    assert (found.finding, found.why, found.runs) == (None, "", 2)


def test_a_rank_that_runs_again_alone_applies_planted_faults_and_delays() -> None:
    delays = (Delay(1, At(site="check.sum", ordinal=2), 1_000),)
    faults = (Fault("skip", 0, At(site="check.none")),)
    assert steps.STEPS > 2  # so that some rank reaches the delay
    found = looked("testing_steps", {"parts": ["host", "device"]}, replace(WORLD, delays=delays, faults=faults))
    assert (found.finding, found.why, found.runs) == (None, "", 2)
