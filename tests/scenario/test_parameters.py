"""Tests of parameters that a user's package adds to scenarios: their sections in a file, and what dpsim reads from
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import CommunicatorSpec
from dpsim.runner import run_scenario
from dpsim.scenario import ScenarioError, dump_scenario, kinds, parse_scenario
from dpsim.scenario.model import Scenario
from dpsim.scenario.parameters import Parameters


class Sizes(Parameters):
    """Parameters with the number of ranks only."""

    ranks: int = 2

    @property
    def size(self) -> int:
        return self.ranks

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        return (CommunicatorSpec("all", "all", "host", tuple(range(self.ranks))),)


class SizedScenario(Scenario, Sizes):
    """A scenario with a number of ranks."""


@register_protocol("sized", forms=("plain", "loud"))
class Sized(Program[Arguments]):
    """A program whose ranks call one barrier."""

    async def run(self, rank: Rank, prepared: Arguments) -> None:
        await rank.host("all").barrier(site="meet")
        rank.decide("form", prepared.form, "all")


@register_protocol("alone")
class Alone(Program[Arguments]):
    """A program whose group has one rank."""

    def groups(self, prepared: Arguments) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        return [("all", "host", [(0,)])]

    async def run(self, rank: Rank, prepared: Arguments) -> None:
        await rank.host("all").barrier(site="meet")


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes dpsim find the class of scenarios as if an entry point named it."""
    point = EntryPoint("default", f"{__name__}:SizedScenario", kinds.PARAMETERS)
    monkeypatch.setattr(kinds, "entry_points", lambda group, name: [point] if group == kinds.PARAMETERS else [])
    kinds.default_type.cache_clear()
    yield
    kinds.default_type.cache_clear()


TEXT = """name: three
protocol:
  name: sized
  form: loud
ranks: 3
faults:
- {kind: die, rank: 2, at: {site: meet, ordinal: 0}}
"""


@pytest.mark.usefixtures("sized")
def test_a_file_has_the_parameters_between_protocol_and_faults() -> None:
    scenario = parse_scenario(TEXT)
    assert list(type(scenario).model_fields)[:5] == ["name", "description", "protocol", "ranks", "faults"]
    assert dump_scenario(scenario) == TEXT


@pytest.mark.usefixtures("sized")
def test_the_framework_asks_them() -> None:
    result = run_scenario(parse_scenario(TEXT))
    assert (result.world.size, [one.name for one in result.world.communicators]) == (3, ["all"])
    assert [one.klass for one in result.findings] == ["HANG:COLLECTIVE:DEAD_RANK"]
    assert run_scenario(parse_scenario(TEXT.partition("faults")[0])).met


@pytest.mark.usefixtures("sized")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (TEXT.replace("ranks: 3", "ranks: 2"), "scenario:7:21: faults[0].rank: rank 2: the world has 2 ranks, 0 to 1"),
        (TEXT.replace("ranks: 3", "rank: 3"), "scenario:5:1: unknown key 'rank'; expected one of name, description"),
        (TEXT.replace("ranks: 3", "ranks: x"), "scenario:5:8: ranks: expected a whole number, got the text 'x'"),
        ("- a", "a list at the top; expected the keys of a scenario: name, protocol, ..."),
    ],
)
def test_errors_have_the_words_of_the_parameters(wrong: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(wrong)
    assert said in str(caught.value)


@pytest.mark.usefixtures("sized")
def test_a_token_brings_no_huge_world() -> None:
    assert parse_scenario(TEXT).beyond() == ""
    assert parse_scenario(TEXT.replace("ranks: 3", "ranks: 65")).beyond() == "65 ranks; expected at most 64"


def test_without_parameters_there_is_one_rank() -> None:
    scenario = Scenario.model_validate({"name": "one", "protocol": "alone"})
    assert (scenario.size, scenario.communicators, scenario.beyond()) == (1, (), "")
    assert scenario.arguments() == Arguments(form="default")
    assert run_scenario(scenario).verdict == "held"


def test_an_entry_point_that_cannot_be_loaded_gives_scenarios_without_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = EntryPoint("default", "no_such_package:Sized", kinds.PARAMETERS)
    monkeypatch.setattr(kinds, "entry_points", lambda group, name: [gone])
    assert kinds.default_type.__wrapped__() is Scenario
