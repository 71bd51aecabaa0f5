"""Gates: what makes a run take the order that another run had, on any backend.

    Gate(at, message)           a look into a mailbox takes this message, or nothing
    Gate(at, learns=(False,))   the call learns this: an event has not passed, a key has no value, a send is over
    Gate(mark, message=ask)     the event recorded at `mark` does not pass before the host has asked at `ask`
    Turn("thread", at, before)  a host thread makes a call after another thread of its rank made one
    Turn("store", at, before)   a store serves a call after another one

`dpsim.campaign.gates` makes them of a run of the simulation. The simulation has the gates of mailboxes alone: it
follows a schedule. Real processes have all of them (`real/turns.py`, `real/holding.py`).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

Address: TypeAlias = tuple[int, str, str, int]
"""An op of a run: rank, host thread, site, ordinal. The address of a message is the op that posted it. A message from
outside has its sender (`dpsim.contract.world.outside`), no thread, the mailbox, and its number in the world.
"""

EARLY = "early"
"""What a gate says of a call that is over for its rank before its peers have come."""


class Gate(NamedTuple):
    """A gate fixes the outcome of a call, by its address. `message`: what a look into a mailbox takes, None for
    nothing. If the outcome is nothing, the call does not look (a get still waits for its time-out). If the outcome is a
    message, the call waits for it, even a poll, and takes it even if others arrived before. For a recorded event it
    names the host's query that comes before the event passes. `learns`: the outcome of any other call, alone in a
    tuple. A call that learns a yes or a value waits for it, whatever its time-out.
    """

    at: Address
    message: Address | None = None
    learns: tuple[Any, ...] = ()


class Turn(NamedTuple):
    """A call comes after another one. `of`: the threads of one rank, or the ranks at one store, take turns. `end`,
    `before_end`: the turn is of the end of that call, where its thread learns the outcome. `runs_on`: the thread of
    `before` runs Python after it, until its next turn begins. A thread that starts has a turn at the site "".
    """

    of: Literal["thread", "store"]
    at: Address
    before: Address
    end: bool = False
    before_end: bool = False
    runs_on: bool = False


AnyGate: TypeAlias = Gate | Turn
