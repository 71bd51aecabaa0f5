"""Tests random numbers: a finding names the rank and the line that draw without a seed. Seeded generators are no
finding.
"""

from __future__ import annotations

import random
import secrets
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from random import Random as Imported
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from dpsim.campaign.draws import generators
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding
from dpsim.contract.interface import Rank
from dpsim.diagnose.words import text
from dpsim.sim.backend import SimBackend
from tests.programs import Scripted, world_of

pytestmark = pytest.mark.runs_once  # repeated runs of these programs differ

HERE = "tests/campaign/test_draws.py"


def found(draws: Callable[[], Any], then: Callable[[Rank], Any] = lambda rank: None) -> list[Finding]:
    """Returns the findings of a program. Rank 1 draws in step 3, and uses the number only in `then`."""

    async def script(rank: Rank) -> None:
        rank.step = 2
        await rank.host("h").barrier(site="meet")
        rank.step = 3
        rank.decide("before", 1, "h")
        if rank.rank == 1:
            draws()
        rank.step = 4
        await rank.host("h").barrier(site="again")
        then(rank)

    return list(explore_subject(Subject(world_of(2, hosts=["h"]), Scripted(script))).findings)


def reseeds() -> None:
    random.seed()


FAULTY: dict[str, Callable[[], Any]] = {
    "random": lambda: random.random(),
    "choice": lambda: random.choice("ab"),
    "seed": reseeds,
    "numpy": lambda: np.random.random(),
    "Random": lambda: random.Random().random(),
    "imported": lambda: Imported().random(),
    "default_rng": lambda: np.random.default_rng().random(),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_report_names_the_rank_that_drew(name: str) -> None:
    draws = FAULTY[name]
    (finding,) = found(draws)
    assert finding.klass == "NONDETERMINISM:RANDOM"
    assert text(finding.message).startswith("rank 1 in step 3 uses ")
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.step) == (1, 3)
    assert finding.culprit.where in (
        f"{HERE}:{draws.__code__.co_firstlineno}",
        f"{HERE}:{draws.__code__.co_firstlineno + 1}",
    )


def seeds_later() -> None:
    own = random.Random()
    own.seed(3)
    own.random()
    kept = random.Random(4)
    other = random.Random()
    other.setstate(kept.getstate())
    other.random()


def seeds_the_shared_ones() -> None:
    random.seed(1)
    np.random.seed(1)
    assert random.random() + np.random.random() > 0


def names_a_file() -> None:
    tempfile._get_candidate_names()  # type: ignore[attr-defined]
    next(tempfile._RandomNameSequence())  # type: ignore[attr-defined]


HEALTHY: dict[str, Callable[[], Any]] = {
    "Random": lambda: random.Random(5).random(),
    "never drawn from": lambda: (random.Random(), np.random.default_rng()),
    "seeded later": seeds_later,
    "shared": seeds_the_shared_ones,
    "default_rng": lambda: np.random.default_rng(7).random(),
    "RandomState": lambda: np.random.RandomState(7).rand(),
    "numbers of numpy": lambda: np.random.Generator(np.random.PCG64(3)).integers(4),
    "a name": lambda: (uuid.uuid4(), secrets.token_hex(4)),
    "the name of a file": names_a_file,
    "a clock": lambda: time.time(),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_program_that_seeds_its_generator_has_no_finding(name: str) -> None:
    assert found(HEALTHY[name]) == []


def test_a_difference_names_the_rank_that_drew() -> None:
    drawn: list[float] = []
    draws = random.Random

    def keeps() -> None:
        drawn.append(draws().random())

    (finding,) = found(keeps, lambda rank: rank.decide("drawn", int(drawn[-1] * 10**9), "h") if rank.rank else None)
    assert finding.klass == "NONDETERMINISM:REPEAT"
    assert text(finding.details[-1]).startswith(f"seen: rank 1, step 3, draws at {HERE}:")


def test_a_difference_names_the_user_of_a_shared_generator() -> None:
    drawn: list[float] = []
    (finding,) = found(
        lambda: drawn.append(random.random()),
        lambda rank: rank.decide("drawn", int(drawn[-1] * 10**9), "h") if rank.rank else None,
    )
    assert finding.klass == "NONDETERMINISM:REPEAT"
    assert text(finding.details[-1]).startswith(f"seen: rank 1, step 3, draws at {HERE}:")


@pytest.mark.parametrize(
    ("draws", "klass"),
    [
        (lambda: np.random.default_rng().random() and None, "NONDETERMINISM:RANDOM"),
        (lambda: random.random() and None, "CRASH:TYPEERROR"),  # the launch refuses a global generator
    ],
)
def test_a_random_draw_of_a_kernel_is_found(draws: Any, klass: str) -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        main.launch("draw", draws)
        await main.record().synchronize("end")

    (finding,) = explore_subject(Subject(world_of(1), Scripted(script))).findings
    assert finding.klass == klass


def test_the_state_of_numpy_s_generator_is_all_of_it() -> None:
    """dpsim reads the state of numpy's usual generator as bytes, which is fast. For another generator it reads drawn
    numbers.
    """
    usual, state = np.random.mtrand.get_bit_generator(), np.random.get_state(legacy=False)["state"]
    assert generators()[1] == state["key"].tobytes() + np.int32(state["pos"]).tobytes()
    np.random.mtrand.set_bit_generator(np.random.PCG64(3))
    try:
        before = generators()
        assert before == generators()
        np.random.random()
        assert before != generators()
    finally:
        np.random.mtrand.set_bit_generator(usual)


def test_an_exploration_restores_the_patched_functions() -> None:
    """After an exploration, the patched functions and the trace function are as before."""
    before = random.Random.seed, random.Random.setstate, np.random.default_rng, sys.gettrace()
    found(FAULTY["random"])
    found(FAULTY["Random"])
    assert (random.Random.seed, random.Random.setstate, np.random.default_rng, sys.gettrace()) == before


def test_a_search_replaces_functions_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins are there from the first run of a search to the last one, and dpsim puts them there once."""
    seeds: list[Any] = []
    usual, whole = random.Random.seed, SimBackend.run_program

    def run(*given: Any) -> Any:
        seeds.append(random.Random.seed)
        return whole(*given)

    monkeypatch.setattr(SimBackend, "run_program", run)
    assert found(lambda: None) == []
    assert len(seeds) == 3  # the timed run, the first schedule, its repetition
    assert usual not in seeds
    assert len(set(seeds)) == 1


def test_a_draw_in_one_schedule_of_many_is_found() -> None:
    """A generator that a program has imported by name, in a run that dpsim repeats for no other reason."""

    async def script(rank: Rank) -> None:
        if rank.rank:
            rank.send(0, "box", rank.rank, f"post{rank.rank}")
        elif [await rank.mailbox("box").get(f"get{at}") for at in range(3)] == [2, 3, 1]:
            default_rng().random()

    (finding,) = explore_subject(Subject(world_of(4), Scripted(script))).findings
    assert finding.klass == "NONDETERMINISM:RANDOM"
