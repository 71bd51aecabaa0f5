"""Tests of swarms: each drawn world has one or two faults of some kinds, and a seed always gives the same worlds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dpsim.scenario import Scenario, ScenarioError
from dpsim.scenario.swarm import KINDS, MOST_FAULTS, STANDS, Drawn, Place, Swarm, swarm, swarm_scenarios
from tests.protocols import agreed, served

PLACES = [
    Place(who, site, ordinal, "main", site == "dp.agree", site != "plan", site == "look")
    for who in (0, 1, 2)
    for site in ("dp.agree", "look", "plan")
    for ordinal in range(3)
]


def base(**more: Any) -> Scenario:
    return agreed({"ranks": 3, "experts": 2}, **{"name": "x", **more})


def drawn(kinds: tuple[str, ...] = KINDS, worlds: int = 200, seed: int = 0, **more: Any) -> list[Drawn]:
    return list(swarm_scenarios(base(**more), PLACES, Swarm(worlds, kinds), seed))


def planted(one: Drawn) -> list[tuple[str, int | str]]:
    faults = [(fault.kind, fault.rank) for fault in one.scenario.faults]
    early = [("timeout", "any rank")] * one.scenario.limits.early_timeouts
    return faults + [("delay", delay.rank) for delay in one.scenario.delays] + early


def test_a_swarm_plants_one_or_two_faults_of_its_possible_kinds() -> None:
    numbers: Counter[int] = Counter()
    subsets: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    for one in drawn():
        what = planted(one)
        assert {kind for kind, _ in what} <= set(one.possible) <= set(KINDS)
        assert len({who for _, who in what}) == len(what), "no two faults lie on one rank"
        assert one.scenario.description == f"Possible here: {', '.join(one.possible)}."
        numbers[len(what)] += 1
        subsets[len(one.possible)] += 1
        seen.update(kind for kind, _ in what)
    assert set(numbers) == {1, MOST_FAULTS}
    assert set(subsets) == {1, 2, 3, 4, 5, 6}
    assert min(seen[kind] for kind in KINDS) > 20


def test_faults_lie_where_they_do_something() -> None:
    for one in drawn():
        for fault in one.scenario.faults:
            assert fault.at is not None
            assert fault.kind not in ("skip", "repeat") or fault.at.site == "dp.agree"
        assert all(delay.at is not None and delay.at.site != "plan" for delay in one.scenario.delays)


def test_a_swarm_has_at_most_its_number_of_deaths() -> None:
    asked = Swarm(200, ("die", "kill", "skip"))
    numbers = [
        {sum(fault.kind != "skip" for fault in one.scenario.faults) for one in swarm_scenarios(base(), PLACES, some)}
        for some in (asked, asked._replace(deaths=1))
    ]
    assert numbers == [{0, 1, 2}, {0, 1}]


def test_a_swarm_without_delays_draws_no_delay() -> None:
    asked = Swarm(50, ("delay", "die"), delays=())
    assert not any(one.scenario.delays for one in swarm_scenarios(base(), PLACES, asked))
    with pytest.raises(ScenarioError, match="has no op at which delay does anything"):
        list(swarm_scenarios(base(), PLACES, asked._replace(kinds=("delay",))))


def test_one_seed_gives_one_swarm() -> None:
    assert drawn(worlds=20) == drawn(worlds=20)
    assert drawn(worlds=20) == drawn(worlds=40)[:20], "a larger swarm begins with the worlds of the smaller one"
    assert drawn(worlds=20) != drawn(worlds=20, seed=1)


def test_a_swarm_keeps_the_other_sections_of_a_scenario() -> None:
    sections: dict[str, Any] = {
        "checks": {"switched_off": ["DEATH"]},
        "limits": {"progress": 7},
    }
    one = drawn(("delay",), 1, **sections)[0].scenario
    assert one.name == "x-swarm-0"
    assert one.protocol == base().protocol
    assert (one.limits.progress, one.checks.switched_off) == (7, ("DEATH",))


@pytest.mark.parametrize(
    ("text", "made"),
    [("100", Swarm(100, STANDS)), ("3:skip", Swarm(3, ("skip",))), ("3:die, delay,die", Swarm(3, ("die", "delay")))],
)
def test_the_option_swarm_is_read(text: str, made: Swarm) -> None:
    assert swarm(text) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("many", "expected a number of worlds from 1 to 100,000, got 'many'"),
        ("0", "got '0'"),
        ("1000000", "got '1000000'"),
        (":die", "got ''"),
        ("3:", "'' is no kind of fault"),
        (
            "3:raise",
            "'raise' is not for --swarm; plant it in the scenario (die, kill, delay, skip, repeat, timeout are drawn)",
        ),
        ("3:die,hang", "'hang' is not for --swarm; plant it in the scenario"),
        ("3:dye", "'dye' is no kind of fault; did you mean 'die'? (there are die, kill, delay, skip, repeat, timeout)"),
    ],
)
def test_a_wrong_option_swarm_is_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        swarm(text)
    assert said in str(raised.value)


def test_a_swarm_that_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ScenarioError, match="--swarm draws the faults and delays, and there are some; leave them out"):
        drawn(delays=[{"rank": 0, "by": "1ms"}])
    with pytest.raises(ScenarioError, match="x has no op at which skip or repeat does anything"):
        next(swarm_scenarios(base(), PLACES[3:6], Swarm(1, ("skip", "repeat"))))
    assert {one.possible for one in swarm_scenarios(base(), PLACES[3:6], Swarm(9, ("die", "skip")))} == {("die",)}


def test_a_start_can_be_late_and_nothing_else() -> None:
    start = [Place("engine.0", "", 0, "main", calls=False, can_be_late=True)]
    (one,) = swarm_scenarios(served(), start, Swarm(1, KINDS))
    assert one.possible == ("delay",)
    assert [(delay.rank, delay.at) for delay in one.scenario.delays] == [("engine.0", None)]
