"""Connects the clocks of ranks: who waits for a rank learns its time, as on machines whose clocks are in step.

    times = RankTimes(0, shared)            # `shared`: one dictionary for all ranks of a run
    times.told(300_000_000)                 # the process of rank 0 says that its clock shows 0.3 s
    times.starts(1, "world", call)          # and starts a barrier
    times.ends(1)                           # it has waited for it: its clock shows what the latest member told
    times.unsaid()                          # that time, if the process does not know it yet; else None

A call depends on the members that have started it when a rank sees its end, and a receive on the sender. A value of a
store depends on the ranks that wrote it. So a clock never shows less than the time of something that its rank knows of.
The clocks of ranks that do not meet are not connected.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from dpsim.torch.lowered import TorchCall

Key: TypeAlias = tuple[Any, ...]
"""What ranks meet at: a call on a group by its number, messages from one rank to another, a key of a store."""


class RankTimes:
    """The clock of a rank's thread as dpsim knows it, in ns since the start. The threads share the rank's calls."""

    def __init__(self, rank: int, shared: dict[Key, int]) -> None:
        self._rank, self._shared = rank, shared
        self._now = self._known = 0
        self._made: Counter[str] = Counter()
        self._keys: dict[int, Key] = {}

    def beside(self) -> RankTimes:
        """Returns the clock of another thread of the rank."""
        other = RankTimes(self._rank, self._shared)
        other._made, other._keys = self._made, self._keys
        return other

    def told(self, ns: int) -> None:
        """The process says what its clock shows."""
        self._now = max(self._now, ns)
        self._known = ns

    def unsaid(self) -> int | None:
        """Returns the time of the rank if its process has to set its clock, and counts it as said."""
        if self._now <= self._known:
            return None
        self._known = self._now
        return self._now

    def comes(self, *key: Any) -> None:
        """The rank does something that other ranks may wait for."""
        self._shared[key] = max(self._shared.get(key, 0), self._now)

    def meets(self, *key: Any) -> None:
        """The rank knows what others have done there."""
        self._now = max(self._now, self._shared.get(key, 0))

    def starts(self, number: int, group: str, call: TorchCall) -> None:
        """The rank starts call `number`, which `ends` names."""
        where = f"{group}#{call.tag}"
        if call.name == "send":
            self.comes(where, self._rank, call.peer)
        elif call.name in ("recv", "recv_any"):
            self._keys[number] = (where, call.peer, self._rank)
        else:
            self._made[where] += 1
            self._keys[number] = (where, self._made[where])
            self.comes(*self._keys[number])

    def ends(self, number: int, source: Any = None) -> None:
        """The rank sees the end of call `number`. `source`: the sender of a receive from any source."""
        where, *rest = self._keys.get(number, ("",))
        if rest and rest[0] is None:
            rest[0] = source
        self.meets(where, *rest)
