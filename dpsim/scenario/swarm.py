"""Draws a swarm: scenarios like a given one, where each world draws the kinds of faults that are possible in it.

If every kind were possible in every run, the kinds would hide each other. So each world first draws a set of kinds, and
then one or two faults of these kinds. The faults stop, and then the run must end (`limits.progress` bounds how many ops
it may need).

    for one in swarm_scenarios(base, places, Swarm(100, ("die", "kill", "delay")), seed=0):
        one.possible                                # ("die", "delay")
        one.scenario.faults, one.scenario.delays    # one or two of these
        one.scenario.description                    # "Possible here: die, delay."

A swarm plants each fault at an op that a run without faults reaches (`Place`), and two faults at different ranks or
services. A seed always gives the same worlds. Prior art: Groce, Zhang, Eide, Chen, Regehr, "Swarm testing", 2012;
TigerBeetle's simulator.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dpsim.contract.ops import MAIN
from dpsim.contract.words import did_you_mean
from dpsim.scenario.edit import scenario_from
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.model import Scenario

KINDS = ("die", "kill", "delay", "skip", "repeat", "timeout")
"""All kinds that a swarm can draw. Without the user's choice it draws from the first three. In a world of the kind
timeout, one time-out of a run passes early, whatever it waits for.
"""

NOT_DRAWN = ("raise", "hang", "alter")
"""Kinds of faults that a scenario can plant, but no swarm draws."""

DEATHS = KINDS[:2]
STANDS = KINDS[:3]
MOST_WORLDS = 100_000
MOST_FAULTS = 2
DELAYS = ("1us", "1ms", "1s", "1000s")


class Place(NamedTuple):
    """An op of a rank or service; without a site, the start of the rank. `calls`: it is a collective.

    `times_out`: it waits with a time-out. `can_be_late`: a delay there has an effect.
    """

    who: int | str
    site: str
    ordinal: int
    thread: str
    calls: bool
    can_be_late: bool
    times_out: bool = False

    @property
    def at(self) -> dict[str, Any]:
        """The key `at` of a fault or delay at this op."""
        thread = {} if self.thread == MAIN else {"thread": self.thread}
        return {"at": {"site": self.site, "ordinal": self.ordinal, **thread}} if self.site else {}


class Swarm(NamedTuple):
    """The number of worlds, the kinds of faults from which they draw, the most deaths in a world, and the delays."""

    worlds: int
    kinds: tuple[str, ...] = STANDS
    deaths: int = MOST_FAULTS
    delays: tuple[str, ...] = DELAYS

    def asked(self) -> dict[str, Any]:
        """Returns what the option `--swarm` says. Only a night asks for fewer deaths, or for shorter delays."""
        return {"worlds": self.worlds, "kinds": self.kinds}

    def summary(self) -> str:
        """Returns the swarm in words."""
        return f"{self.worlds:,} drawn, with at most {MOST_FAULTS} faults of {', '.join(self.kinds)}"


class Drawn(NamedTuple):
    """A world of a swarm, and the kinds of faults that were possible in it."""

    scenario: Scenario
    possible: tuple[str, ...]


def swarm(text: str) -> Swarm:
    """Parses "100" or "100:die,delay". Raises ScenarioError."""
    number, colon, words = text.partition(":")
    if not number.isdecimal() or not 1 <= int(number) <= MOST_WORLDS:
        raise ScenarioError(f"--swarm: expected a number of worlds from 1 to {MOST_WORLDS:,}, got {number!r}")
    kinds = tuple(word.strip() for word in words.split(",")) if colon else STANDS
    for kind in kinds:
        if kind in NOT_DRAWN:
            raise ScenarioError(
                f"--swarm: {kind!r} is not for --swarm; plant it in the scenario ({', '.join(KINDS)} are drawn)"
            )
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS)
            raise ScenarioError(f"--swarm: {kind!r} is no kind of fault{hint} (there are {', '.join(KINDS)})")
    return Swarm(int(number), tuple(dict.fromkeys(kinds)))


def swarm_scenarios(base: Scenario, places: Sequence[Place], drawn: Swarm, seed: int = 0) -> Iterator[Drawn]:
    """The worlds of a swarm. `places`: the ops of a run without faults.

    ScenarioError: no op for any kind, or `base` itself has faults or delays.
    """
    if base.faults or base.delays:
        raise ScenarioError(f"{base.name}: --swarm draws the faults and delays, and there are some; leave them out")
    kinds = [kind for kind in drawn.kinds if _where(places, kind) and (drawn.delays or kind != "delay")]
    if not kinds:
        raise ScenarioError(f"--swarm: {base.name} has no op at which {' or '.join(drawn.kinds)} does anything")
    for number in range(drawn.worlds):
        yield _one(base, places, drawn._replace(kinds=tuple(kinds)), random.Random(f"{seed}/{number}"), number)


def _one(base: Scenario, places: Sequence[Place], drawn: Swarm, rng: random.Random, number: int) -> Drawn:
    possible = [kind for kind in drawn.kinds if rng.random() < 0.5] or [rng.choice(drawn.kinds)]
    planted: dict[str, list[dict[str, Any]]] = {"faults": [], "delays": []}
    limits, deaths = base.limits, 0
    free = list(places)
    for _ in range(rng.randint(1, MOST_FAULTS)):
        kind = rng.choice(possible)
        where = _where(free, kind)
        if not where or (kind in DEATHS and deaths == drawn.deaths):
            continue
        deaths += kind in DEATHS
        place = rng.choice(where)
        free = [one for one in free if one.who != place.who]
        if kind == "timeout":  # the explorer tries each time-out
            limits = limits.model_copy(update={"early_timeouts": 1})
        elif kind == "delay":
            planted["delays"].append({"rank": place.who, "by": rng.choice(drawn.delays), **place.at})
        else:
            planted["faults"].append({"kind": kind, "rank": place.who, **place.at})
    made = scenario_from(
        {
            **dict(base),
            **planted,
            "limits": limits,
            "name": f"{base.name[:88]}-swarm-{number}",
            "description": f"Possible here: {', '.join(possible)}.",
            "expect": base.expect.of_small_worlds(),
        }
    )
    return Drawn(made, tuple(possible))


def _where(places: Sequence[Place], kind: str) -> list[Place]:
    if kind == "delay":
        return [place for place in places if place.can_be_late]
    if kind == "timeout":
        return [place for place in places if place.times_out]
    return [place for place in places if (place.calls if kind in ("skip", "repeat") else place.site)]
