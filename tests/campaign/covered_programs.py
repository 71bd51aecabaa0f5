"""A protocol with everything that the coverage report counts, and variants that reach less of it.

It declares probes (labels that a rank reports when it reaches a point), modes (decisions), rows of a table, and pieces
(replaceable parts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program, Unsuitable
from dpsim.contract.registry import register_protocol, register_variant


class Loads(BaseModel):
    """The number of ranks, and the load of each."""

    ranks: int = Field(default=2, ge=2, le=4)
    load: int = Field(default=1, ge=1, le=3)


@register_protocol("t_covered", forms=("plain", "newer"))
class Covered(Program[Arguments[Loads]]):
    """Rank 0 polls its mailbox, and all ranks decide a mode by their load."""

    Params = Loads
    probes = ("early", "late")
    modes: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "small": ("mode", ("small", False)),
        "large": ("mode", ("large", False)),
    }
    rows: ClassVar[Mapping[str, tuple[str, Any]]] = {"one": ("load", 1), "two": ("load", 2)}
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = {"kind": ("short", "long")}

    @staticmethod
    def ranks(params: Any) -> int:
        return int(params.ranks)

    def forms_of_pieces(self, args: Any) -> Mapping[str, str]:
        return {"kind": "short", **args.pieces}

    async def run(self, rank: Rank, prepared: Arguments[Loads]) -> None:
        rank.step, load = 0, prepared.params.load
        rank.decide("mode", ("large" if load > 1 else "small", False), "world")
        rank.decide("load", load, "world")
        if rank.rank:
            rank.send(0, "box", rank.rank, "wake")
            return
        first = await self.look(rank)
        rank.probe("late" if first is None else "early")
        if first is None:
            self.after_late()

    async def look(self, rank: Rank) -> Any:
        """Polls the mailbox. Returns a message, or None if the mailbox is empty."""
        return await rank.mailbox("box").poll("first")

    def after_late(self) -> None:
        """What rank 0 does when its poll found nothing."""


@register_variant("T-COVERED-WAITS", protocol="t_covered", expected=None, reason="a world with fewer schedules")
class Waits(Covered):
    """Rank 0 waits for the message, so no message is late."""

    async def look(self, rank: Rank) -> Any:
        return await rank.mailbox("box").get("first")


@register_variant("T-COVERED-BREAKS", protocol="t_covered", expected="CRASH:ASSERTIONERROR")
class Breaks(Covered):
    """Rank 0 treats a late message as a lost one, and raises."""

    def after_late(self) -> None:
        raise AssertionError("nothing came")


@register_protocol("t_unfit")
class Unfit(Program[Arguments[Loads]]):
    """A protocol without any world that dpsim can run."""

    Params = Loads

    @staticmethod
    def ranks(params: Any) -> int:
        return int(params.ranks)

    def prepare(self, args: Any) -> Any:
        raise Unsuitable("unfit for any world")

    async def run(self, rank: Rank, prepared: Arguments[Loads]) -> None:
        """Never runs."""
