"""The base class of the sections that a program's package adds to scenarios, and the questions that dpsim asks of them.

A package defines parameters as fields of a class derived from `Parameters`, and overrides the properties and methods
below. Then it joins that class with `Scenario`:

    class Sizes(Parameters):
        ranks: int = 2

        @property
        def size(self) -> int:
            return self.ranks

    class SizedScenario(Scenario, Sizes): ...   # in the order of a file: name, description, protocol, ranks, faults

The entry point `default` in the group `dpsim.parameters` names the joined class, here `SizedScenario`
(`dpsim.scenario.kinds`). A program with a pydantic model of its parameters (`Program.Params`) needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self

from pydantic import BeforeValidator, Field

from dpsim.contract.ops import Domain
from dpsim.contract.program import Arguments
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario.base import KeyPath, Problem, StrictModel
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.protocol import ProtocolChoice, name_alone

MOST_RANKS = 64
"""The largest number of ranks in the world of a replay token. It is far more than can be explored."""


class Scale(Protocol):
    """The sizes of a set of worlds, in words and as plain data."""

    def summary(self) -> str: ...

    def _asdict(self) -> dict[str, Any]: ...


class Worlds(Protocol):
    """A set of worlds to explore in place of one: its size, and each world, smaller ones first."""

    @property
    def sizes(self) -> Scale: ...

    @property
    def total(self) -> int: ...

    @property
    def not_varied(self) -> Sequence[str]:
        """The fields that have one value in all worlds, and that `sizes` does not name."""

    @property
    def outside(self) -> str:
        """What the set lacks of the scenario itself, in words, or "" if one of the worlds is the scenario."""

    def worlds(self) -> Iterator[Any]:
        """Yields the scenarios."""


class Parameters(StrictModel):
    """The first fields of a scenario. A derived class adds the parameters."""

    sections: ClassVar[tuple[str, ...]] = ()
    """The parameters that are mappings. A message for an unknown key searches these for the section where the key
    belongs.
    """
    of_ranks: ClassVar[str] = "world"
    """A word for what has the ranks, for messages."""

    name: Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_./-]+$")]
    """The name for reports: letters, digits, and any of . _ - /"""
    description: Annotated[str, Field(strict=True, max_length=10_000)] = ""
    """What the scenario shows, for readers and for `dpsim list`."""
    protocol: Annotated[ProtocolChoice, BeforeValidator(name_alone)]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Returns a parameter. This tells type checkers that a derived class has more fields."""

    @property
    def size(self) -> int:
        """The number of ranks of the world."""
        return 1

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        """The communicators, for a program that does not define any itself."""
        return ()

    def arguments(self, base: Path | None = None) -> Any:
        """Returns the arguments of the program: `Arguments`, or an object of a derived class.

        `base`: the folder of the scenario's files, or None for the working folder. Raises ScenarioError for a file that
        does not exist or cannot be read.
        """
        return Arguments(**self.protocol.arguments)

    @property
    def file(self) -> str | None:
        """The file that the parameters name, or None."""
        return None

    @property
    def captures_graphs(self) -> bool:
        """Whether the parameters request CUDA graphs. Then a report also says that none was captured."""
        return False

    def problems(self) -> Iterator[Problem]:
        """Yields a problem for each broken rule that spans several parameters."""
        yield from ()

    def ranks_named(self) -> Iterator[tuple[KeyPath, int]]:
        """Yields the ranks that parameters name, each with its path."""
        yield from ()

    @property
    def small_sizes(self) -> str:
        """The sizes of the small worlds that a nightly campaign explores (see `all_up_to`), or "" for none."""
        return ""

    def all_up_to(self, sizes: str) -> Worlds:
        """Returns every world like this one with parameters up to `sizes`, such as "interval=3,slots=2".

        Raises ScenarioError for invalid sizes, and for a program without parameters.
        """
        raise ScenarioError(f"--all-up-to: {self.protocol.name} has no parameters; explore it without")

    def one_more(self) -> Self | None:
        """Returns the same world with one more rank, which does what the last rank does (`Program.one_more`), or
        None.
        """
        return None

    def differing(self) -> dict[str, tuple[int, ...]]:
        """Returns the settings that only some ranks have, in words, each with these ranks."""
        return {}

    def own_settings(self) -> list[str]:
        """Returns lines for a report on the settings in which ranks differ, because they often cause a mismatch."""
        return []

    def in_folder(self, base: Path) -> Self:
        """Returns the same scenario with paths that are valid outside of the folder of its file."""
        return self

    def beyond(self) -> str:
        """Returns why a replay token may not contain this scenario, or "". The reason is too large a world, or a
        file.
        """
        return above({"ranks": (self.size, MOST_RANKS)})


def named(kinds: Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]) -> tuple[CommunicatorSpec, ...]:
    """The communicators of `kinds`: kind, domain and member lists.

    Each has the name of its kind; with several, a number follows: dp.0, dp.1.
    """
    return tuple(
        CommunicatorSpec(kind, kind if len(groups) == 1 else f"{kind}.{index}", domain, ranks)
        for kind, domain, groups in kinds
        for index, ranks in enumerate(groups)
    )


def above(counts: Mapping[str, tuple[int, int]]) -> str:
    """The first count above its limit, in words, or "". `counts`: by noun, the count and its limit.

    >>> above({"ranks": (64, 64), "steps": (2_000, 1_000)})
    '2,000 steps; expected at most 1,000'
    """
    return next((f"{n:,} {what}; expected at most {most:,}" for what, (n, most) in counts.items() if n > most), "")
