"""Tests that a schedule of an older version still replays, from a trace and from a token. The labels of that version
contain other verbs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest

from dpsim.campaign.subject import Subject
from dpsim.campaign.token import PREFIX, Token, read_token
from dpsim.contract.events import OLD
from dpsim.contract.interface import Rank
from dpsim.explore.strategies.replay import Mismatch, ScheduleReplay
from dpsim.explore.strategies.walks import RandomWalk
from dpsim.trace import Schedule
from dpsim.trace.schedule import present
from tests.campaign.test_token import TOKEN
from tests.programs import Scripted, world_of

WORDS = {f" {old} ": f" {new} " for old, new in OLD.items()}


async def notified(rank: Rank) -> None:
    """Both ranks have two threads, and rank 0 gets a notice when rank 1 has ended."""

    async def beside(rank: Rank) -> None:
        rank.stream("main").record()

    if rank.rank == 0:
        rank.watch(1, "gone", "watch")
    thread = rank.start("u1", beside)
    rank.stream("main").record()
    await thread.join("join")
    if rank.rank == 0:
        await rank.mailbox("gone").get("take")


class Threaded(Scripted):
    threaded = True


SUBJECT = Subject(world_of(2), Threaded(notified))


def of_an_older_version() -> list[str]:
    """Returns a schedule of the program with all the old verbs."""
    walk = RandomWalk()
    walk.begin()
    SUBJECT.run(walk)
    steps = walk.schedule
    for old, new in WORDS.items():
        assert any(new in step for step in steps)
        steps = [step.replace(new, old) for step in steps]
    return steps


def follow(steps: tuple[str, ...]) -> None:
    replay = ScheduleReplay(steps)
    replay.begin()
    SUBJECT.run(replay)
    replay.end(True)


def test_an_old_trace_replays() -> None:
    steps = of_an_older_version()
    digest = hashlib.sha256(json.dumps(steps).encode()).hexdigest()
    content = {"strategy": "walk", "digest": digest, "steps": steps}
    follow(Schedule.parse(json.dumps({"section": "schedule", "schedule": content}).encode()).steps)


def test_an_old_token_replays() -> None:
    word = str(TOKEN._replace(steps=tuple(of_an_older_version())))
    assert word.startswith(PREFIX)
    token: Token = read_token(word)
    follow(token.steps)


def test_with_its_old_verbs_it_does_not() -> None:
    """The faulty twin: a reader that keeps the old verbs cannot follow the schedule."""
    with pytest.raises(Mismatch):
        follow(tuple(of_an_older_version()))


NAMES = tuple(f"one{old}two" for old in WORDS)
"""Names of communicators, which may contain spaces."""


def rewritten(old_to_new: Callable[[str], str]) -> list[str]:
    """The labels with such names that a reader of old schedules changes."""
    forms = ("{} #4", "{} 0>1 #2", "rank 3 gives {} #4", "rank 3 {} #4", "rank 3 {} #4: eager", "rank 3/u1 {} #4")
    labels = [form.format(name) for form in forms for name in NAMES]
    return [label for label in labels if old_to_new(label) != label]


def test_a_name_that_contains_an_old_verb_stays() -> None:
    """The twin replaces the words wherever they are."""

    def everywhere(step: str) -> str:
        for old, new in WORDS.items():
            step = step.replace(old, new, 1)
        return step

    assert rewritten(present) == []
    assert len(rewritten(everywhere)) == 12
    for name in NAMES:
        assert [present(f"rank 3{old}{name} #4") for old in WORDS] == [
            f"rank 3{new}{name} #4" for new in WORDS.values()
        ]
