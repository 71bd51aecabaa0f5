"""Tests that `ScheduleEvent.read` reads the labels of the simulation, with sites and communicators of the world."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract import events
from dpsim.contract.events import CALLS, GIVES, REACHES, ScheduleEvent
from dpsim.contract.ops import SITE
from dpsim.contract.world import Run
from dpsim.explore.strategies.walks import RandomWalk
from tests.worlds.cases import CASES


def misread(subject: Subject, run: Run, labels: Sequence[str]) -> list[str]:
    """Returns the labels that are not the text of their event, or that name no site and no communicator of the run."""
    names = {spec.name for spec in subject.world.communicators} | {raw[SITE] for own in run.journals for raw in own}
    return [label for label in labels if not _fits(label, ScheduleEvent.read(label), names)]


def _fits(label: str, event: ScheduleEvent | None, names: set[str]) -> bool:
    if event is None or str(event) != label:
        return False
    if event.rank is None:
        return event.actor in names
    of_a_communicator = event.number is not None and event.verb in (CALLS, GIVES, REACHES)
    return not of_a_communicator or event.site in names or event.site.partition(" ")[0] in names


def walked(subject: Subject, runs: int = 3) -> tuple[set[str], list[str]]:
    """Returns the labels of some random walks, and those that are misread."""
    walk, labels, wrong = RandomWalk(), set[str](), list[str]()
    for _ in range(runs):
        walk.begin()
        run, _ = subject.run(walk)
        labels.update(walk.schedule)
        wrong += misread(subject, run, walk.schedule)
    return labels, wrong


def of_case(name: str) -> Subject:
    case = CASES[name]
    return Subject(case.world, case.program, case.args, ("RACE",), name)


@pytest.mark.parametrize("name", CASES)
def test_each_label_of_each_world_is_the_text_of_its_event(name: str) -> None:
    assert walked(of_case(name))[1] == []


def test_a_verb_without_a_line_in_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsim.sim.hosts import turns

    monkeypatch.setattr(turns, "GOES_ON", "carries on")
    assert "carries on" not in events.VERBS
    assert any("carries on" in label for label in walked(of_case("threads baton 1"))[1])
