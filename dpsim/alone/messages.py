"""What the parent and the server of lone ranks say to each other. All of it is pickled.

parent: AloneJob        server: for each rank a `Differs` or None
parent: [Module, ...]   server: what they hold, by name
                        server: NotAlone, for either
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dpsim.alone.past import Past
from dpsim.contract.ops import STEP, RawRecord
from dpsim.contract.world import World


class Module(NamedTuple):
    """A module that registers a program: its name and its file in the parent."""

    name: str
    file: str

    @property
    def known_as(self) -> str:
        """Its name in the server: a main module is imported under that of its file."""
        return Path(self.file).stem if self.name == "__main__" else self.name


class AloneJob(NamedTuple):
    """Run these ranks of a program again, each alone. `args`: pickled arguments of the program. `packages`: those of
    protocols, by which a place in the source differs from a library's.
    """

    world: World
    program: str
    args: bytes
    pasts: list[Past]
    modules: list[Module]
    path: list[str]
    environment: dict[str, str]
    packages: frozenset[str]


class Differs(NamedTuple):
    """The first record of a rank that differs: at that index of its thread, among others and alone."""

    rank: int
    at: int
    among: RawRecord | None
    alone: RawRecord | None

    @property
    def step(self) -> int:
        """The step in which it is seen."""
        step: int = min(raw[STEP] for raw in (self.among, self.alone) if raw is not None)
        return step


class NotAlone(NamedTuple):
    """Why there is no answer."""

    why: str
