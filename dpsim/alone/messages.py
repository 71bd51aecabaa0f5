"""The messages between dpsim's process (the parent) and the server of lone ranks, pickled.

parent sends          server answers
AloneJob              for each past a `Differs` or None
[Module, ...]         the contents of these modules, by name
either of the two     NotAlone, if it has no answer
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
        """The module's name in the server. The main module has the name of its file there."""
        return Path(self.file).stem if self.name == "__main__" else self.name


class AloneJob(NamedTuple):
    """The pasts of ranks that the server has to run, each alone. `program`: its registered name. `args`: the pickled
    arguments of the program. `path`, `environment`: `sys.path` and the environment variables of the parent.
    `packages`: the packages that register programs; a report skips frames of all other libraries.
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
    """The first record in which a rank alone differs from the first run. `at`: its index in the journal of its thread.
    `among`: the record of the first run, among all ranks; None if there is none. `alone`: the record of the rank alone;
    None if it wrote none.
    """

    rank: int
    at: int
    among: RawRecord | None
    alone: RawRecord | None

    @property
    def step(self) -> int:
        """The step of the two records, the smaller one if they differ."""
        step: int = min(raw[STEP] for raw in (self.among, self.alone) if raw is not None)
        return step


class NotAlone(NamedTuple):
    """There is no answer. `why`: the reason in words."""

    why: str
