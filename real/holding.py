"""Events that are held up at a gate: the stream does not pass one before its host has asked about it in vain.

    stream         kernel | hold ................ | event
    host                    query -> False, and the stream goes on

A hold is a flag of no program (`real.flags`). A stream waits for it as for any other flag, on CUDA by a spin of the
device on a word of memory.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.journal import Journal
from real.waiting import Patience


class HoldingRank(Protocol):
    """What this needs of a rank."""

    journal: Journal
    patience: Patience
    flags: dict[str, JournaledFlag]

    def _flag(self, name: str) -> JournaledFlag: ...


class HeldStream(Protocol):
    """What this needs of a stream."""

    @property
    def rank(self) -> HoldingRank:
        """That of the stream."""

    def _wait_flag(self, flag: Any) -> None: ...


def _flag(rank: HoldingRank, query: tuple[str, str, int]) -> JournaledFlag:
    """That of a query. No program can have its name, which has spaces."""
    thread, site, ordinal = query
    name = f"gate of {thread} {site} {ordinal}"
    flag = rank.flags.get(name)
    if flag is None:
        flag = rank.flags[name] = rank._flag(name)
    return flag


def hold(stream: HeldStream) -> None:
    """Hold a stream up on which an event is about to be recorded, if the event has a gate."""
    gate = stream.rank.journal.gate_ahead("record")
    if gate is not None and gate.message is not None:
        stream._wait_flag(_flag(stream.rank, gate.message[1:]))


def answered(rank: HoldingRank, query: Outcome, wait: Outcome) -> Outcome:
    """The outcome of a query of an event, which was journaled last: `query`, or what its gate says. `wait`: until the
    event has passed.
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
