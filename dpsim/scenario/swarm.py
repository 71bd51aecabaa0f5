"""Scenarios like a given one, in each of which other kinds of fault are possible: a swarm.

If all kinds were possible in every run, they would hide one another. A run in which a rank dies early shows nothing of
a late message. So each world draws which kinds are possible in it, and then one or two faults of these kinds. Faults
stop, and the run has to end (`limits.progress` says how soon).

    for one in swarm_scenarios(base, places, Swarm(100, ("die", "kill", "delay")), seed=0):
        one.possible                                # ("die", "delay")
        one.scenario.faults, one.scenario.delays    # one or two of these
        one.scenario.description                    # "Possible here: die, delay."

Faults lie at ops that a run without faults reaches (`Place`), each of another rank or service. All of it is a function
of the seed. Prior art: Groce, Zhang, Eide, Chen, Regehr, "Swarm testing", 2012; TigerBeetle's simulator.
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
"""All that can be drawn; the first three are drawn unless the user names others. In a world of the kind timeout one
time-out of a run passes early, whatever it waits for."""

NOT_DRAWN = ("raise", "hang", "alter")
"""Kinds of fault that a scenario plants and no swarm draws."""

STANDS = KINDS[:3]
MOST_WORLDS = 100_000
MOST_FAULTS = 2
DELAYS = ("1us", "1ms", "1s", "1000s")


class Place(NamedTuple):
    """The address of an op of a rank or, by its name, of a service; without a site, where it starts. `calls`: it is a
    collective. `times_out`: it waits with a time-out.
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
        """As a scenario has it."""
        thread = {} if self.thread == MAIN else {"thread": self.thread}
        return {"at": {"site": self.site, "ordinal": self.ordinal, **thread}} if self.site else {}


class Swarm(NamedTuple):
    """How many worlds, and the kinds of fault that are drawn from."""

    worlds: int
    kinds: tuple[str, ...] = STANDS

    def summary(self) -> str:
        """In words."""
        return f"{self.worlds:,} drawn, with at most {MOST_FAULTS} faults of {', '.join(self.kinds)}"


class Drawn(NamedTuple):
    """A world of a swarm, and the kinds of fault that were possible in it."""

    scenario: Scenario
    possible: tuple[str, ...]


def swarm(text: str) -> Swarm:
    """From "100" or "100:die,delay". Raises ScenarioError.

    >>> swarm("100:die,delay")
    Swarm(worlds=100, kinds=('die', 'delay'))
    """
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
    """One after another. A kind for which there is no op is not possible. Raises ScenarioError if no kind is possible,
    or if `base` itself has faults or delays.
    """
    if base.faults or base.delays:
        raise ScenarioError(f"{base.name}: --swarm draws the faults and delays, and there are some; leave them out")
    kinds = [kind for kind in drawn.kinds if _where(places, kind)]
    if not kinds:
        raise ScenarioError(f"--swarm: {base.name} has no op at which {' or '.join(drawn.kinds)} does anything")
    for number in range(drawn.worlds):
        yield _one(base, places, kinds, random.Random(f"{seed}/{number}"), number)


def _one(base: Scenario, places: Sequence[Place], kinds: Sequence[str], rng: random.Random, number: int) -> Drawn:
    possible = [kind for kind in kinds if rng.random() < 0.5] or [rng.choice(kinds)]
    planted: dict[str, list[dict[str, Any]]] = {"faults": [], "delays": []}
    limits = base.limits
    free = list(places)
    for _ in range(rng.randint(1, MOST_FAULTS)):
        kind = rng.choice(possible)
        where = _where(free, kind)
        if not where:
            continue
        place = rng.choice(where)
        free = [one for one in free if one.who != place.who]
        if kind == "timeout":  # which one is left to exploring
            limits = limits.model_copy(update={"early_timeouts": 1})
        elif kind == "delay":
            planted["delays"].append({"rank": place.who, "by": rng.choice(DELAYS), **place.at})
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
    """The ops at which a fault of that kind does anything."""
    if kind == "delay":
        return [place for place in places if place.can_be_late]
    if kind == "timeout":
        return [place for place in places if place.times_out]
    return [place for place in places if (place.calls if kind in ("skip", "repeat") else place.site)]
