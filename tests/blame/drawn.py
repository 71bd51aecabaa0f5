"""Drawn: a protocol with drawn parameters, as a program and the world in which it runs.

    def draw(random):                       # of a kind: tests/blame/kinds/ring.py
        size, steps = sized(random)

        async def run(rank):
            for rank.step in range(steps):
                await rank.host("all").barrier(site="meet")

        return drawn(size, run)

A *kind* is a module with a function `draw`. Its protocols have to be correct: each rank ends in every order of events,
and every delay is allowed. The campaign plants the mistakes. So a kind has these duties:

* It draws only from the `random` that it gets, so a seed means one protocol.
* Each call of the contract has a site, and each site is in one line.
* A run keeps its state in local variables of `run`, because the campaign runs one program several times.
* The program sets `rank.step` as the shipped protocols do: to the number of the step, or of the item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, World
from tests.programs import Script

ALL = "all"
"""The kind of the communicators of all ranks, one for hosts and one for devices."""


class Drawn(NamedTuple):
    """A program and its world. `text`: the drawn parameters."""

    world: World
    program: Program[Any]
    text: str = ""


Kind: TypeAlias = Callable[[Random], Drawn]


class Protocol(Program[Any]):
    """Every rank and service runs the script. It starts in step 0."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await self.script(rank)

    async def serve(self, rank: Rank, prepared: Any) -> None:
        await self.run(rank, prepared)


class Threaded(Protocol):
    """The same, and its ranks may start host threads."""

    threaded = True


def drawn(
    size: int,
    script: Script,
    groups: Sequence[CommunicatorSpec] = (),
    threaded: bool = False,
    services: Sequence[str] = (),
) -> Drawn:
    """Returns the protocol with the groups of all ranks (`ALL`) and these `groups`. Services run the script, too.

    `text` lists the local variables of the caller that the script uses.
    """
    cells = [cell.cell_contents for cell in script.__closure__ or ()]
    told = {"size": size} | dict(zip(script.__code__.co_freevars, cells, strict=True))
    text = ", ".join(f"{name} {value}" for name, value in told.items() if not callable(value))
    every = [group(ALL, range(size)), group(ALL, range(size), "device")]
    world = World(size, (*every, *groups), services=tuple(services))
    return Drawn(world, (Threaded if threaded else Protocol)(script), text)


def group(kind: str, ranks: Sequence[int], domain: Domain = "host") -> CommunicatorSpec:
    """Returns a communicator of these ranks, which its members find by its kind."""
    members = ",".join(map(str, ranks))
    return CommunicatorSpec(kind, f"{kind}[{members}]{'.host' * (domain == 'host')}", domain, tuple(ranks))


def sized(random: Random) -> tuple[int, int]:
    """Returns a number of ranks, 3 to 6, and a number of steps, 3 to 8."""
    return random.randint(3, 6), random.randint(3, 8)


def kinds_in(package: ModuleType) -> dict[str, Kind]:
    """Returns `draw` of each module of a package, by the name of the module."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    return {name: import_module(f"{package.__name__}.{name}").draw for name in names}
