"""Tests the call chain that dpsim stores with the source line of an op: at most three calls of the program, the
innermost first.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

import pytest

from dpsim.backend.journal import call_site
from dpsim.backend.journal.call_site import watched
from dpsim.contract.chain import Chain
from dpsim.contract.interface import Rank
from dpsim.contract.ops import RAISED_MESSAGE, WHERE
from tests.programs import run, world_of

HERE = "tests/backend/test_call_chains.py"
WORLD = world_of(2, ["dp"])


def lines(*functions: str) -> tuple[str, ...]:
    """Returns the source lines of calls: the first line of the body of each function."""
    return tuple(f"{HERE}:{globals()[name].__code__.co_firstlineno + 1}" for name in functions)


async def meets(rank: Rank) -> None:
    await rank.host("dp").barrier(site="meet")


async def steps(rank: Rank) -> None:
    await meets(rank)


async def warms(rank: Rank) -> None:
    await meets(rank)


async def loops(rank: Rank) -> None:
    await steps(rank)


async def outer(rank: Rank) -> None:
    await loops(rank)


async def both(rank: Rank) -> None:
    await warms(rank)
    await steps(rank)


async def raises(rank: Rank) -> None:
    raise ValueError(rank.rank)


async def calls_what_raises(rank: Rank) -> None:
    await raises(rank)


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clears the table of call chains, because other tests in this process reached the same lines through
    other calls.
    """
    monkeypatch.setattr(call_site, "chains", {})
    known = call_site._places.pop("meet", {})
    yield
    call_site._places["meet"] = known


def test_three_frames_of_the_program() -> None:
    run(WORLD, outer)
    (meet,) = lines("meets")
    functions = "meets", "steps", "loops"
    assert call_site.chains[meet] == tuple(zip(functions, lines(*functions), strict=True))


def test_a_call_chain_ends_where_the_backend_begins() -> None:
    run(WORLD, meets)
    (meet,) = lines("meets")
    assert [function for function, _ in call_site.chains[meet]] == ["meets", "run"], "the chain ends at Scripted.run"


def test_a_comprehension_is_its_function() -> None:
    async def sends(rank: Rank) -> None:
        assert [rank.send(0, "box", number, "meet") for number in range(2)]

    done = run(world_of(1), sends)
    place = done.journals[0][0][WHERE]
    assert [function for function, _ in call_site.chains[place]] == ["sends", "run"]


def test_an_exception_has_the_calls_of_its_traceback() -> None:
    done = run(world_of(1), calls_what_raises)
    last = done.journals[0][-1]
    assert last[RAISED_MESSAGE] == "0"
    assert [function for function, _ in call_site.chains[last[WHERE]]][:2] == ["raises", "calls_what_raises"]


def test_dpsim_reads_the_frames_of_a_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = call_site.chain_of

    def counted(frame: FrameType | None, line: int) -> Chain:
        looks.append(line)
        return real(frame, line)

    monkeypatch.setattr(call_site, "chain_of", counted)
    for _ in range(3):
        run(WORLD, outer)
    assert len(looks) == 1


def test_a_line_with_two_callers() -> None:
    """If two functions call the same line, the table has only the chain of the first call. `watched` records the chain
    of each rank and step.
    """
    run(WORLD, both)
    (meet,) = lines("meets")
    assert [function for function, _ in call_site.chains[meet]][:2] == ["meets", "warms"]
    with watched("meet") as seen:
        run(WORLD, steps)
    assert {rank: chain[1][0] for (rank, step, where), chain in seen.items() if (step, where) == (0, meet)} == {
        0: "steps",
        1: "steps",
    }
    with watched("other") as seen:
        run(WORLD, steps)
    assert not seen
    assert [function for function, _ in call_site.chains[meet]][:2] == ["meets", "warms"], (
        "the chain keeps its first calls"
    )
