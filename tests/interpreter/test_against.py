"""Tests random scripts on gloo, with drawn pauses before each call: a proven world shows only what its search saw.

The scripts are those of `on_gloo`, which end in the same way on every machine however late a host is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dpsim.campaign.against import AgainstBackend, against
from dpsim.campaign.explored import explore_subject
from dpsim.contract.world import Backend
from tests.interpreter.language import Script
from tests.interpreter.on_gloo import KINDS, suitable
from tests.interpreter.verdicts import subject_of

pytest.importorskip("torch")

pytestmark = pytest.mark.xdist_group("gloo")

SLOW, NIGHTLY = 1, 60
"""The ends of the ranges of scripts of each kind. With five kinds, the nightly suite has 300 scripts."""

RUNS = 2
"""Runs of each script on gloo. Each has other pauses."""


def scripts(kind: str) -> Iterator[tuple[int, Script]]:
    """Yields the suitable scripts of a kind, each with its seed."""
    seed = 0
    while True:
        chosen = suitable(kind, seed)
        if chosen is not None:
            yield seed, chosen[0]
        seed += 1


def check(kind: str, first: int, end: int) -> None:
    """Holds the scripts of a kind from number `first` to number `end` against gloo."""
    for number, (seed, script) in enumerate(scripts(kind)):
        if number >= end:
            return
        if number >= first:
            subject = subject_of(script)
            world = replace(subject.world, stall_ns=10_000_000_000)
            explored = explore_subject(replace(subject, world=world, outcomes=True), "dpor", schedules=1_000)
            found = against(explored, AgainstBackend("gloo", RUNS), seed=seed)
            assert not found.unseen, "\n".join([f"{kind} {seed}", *found.described(), script.words()])


@pytest.fixture
def gloo(dpsim_backend: Callable[..., Backend]) -> None:
    dpsim_backend("gloo", size=3)


@pytest.mark.slow
@pytest.mark.usefixtures("gloo")
@pytest.mark.parametrize("kind", KINDS)
def test_gloo_shows_only_what_the_search_of_some_scripts_saw(kind: str) -> None:
    check(kind, 0, SLOW)


@pytest.mark.nightly
@pytest.mark.usefixtures("gloo")
@pytest.mark.parametrize("kind", KINDS)
def test_gloo_shows_only_what_the_search_of_many_scripts_saw(kind: str) -> None:
    check(kind, SLOW, NIGHTLY)
