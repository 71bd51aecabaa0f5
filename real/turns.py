"""In which order the host threads of a rank call its flags, where a run is made at the gates of another one.

A call on a flag comes after the call that came before it there (`World.gates`). If that set or cleared a flag, its
thread has also gone on to its next call, since Python between two calls is one step:

    u0     set ready.come, take a ticket in Python, wait ...
    u1                                             set ready.come, take a ticket ...

A thread stands at its turn within the lock of all calls, and gives that back while it stands.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from dpsim.contract.world import World
from real.issuing import ISSUING
from real.waiting import GLANCE_SECONDS, Patience

Place: TypeAlias = tuple[str, str, int]
"""An op of the rank: thread, site, ordinal."""


class OrderOfFlags:
    """Of one rank. `after`: of a call on a flag the one before it."""

    def __init__(self, after: Mapping[Place, Place], patience: Patience) -> None:
        self._after, self._patience = after, patience
        self._changed = threading.Condition(ISSUING)
        self._begun: Counter[int] = Counter()
        self._issued: dict[Place, tuple[int, int]] = {}

    def begin(self) -> None:
        """The calling thread begins its next call. Called with `ISSUING`, as all of this is."""
        self._begun[threading.get_ident()] += 1
        self._changed.notify_all()

    def come(self, place: Place, what: str) -> None:
        """The same for a call on a flag, which stands here until it has its turn. `what`: set, clear, wait, query."""
        self.begin()
        before = self._after.get(place)
        while before is not None and not self._over(before):
            self._changed.wait(GLANCE_SECONDS)
            self._patience.check()
        thread = threading.get_ident()
        self._issued[place] = thread, self._begun[thread] if what in ("set", "clear") else -1
        self._changed.notify_all()

    def _over(self, place: Place) -> bool:
        thread, begun = self._issued.get(place, (0, -1))
        return place in self._issued and (thread == threading.get_ident() or self._begun[thread] > begun)


def turns_of(world: World, rank: int, patience: Patience) -> OrderOfFlags | None:
    """None where the world has no gates of this rank."""
    after = {gate.at[1:]: gate.message[1:] for gate in world.gates if gate.at[0] == rank and gate.message is not None}
    return OrderOfFlags(after, patience) if after else None
