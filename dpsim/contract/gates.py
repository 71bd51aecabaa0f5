"""Gates and turns: they make a run follow the order of another run, on any backend.

    Gate(at, message)           a poll or get takes this message, or nothing
    Gate(at, learns=(False,))   the call returns this: an event has not passed, a key has no value, a send has ended
    Gate(mark, message=ask)     the event recorded at `mark` does not pass before the host has queried it at `ask`
    Turn("thread", at, before)  a host thread makes a call after another thread of its rank made one
    Turn("store", at, before)   a store serves a call after another one

`dpsim.campaign.gates` derives gates and turns from a run of the simulation. The simulation itself uses only the gates
of mailboxes, since it can follow a schedule for the rest. Real processes use all of them (`real/turns.py`,
`real/holding.py`).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

Address: TypeAlias = tuple[int, str, str, int]
"""The address of an op: rank, host thread, site, ordinal. The address of a message is that of its send. A message from
outside has its sender (`dpsim.contract.world.outside`), no thread, the mailbox, and its number in the world.
"""

EARLY = "early"
"""The outcome in a gate for a call that ends for its rank before its peers arrive."""


class Gate(NamedTuple):
    """Fixes the outcome of the call at the address `at`.

    `message`: the message that a poll or get takes, or None for nothing. If it is None, the call does not read the
    mailbox (a get still waits for its time-out). If it is a message, the call waits for that message, even a poll, and
    takes it even if others arrived before. For a recorded event, `message` is the address of the host's query that
    comes before the event passes.

    `learns`: the outcome of any other call, in a tuple of one. If the outcome is True or a value, the call waits for
    it, whatever its time-out.
    """

    at: Address
    message: Address | None = None
    learns: tuple[Any, ...] = ()


class Turn(NamedTuple):
    """Orders one call after another. `of`: "thread" for the threads of one rank, "store" for the ranks at one store.

    `end`, `before_end`: the turn concerns the end of that call, where its thread gets the outcome. `runs_on`: the
    thread of `before` runs Python code after that call, until its next turn begins. The start of a thread has a turn at
    the site "".
    """

    of: Literal["thread", "store"]
    at: Address
    before: Address
    end: bool = False
    before_end: bool = False
    runs_on: bool = False


AnyGate: TypeAlias = Gate | Turn
