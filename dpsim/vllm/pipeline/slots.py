"""Which request has which slot of the table: handed out last in, first out.

Each stage does this for itself, from what the batches say. All come to the same slots, since all give them back in the
same order. It is also noted by which op tokens came last to a slot, for the message that says what is wrong with it.

    >>> slots = RequestSlots(2)
    >>> slots.hand_out(request=7), slots.hand_out(request=8), slots.give_back(request=7), slots.hand_out(request=9)
    (1, 0, 1, 1)
    >>> slots.of
    {8: 0, 9: 1}
"""

from __future__ import annotations

from collections.abc import Iterable


class RequestSlots:
    """The slots of one stage. `of`: those in use, by request; `free`: the others, the next one last."""

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
        """Tokens came to these slots."""
        self._delivered.update((slot, by) for slot in slots)

    def delivered(self, slots: Iterable[int]) -> tuple[str | None, ...]:
        """By which op tokens came last to each of these; None if no tokens came since it was handed out."""
        return tuple(self._delivered.get(slot) for slot in slots)
