"""Bent: runs a program in which one call differs, where no fault of the contract can say so.

    run, applied = bent_run(drawn, Bend("receiver", 1, At("item.post", 4), {"to": 2}), raw)

    lost      the call is left out: a post, the set of a flag or of a key
    twice     the call is made twice: a post
    receiver  a post goes to another rank
    mailbox   a post goes to another mailbox of its receiver
    key       a call on a store has another key
    peer      a transfer has another peer
    group     a collective is on another communicator of its rank

A user's program with such a mistake has no record of it, and neither has this run. The call has its usual place, since
the program itself makes it. A descriptor in the class of the simulation returns another function for this one call. So
no other call has another frame above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

from dpsim.backend.calls.communicators import JournaledDeviceCommunicator
from dpsim.backend.calls.rank import JournaledRank
from dpsim.backend.hosts.host_communicators import JournaledHostCommunicator
from dpsim.backend.hosts.stores import JournaledStore
from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.journal.call_site import forget_places
from dpsim.backend.journal.elsewhere import chains_by_site
from dpsim.contract.interface import Rank
from dpsim.contract.ops import (
    FLAG_HOW,
    KIND,
    OP,
    STORE_HOW,
    STREAM,
    THREAD,
    WHERE,
    RawRecord,
)
from dpsim.contract.program import Program
from dpsim.contract.world import At, Run
from dpsim.sim.backend import SimBackend
from tests.blame.drawn import Drawn


class Bend(NamedTuple):
    """A mistake at one call of one rank. It has the fields of `Fault`; `change`: an argument and its other value."""

    kind: str
    rank: int
    at: At
    change: Mapping[str, Any] = {}


def bent_run(drawn: Drawn, bend: Bend, raw: RawRecord, healthy: Run) -> tuple[Run, bool]:
    """Returns the run with the mistake, and whether the rank made the call. `raw`: the call's record in `healthy`."""
    kind, name = _method(raw)
    calls = [one for one in healthy.journals[bend.rank] if one[THREAD] == bend.at.thread]
    number = sum(_method(one) == (kind, name) for one in calls[: calls.index(raw)])
    program = _Meeting(drawn.program)
    change = _Change(vars(kind)[name], bend, raw[WHERE], number, program.met)
    with _replaced(kind, name, change):
        run = SimBackend().run_program(drawn.world, program, None)
    return run, change.applied


def _method(raw: RawRecord) -> tuple[Any, str]:
    """Returns the class and the name of the method that a record comes from; (None, "") for other kinds."""
    kind = raw[KIND]
    if kind == "post":
        return JournaledRank, "send"
    if kind == "store":
        return JournaledStore, raw[STORE_HOW]
    if kind == "flag":
        return JournaledFlag, raw[FLAG_HOW]
    if kind in ("collective", "transfer"):
        return (JournaledHostCommunicator if raw[STREAM] is None else JournaledDeviceCommunicator), raw[OP]
    return None, ""


class _Meeting(Program[Any]):
    """The program, and its rank objects: a call on another communicator needs them."""

    def __init__(self, inner: Program[Any]) -> None:
        self.inner = inner
        self.threaded = inner.threaded
        self.met: dict[int, Rank] = {}

    async def run(self, rank: Rank, prepared: Any) -> None:
        self.met[rank.rank] = rank
        await self.inner.run(rank, prepared)

    async def serve(self, rank: Rank, prepared: Any) -> None:
        await self.inner.serve(rank, prepared)


class _Change:
    """A descriptor in place of a method: the call with this `number` of the rank's thread differs."""

    def __init__(
        self, original: Callable[..., Any], bend: Bend, where: str, number: int, ranks: Mapping[int, Rank]
    ) -> None:
        self.original, self.bend, self.where, self.ranks = original, bend, where, ranks
        self.left, self.applied = number, False

    def __get__(self, owner: Any, kind: type[Any]) -> Callable[..., Any]:
        if owner is None:
            return self.original
        bound: Callable[..., Any] = self.original.__get__(owner)
        if self.applied or (owner.journal.rank, owner.journal.thread) != (self.bend.rank, self.bend.at.thread):
            return bound
        self.left -= 1
        if self.left >= 0:
            return bound
        self.applied = True
        return partial(self._call, owner)

    def _call(self, owner: Any, *words: Any, **named: Any) -> Any:
        call = signature(self.original).bind(owner, *words, **named)
        bend = self.bend
        site, change = call.arguments["site"], dict(bend.change)
        assert site == bend.at.site, f"{bend} would change the call at {site}"
        if bend.kind == "lost":
            return None
        if bend.kind == "group":
            rank = self.ranks[bend.rank]
            by = rank.host if isinstance(owner, JournaledHostCommunicator) else rank.device
            call.arguments[next(iter(call.arguments))] = by(change.pop("kind"))
        call.arguments.update(change)
        with _placed(site, self.where):
            if bend.kind == "twice":
                self.original(*call.args, **call.kwargs)
            return self.original(*call.args, **call.kwargs)


@contextmanager
def _replaced(kind: type[Any], name: str, by: Any) -> Iterator[None]:
    before = vars(kind)[name]
    setattr(kind, name, by)
    try:
        yield
    finally:
        setattr(kind, name, before)


@contextmanager
def _placed(site: str, where: str) -> Iterator[None]:
    """While the block lasts, calls at the site have this place."""
    forget_places(site)
    chains_by_site[site] = (("", where),)
    try:
        yield
    finally:
        del chains_by_site[site]
        forget_places(site)
