"""Holds: a gate (`dpsim.contract.gates`) lets an event pass only after its host has queried it and got False.

    stream         kernel | hold ................ | event
    host                    query -> False, and the stream continues

A hold delays an event by an internal flag (`real.flags`), which programs cannot name. A stream waits for it as for any
other flag; on CUDA the device polls a word of memory.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.journal import Journal
from real.waiting import Patience


class HoldingRank(Protocol):
    """The methods of a rank that this module uses."""

    journal: Journal
    patience: Patience
    flags: dict[str, JournaledFlag]

    def _flag(self, name: str) -> JournaledFlag: ...


class HeldStream(Protocol):
    """The fields of a stream that this module uses."""

    @property
    def rank(self) -> HoldingRank:
        """The stream's rank."""

    def _wait_flag(self, flag: Any) -> None: ...


def _flag(rank: HoldingRank, query: tuple[str, str, int]) -> JournaledFlag:
    """Returns the flag of a query. Its name has spaces, so no program can use it."""
    thread, site, ordinal = query
    name = f"gate of {thread} {site} {ordinal}"
    flag = rank.flags.get(name)
    if flag is None:
        flag = rank.flags[name] = rank._flag(name)
    return flag


def hold(stream: HeldStream) -> None:
    """Puts a hold on a stream before it records an event, if the event has a gate."""
    gate = stream.rank.journal.gate_ahead("record")
    if gate is not None and gate.message is not None:
        stream._wait_flag(_flag(stream.rank, gate.message[1:]))


def answered(rank: HoldingRank, query: Outcome, wait: Outcome) -> Outcome:
    """Returns the outcome of the event query that was recorded last: that of `query`, or the one in its gate. `wait`:
    waits until the event has passed.
    """
    gate = rank.journal.gate()
    if gate is None or not gate.learns:
        return query
    place, yes = rank.journal.here()[1:], gate.learns[0]

    def outcome() -> Generator[Any, Any, bool]:
        rank.patience.check()
        if yes:
            yield from wait()
        else:
            _flag(rank, place)._set()
        return bool(yes)

    return outcome
