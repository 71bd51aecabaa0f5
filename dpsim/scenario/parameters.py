"""What the parameters of a program add to a scenario, and what the framework asks of them.

The framework knows no parameter: neither what they are called nor what they mean. A package adds them as fields of a
class derived from `Parameters`, answers the questions below, and joins that class with `Scenario`:

    class Sizes(Parameters):
        ranks: int = 2

        @property
        def size(self) -> int:
            return self.ranks

    class SizedScenario(Scenario, Sizes): ...   # in the order of a file: name, description, protocol, ranks, faults

The entry point `default` of the group `dpsim.parameters` names the joined class, here `SizedScenario`
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
"""Of a world that a token may bring: far more than can be explored."""


class Scale(Protocol):
    """How far worlds go, in words and as plain data."""

    def summary(self) -> str: ...

    def _asdict(self) -> dict[str, Any]: ...


class Worlds(Protocol):
    """Worlds to explore in place of one: how many there are, and each of them, smaller ones first."""

    @property
    def sizes(self) -> Scale: ...

    @property
    def total(self) -> int: ...

    def worlds(self) -> Iterator[Any]:
        """Scenarios."""


class Parameters(StrictModel):
    """What a scenario says first; then what its parameters mean, which are the fields of a derived class."""

    sections: ClassVar[tuple[str, ...]] = ()
    """Parameters that are mappings: an unknown key may belong into one of them."""
    of_ranks: ClassVar[str] = "world"
    """What has the ranks, in the words of an error."""

    name: Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_./-]+$")]
    """For reports. Letters, digits, and any of . _ - /"""
    description: Annotated[str, Field(strict=True, max_length=10_000)] = ""
    """What the scenario shows, for readers and for `dpsim list`."""
    protocol: Annotated[ProtocolChoice, BeforeValidator(name_alone)]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A parameter: its name and type are those of the derived class."""

    @property
    def size(self) -> int:
        """How many ranks the world has."""
        return 1

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        """The groups of ranks, for a program that makes none itself."""
        return ()

    def arguments(self, base: Path | None = None) -> Any:
        """What the program is handed: `Arguments`, or those of a derived class. `base`: the folder of the scenario's
        files; None: the working folder.

        Raises ScenarioError for a file that is not there or cannot be read.
        """
        return Arguments(**self.protocol.arguments)

    @property
    def file(self) -> str | None:
        """The file that the parameters name, if they name one."""
        return None

    @property
    def captures_graphs(self) -> bool:
        """Whether the parameters ask for graphs, so that a report says when none was captured."""
        return False

    def problems(self) -> Iterator[Problem]:
        """Rules that span several parameters and are broken."""
        yield from ()

    def ranks_named(self) -> Iterator[tuple[KeyPath, int]]:
        """The ranks that parameters name, with the place of each."""
        yield from ()

    @property
    def small_sizes(self) -> str:
        """The sizes of small worlds (`all_up_to`) that a nightly campaign explores; empty if it explores none."""
        return ""

    def all_up_to(self, sizes: str) -> Worlds:
        """Every world like this one with parameters up to sizes, such as "interval=3,slots=2". Raises ScenarioError for
        sizes that are none, and for a program without parameters.
        """
        raise ScenarioError(f"--all-up-to: {self.protocol.name} has no parameters; explore it without")

    def one_more(self) -> Self | None:
        """The same world with one rank more, which does what the last one does (`Program.one_more`); None: there is no
        such world.
        """
        return None

    def differing(self) -> dict[str, tuple[int, ...]]:
        """Each setting of single ranks that the others do not have, in words, and these ranks."""
        return {}

    def own_settings(self) -> list[str]:
        """The settings in which ranks differ, as lines of a report: what a mismatch comes from, most of the time."""
        return []

    def in_folder(self, base: Path) -> Self:
        """The same scenario outside of the folder of its file."""
        return self

    def beyond(self) -> str:
        """Why a token may not bring this scenario: it makes too large a world, or opens a file. Empty if it may."""
        return above({"ranks": (self.size, MOST_RANKS)})


def named(kinds: Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]) -> tuple[CommunicatorSpec, ...]:
    """The communicators of some kinds with their member lists: called by the kind, numbered where it has several."""
    return tuple(
        CommunicatorSpec(kind, kind if len(groups) == 1 else f"{kind}.{index}", domain, ranks)
        for kind, domain, groups in kinds
        for index, ranks in enumerate(groups)
    )


def above(counts: Mapping[str, tuple[int, int]]) -> str:
    """The first count that is above its limit, in words.

    >>> above({"ranks": (64, 64), "steps": (2_000, 1_000)})
    '2,000 steps; expected at most 1,000'
    """
    return next((f"{n:,} {what}; expected at most {most:,}" for what, (n, most) in counts.items() if n > most), "")
