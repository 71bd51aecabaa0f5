"""Tests repeated runs. dpsim repeats a run with the same schedule and reports a program whose journals differ. It
reports nothing about programs that depend only on their schedule.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, ClassVar

import numpy as np
import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.repeats import Repeats
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import fact_name
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import ByLabel
from dpsim.contract.world import World
from dpsim.diagnose.words import text
from dpsim.testing import holds
from tests.programs import Scripted, touch, world_of
from tests.worlds.cases import CASES

pytestmark = pytest.mark.runs_once  # repeated runs of these programs differ

WORLD = world_of(2, hosts=["h"])


def explored(program: Program[Any], world: World = WORLD, strategy: str = "portfolio", **more: Any) -> Explored:
    return explore_subject(Subject(world, program, **more), strategy)


def classes(found: Explored) -> list[str]:
    return [finding.klass for finding in found.findings]


# ---- programs with findings


class Skips(Program[Any]):
    """Faulty: now and then rank 0 leaves out a collective."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank or random.random() < 0.95:
            await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")


class SkipsByNumpy(Skips):
    async def run(self, rank: Rank, prepared: Any) -> None:
        if np.random.random() < 2:
            await rank.host("h").barrier()


@pytest.mark.parametrize("program", [Skips, SkipsByNumpy])
def test_random_numbers_without_a_seed_are_found(program: type[Program[Any]]) -> None:
    """Each exploration finds unseeded random numbers, however seldom they make a difference."""
    for seed in range(20):
        random.seed(seed)
        found = explored(program())
        assert found.verdict == "violated"
        assert classes(found)[0] in ("NONDETERMINISM:RANDOM", "NONDETERMINISM:REPEAT")


class Seeded(Skips):
    """Healthy: it uses its own generator, and seeds the shared one."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        random.seed(1)
        own = random.Random(rank.rank)
        rank.stream("main").launch("touch", touch)
        rank.decide("drawn", (own.random(), random.random()) > (0, 0), "h")


class Counts(Program[Any]):
    """Faulty: it has a counter on the class."""

    runs: ClassVar[Any] = (number for number in itertools.count())  # cannot be pickled, so no check compares its state

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 2
        rank.stream("main").launch("touch", touch)
        rank.decide("run", next(self.runs) // 2, "h")


class Unseen:
    """A number that pickles as no state. So only its effect on a run shows it."""

    number = 0

    def __reduce__(self) -> Any:
        return Unseen, ()


class CountsOnItself(Counts):
    """Faulty if an instance has more than one run."""

    def __init__(self) -> None:
        self.count = Unseen()

    async def run(self, rank: Rank, prepared: Any) -> None:
        self.count.number += rank.rank == 0
        rank.send(1 - rank.rank, "box", 0, "send")
        await rank.mailbox("box").poll("poll")
        rank.decide("run", self.count.number > 1, "h")


class Talks(Program[Any]):
    """Faulty: ranks agree through a shared list, which they reset."""

    def __init__(self) -> None:
        self.most = [0]

    def shared(self, prepared: Any) -> list[int]:
        return self.most

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        shared, group = self.shared(prepared), rank.host("h")
        await group.barrier(site="before")
        shared[0] = max(shared[0], rank.rank)
        await group.barrier(site="between")
        rank.decide("most", shared[0], "h")
        await group.barrier(site="after")
        shared[0] = 0


class TalksByPrepared(Talks):
    def prepare(self, args: Any) -> Any:
        return [0]

    def shared(self, prepared: Any) -> list[int]:
        return prepared  # type: ignore[no-any-return]


class Identity(Program[Any]):
    """Faulty: it decides the address of an object."""

    kept: ClassVar[list[object]] = []

    async def run(self, rank: Rank, prepared: Any) -> None:
        self.kept.append(object())
        if rank.rank:
            rank.decide("object", id(self.kept[-1]), "h")


class Order(Program[Any]):
    """Faulty: it follows the order of a set of objects, which depends on their addresses."""

    kept: ClassVar[list[Any]] = []

    async def run(self, rank: Rank, prepared: Any) -> None:
        objects = [object() for _ in range(50)]
        self.kept.append(objects)
        for one in {*objects}:
            rank.probe(f"object-{objects.index(one)}")


@pytest.mark.parametrize("program", [Counts, CountsOnItself, Identity, Order])
@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_program_that_is_no_function_of_its_schedule_is_found(program: type[Program[Any]], jobs: int) -> None:
    found = explored(program()) if not jobs else explore_all([Subject(WORLD, program())], jobs=jobs)[0]
    assert (found.verdict, found.confirmed) == ("violated", True)
    assert classes(found) == ["NONDETERMINISM:REPEAT"]
    assert found.unmet == "expected held, got violated"


def test_the_first_difference_is_named() -> None:
    (finding,) = explored(Counts()).findings
    assert fact_name(finding.message) == "repeated_run_differs"
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.step, finding.culprit.site) == (0, 2, "run")
    assert finding.culprit.where.startswith("tests/campaign/test_repeats.py:")
    assert text(finding.details[0]).startswith("first:   decided ")
    assert "likely causes" in text(finding.details[2])


@pytest.mark.parametrize("program", [Talks, TalksByPrepared])
@pytest.mark.parametrize("copied", [True, False])
def test_ranks_that_communicate_through_a_shared_object_are_found(program: type[Program[Any]], copied: bool) -> None:
    """The shared list is the same at the end. But in the repeated run each rank has its own copy, so the decision
    differs.
    """
    own: Any = program()
    more: dict[str, Any] = {} if copied else {"make": lambda: (program(), own.prepare(None))}
    found = explored(own, prepared=own.prepare(None), **more)
    assert (found.verdict, classes(found)) == ("violated", ["NONDETERMINISM:REPEAT"])
    details = [*map(text, found.findings[0].details)]
    assert (details[0].split()[1:3], details[1].split()[1:3]) == (["decided", "1"], ["decided", "0"])
    assert "state that ranks share, in self or in what prepare made" in "".join(details)
    assert not any(one.startswith("seen:") for one in details)


def test_a_change_is_reported_with_its_difference() -> None:
    class Stays(Talks):
        async def run(self, rank: Rank, prepared: Any) -> None:
            await super().run(rank, prepared)
            self.most[0] = 1

    (finding,) = explored(Stays()).findings
    assert finding.klass == "NONDETERMINISM:REPEAT"
    assert text(finding.details[-1]).startswith(
        "seen: test_a_change_is_reported_with_its_difference.<locals>.Stays.run"
    )
    assert " changed self.most. Ranks in one process share it" in text(finding.details[-1])


def test_ranks_may_read_what_they_share() -> None:
    class Reads(Talks):
        async def run(self, rank: Rank, prepared: Any) -> None:
            rank.step = 0
            most = await rank.host("h").all_reduce(np.array(self.most, np.int32), site="most")
            rank.decide("most", int(most[0]) + prepared[0], "h")

    assert explored(Reads(), prepared=[3]).verdict == "proven"


def test_holds_raises_for_an_unrepeatable_program() -> None:
    with pytest.raises(AssertionError, match="NONDETERMINISM:REPEAT"):
        holds(Subject(WORLD, Counts()))


def test_an_unrepeatable_schedule_is_reported_with_its_line() -> None:
    turns = itertools.count(-2)  # two ranks, and the timed run comes first

    async def asks(rank: Rank) -> None:
        rank.send(1 - rank.rank, "box", 0, "send")
        if next(turns) // 2 % 3 == 2:
            await rank.mailbox("box").poll("another")
        await rank.mailbox("box").poll("poll")

    found = explored(Scripted(asks), strategy="dpor", repeats=False)
    assert classes(found) == ["NONDETERMINISM:REPEAT"]
    assert text(found.findings[0].message).startswith(("rank ", "a schedule could not be repeated: choice "))


# ---- programs without findings


def test_a_program_with_a_seed_is_proven() -> None:
    assert explored(Seeded()).verdict == "proven"


def test_the_generators_of_the_process_are_unchanged() -> None:
    random.seed(5)
    explored(Scripted(_nothing))
    first = random.random()
    random.seed(5)
    assert random.random() == first


async def _nothing(rank: Rank) -> None:
    rank.step = 0


@pytest.mark.parametrize(
    ("name", "runs", "repeated"), [("residency 2 ranks 1 slots 2 streams", 4, 2), ("wake_pause 2x3", 21, 4)]
)
def test_which_runs_are_made_again(name: str, runs: int, repeated: int) -> None:
    """dpsim repeats the first run, those whose number is a power of four, and the last run."""
    case = CASES[name]
    found = explored(case.program, case.world, "dpor", prepared=case.args, switched_off=case.tolerated)
    if found.verdict == "proven":
        assert (found.exploration.runs, found.exploration.repeated) == (runs, repeated)


def test_no_run_is_repeated_without_a_reporter() -> None:
    for more in ({"repeats": False}, {"switched_off": ("NONDETERMINISM",)}):
        found = explored(Counts(), **more)
        assert (found.verdict, found.exploration.repeated) == ("proven", 0)


# ---- faulty rules


def test_a_repeat_in_the_same_instance_is_caught() -> None:
    """A program whose second run on one instance differs is healthy, because elsewhere an instance has only one run."""

    class Once(Program[Any]):
        def __init__(self) -> None:
            self.count = Unseen()

        async def run(self, rank: Rank, prepared: Any) -> None:
            rank.stream("main").launch("touch", touch)
            rank.decide("fresh", self.count.number == 0, "h")
            self.count.number += rank.rank

    assert explored(Once()).verdict == "proven"


def test_a_comparison_of_ends_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.checks.nondeterminism._difference", lambda *given: None)
    assert explored(Counts()).verdict == "proven"


def test_the_second_run_follows_the_schedule_of_the_first() -> None:
    case = CASES["wake_pause 2x3"]
    subject = Subject(case.world, case.program, case.args)
    repeats, asked = Repeats(subject), list[str]()

    def choose(label: str, options: Any) -> int:
        asked.append(options[-1] if label == "op" else f"{label}: {options[0]}")
        return len(options) - 1 if label == "op" else 0

    run = subject.run(ByLabel(choose))[0]
    repeats.before(2)
    assert repeats.after(run, asked, failed=True) is None
    repeats.before(2)
    unlike = repeats.after(run, asked[::-1], failed=True)
    assert unlike is not None
    assert unlike.finding.klass == "NONDETERMINISM:REPEAT"
