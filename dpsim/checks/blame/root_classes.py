"""The classes of a hang whose cause is an actor that died, or that stopped between two ops.

>>> of_dead("HANG:MAILBOX:NO_MESSAGE"), of_dead("HANG:P2P:UNMATCHED_RECV")
('HANG:MAILBOX:DEAD_RANK', 'HANG:P2P:UNMATCHED_RECV')
"""

from __future__ import annotations

STOOD = "HANG:HOST:NO_OP"

DEAD = {"COLLECTIVE": "HANG:COLLECTIVE:DEAD_RANK", "MAILBOX": "HANG:MAILBOX:DEAD_RANK"}
"""The class of a hang on a dead actor, by the second word of the class of the hang."""


def of_dead(klass: str) -> str:
    """Returns the class of a hang whose cause is a dead actor. A class without such a variant stays as it is."""
    first, _, rest = klass.partition(":")
    return DEAD.get(rest.partition(":")[0], klass) if first == "HANG" else klass
