"""The ranks that may die in a world, and the ops that are lost with them.

A kill ends a rank's host and device. If a fault lets a rank die, or one of its kernels raises, only its device stops.
For a search, the life of such a rank is a resource. The op that ends the life writes it, and ops that need the rank
alive read it. So they conflict, and the search tries both orders.

    Lives((Kill(0),), dying=[1]).fragile        # ranks 0 and 1
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpsim.contract.schedule import Footprint
from dpsim.contract.world import Kill

LEFT = 1 << 40
"""The life of ops whose member has aborted its communicator: they never fire. It is no rank's number."""


class Lives:
    """* `kills`: of the ranks that may be killed. * `dying`: the ranks that a fault lets die. * `failing`: the ranks
    with a kernel that raised in some run. For these, the strategy decides when the device stops. * `aborting`: whether
    ranks may abort communicators.
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
        """Ranks whose undelivered messages may be lost with them."""
        self.partial = tuple(sorted({kill.rank for kill in kills if kill.partial}))
        """Ranks whose death may end the part of any peer in a collective."""

    def kill(self, life: int) -> None:
        """The ops of that life that have not fired never fire. Joint ops that need the rank stay unfired."""
        self.dead[life] = True

    def end_of(self, rank: int, sure: bool = True) -> Footprint:
        """Returns the footprint of an op that ends a rank's life, or stops its device.

        Two deaths have no order between them: what they take from other ranks is lost after either. But a kill may not
        happen at all (`sure` is False), so it conflicts with all other deaths.
        """
        alone = not self.mortal or len(self.fragile) == 1
        return ((("life", rank), "w"),) if alone else ((("life", rank), "w"), ("deaths", "r" if sure else "w"))
