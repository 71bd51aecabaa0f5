"""The slots of the request table: which request has which slot. The slot freed last is assigned first.

All stages free slots in the same order, so they assign the same. A stage also records which op last wrote tokens to a
slot, for the message about a wrong input.

    >>> slots = RequestSlots(2)
    >>> slots.hand_out(request=7), slots.hand_out(request=8), slots.give_back(request=7), slots.hand_out(request=9)
    (1, 0, 1, 1)
    >>> slots.of
    {8: 0, 9: 1}
"""

from __future__ import annotations

from collections.abc import Iterable


class RequestSlots:
    """The slots of one stage. `of`: the slots in use, by request. `free`: the free slots, the next one last."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = list(range(count))
        self.of: dict[int, int] = {}
        self._delivered: dict[int, str] = {}

    def hand_out(self, request: int) -> int:
        slot = self.of[request] = self.free.pop()
        return slot

    def give_back(self, request: int) -> int:
        slot = self.of.pop(request)
        self.free.append(slot)
        self._delivered.pop(slot, None)
        return slot

    def deliver(self, slots: Iterable[int], by: str) -> None:
        """Record that the op `by` wrote tokens to these slots."""
        self._delivered.update((slot, by) for slot in slots)

    def delivered(self, slots: Iterable[int]) -> tuple[str | None, ...]:
        """For each slot, the op that last wrote tokens to it; None if no op did since a request got the slot."""
        return tuple(self._delivered.get(slot) for slot in slots)
