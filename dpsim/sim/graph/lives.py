"""The ranks that may die in a world, and the ops that may be lost with them, as far as a search knows them.

A rank that may be killed dies with its host and its device. If a fault lets a rank die, or one of its kernels raises,
only its device stops. The life of such a rank is a resource: what ends it writes it, and what it takes away reads it.

    Lives((Kill(0),), dying=[1]).fragile        # ranks 0 and 1
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpsim.contract.schedule import Footprint
from dpsim.contract.world import Kill

LEFT = 1 << 40
"""The life of ops whose member has aborted its communicator, so that no actor waits for them. It is no actor's number.
"""


class Lives:
    """`kills`: of ranks that may be killed. `dying`: ranks that a fault lets die. `failing`: ranks with a kernel that
    raises in some run: where the failure falls is a choice. `aborting`: ranks may abort communicators.
    """

    def __init__(
        self,
        kills: Sequence[Kill] = (),
        dying: Collection[int] = (),
        failing: Collection[int] = (),
        aborting: bool = False,
    ) -> None:
        self.dead: dict[int, bool] = {LEFT: True} if aborting else {}
        self.aborting = aborting
        self.failing = frozenset(failing)
        self.mortal = frozenset(kill.rank for kill in kills)
        self.fragile = self.mortal.union(dying, failing)
        """Ranks whose devices may stop before their work is done."""
        self.lossy = frozenset(kill.rank for kill in kills if kill.loses_mail)
        """Ranks whose mail may be lost with them."""
        self.partial = tuple(sorted({kill.rank for kill in kills if kill.partial}))
        """Ranks that may take any of their peers in a collective with them."""

    def kill(self, life: int) -> None:
        """What dies with it and has not happened yet does not happen any more. Joint ops that need it stay unfired."""
        self.dead[life] = True

    def end_of(self, rank: int, sure: bool = True) -> Footprint:
        """The footprint of what ends a rank, or stops its device.

        Two of them that take the same from others have no order by that, as it is gone after either. But a kill that
        comes second may not come at all (`sure` is False), so it conflicts with all others.
        """
        alone = not self.mortal or len(self.fragile) == 1
        return ((("life", rank), "w"),) if alone else ((("life", rank), "w"), ("deaths", "r" if sure else "w"))
