"""The classes of a hang behind which an actor died or stands in no op.

>>> of_dead("HANG:MAILBOX:NO_MESSAGE"), of_dead("HANG:P2P:UNMATCHED_RECV")
('HANG:MAILBOX:DEAD_RANK', 'HANG:P2P:UNMATCHED_RECV')
"""

from __future__ import annotations

STOOD = "HANG:HOST:NO_OP"

DEAD = {"COLLECTIVE": "HANG:COLLECTIVE:DEAD_RANK", "MAILBOX": "HANG:MAILBOX:DEAD_RANK"}
"""By the second part of a class."""


def of_dead(klass: str) -> str:
    """The class of a hang whose cause is a dead actor."""
    first, _, rest = klass.partition(":")
    return DEAD.get(rest.partition(":")[0], klass) if first == "HANG" else klass
