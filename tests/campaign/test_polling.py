"""Tests loops that poll: which runs contain one, and how a search reports it."""

from typing import Any

import pytest

from dpsim import Program, Rank
from dpsim.campaign.polling import MANY, Polls, loop
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.contract.ops import RawRecord
from dpsim.contract.world import World


def look(
    ordinal: int,
    answer: object = None,
    step: int = 0,
    site: str = "poll",
    kind: str = "store",
    timeout: int | None = 0,
) -> list[RawRecord]:
    call: tuple[Any, ...] = {
        "store": (0, 5, "get", "key", timeout),
        "take": ("box", "poll", None),
        "ask": ("query", 0),
    }[kind]
    return [
        (kind, step, "main", site, ordinal, "mine.py:7", *call),
        ("learned", step, "main", site, ordinal, "", answer),
        ("sleep", step, "main", "pause", ordinal, "mine.py:8", 1000),
        ("learned", step, "main", "pause", ordinal, "", None),
    ]


BARRIER: list[RawRecord] = [
    (
        "collective",
        0,
        "main",
        "go",
        0,
        "mine.py:9",
        None,
        "world_cpu",
        0,
        "barrier",
        0,
        "int32",
        None,
        None,
        (),
        (),
        (),
    ),
    ("learned", 0, "main", "go", 0, "", 7),
]


@pytest.mark.parametrize("kind", ["store", "take", "ask"])
def test_a_loop_is_found_with_its_line(kind: str) -> None:
    polls = Polls()
    polls.note([[], [one for at in range(MANY) for one in look(at, kind=kind)]])
    assert polls.text.startswith("rank 1 polls in a loop at poll, mine.py:7: each poll is a choice")


@pytest.mark.parametrize(
    "journal",
    [
        [one for at in range(MANY - 1) for one in look(at)],
        [one for at in range(2 * MANY) for one in look(at, step=at)],
        [one for at in range(2 * MANY) for one in look(at, answer=at)],
        [one for at in range(2 * MANY) for one in look(at) + BARRIER],
        [one for at in range(2 * MANY) for one in look(at, timeout=None)],
        [one for at in range(2 * MANY) for one in look(at, site=f"poll {at % 2}")],
    ],
    ids=["few", "once a step", "news each time", "works between", "waits", "two sites"],
)
def test_other_journals_have_no_polling_loop(journal: list[RawRecord]) -> None:
    assert loop(journal) is None


class Waits(Program[None]):
    """Rank 1 sets a key. Rank 0 polls for it in a loop, or waits for it."""

    def __init__(self, timeout_ns: int | None) -> None:
        self.timeout_ns = timeout_ns

    async def run(self, rank: Rank, prepared: None) -> None:
        store = await (rank.open_store(5, "open") if rank.rank == 1 else rank.join_store(0, 5, "join"))
        assert store is not None
        if rank.rank == 1:
            store.set("key", 1, "set")
        else:
            while await store.get("key", "poll", timeout_ns=self.timeout_ns) is None:
                await rank.sleep(1000, "pause")


@pytest.mark.parametrize(("timeout_ns", "polls"), [(0, "rank 0 polls in a loop at poll"), (None, "")])
def test_a_search_reports_it(timeout_ns: int | None, polls: str) -> None:
    world = World(2, ())
    seen = list[str]()
    (found,) = explore_all(
        [Subject(world, Waits(timeout_ns), repeats=False)],
        "dpor",
        schedules=80,
        watch=lambda at: seen.append(at.line()),
    )
    assert found.exploration.polls.startswith(polls)
    assert bool(found.exploration.polls) == bool(polls)
    assert any(polls in line for line in seen)
