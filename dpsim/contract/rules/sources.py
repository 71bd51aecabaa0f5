"""The sender of the message that each receive from any source took, as far as the rank's journal contains it.

sources_of(journal)             # {4: 1}: the receive at index 4 took a message of rank 1
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.ops import ADDRESS, BROKEN_OFF, KIND, LEARNED_OUTCOME, RawRecord


def sources_of(journal: Sequence[RawRecord]) -> dict[int, int]:
    """Returns, by index in a rank's journal, the rank whose message a receive from any source took."""
    begun: dict[object, int] = {}
    sources: dict[int, int] = {}
    for at, raw in enumerate(journal):
        if raw[KIND] == "receive_any":
            begun[raw[ADDRESS]] = at
        elif raw[KIND] == "learned" and raw[ADDRESS] in begun:
            outcome = raw[LEARNED_OUTCOME]
            if outcome != BROKEN_OFF:
                sources[begun.pop(raw[ADDRESS])] = outcome[0]
    return sources
