"""What a scenario plants at the ops of one rank. Faults break the protocol, a correct protocol tolerates delays, and
messages arrive from outside.

    plan = Injections(rank=1, world=world)
    plan.delay_ns("main", "dp.agree", 5)            # how late the op at that address is, in nanoseconds
    plan.faults("main", "dp.agree", 5)              # the faults at that address

The scenario names an op by its address, (thread, site, ordinal); a collective also by its second address,
(communicator, seq). This file also computes how a fault changes an issue, so that it is the same on every backend. The
journal looks faults up here, and records what it applied (`dpsim.contract.ops.Injected`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.gates import Gate, Turn
from dpsim.contract.world import At, Fault, Kill, Message, World

Key: TypeAlias = tuple[str | None, str | int | None, int | None]
"""(thread, site, ordinal), or (None, communicator, seq). An ordinal of None means every visit of the site."""


class RankDied(BaseException):
    """Raised at an op with the fault `die`. It is a BaseException, so that no protocol catches it."""


class RankHung(BaseException):
    """Raised at an op with the fault `hang`: the rank does not continue, and its watchers get no notice."""


class InjectedError(RuntimeError):
    """Raised in the program at an op with the fault `raise`. A program may catch it like any other exception."""


STOPS = frozenset({"die", "raise", "hang"})
"""Kinds of fault that end the rank at the op."""


def stop(fault: Fault, at: str) -> BaseException:
    """Returns the exception for a fault of one of these kinds."""
    if fault.kind == "raise":
        return InjectedError(f"injected at {at}")
    return RankDied(at) if fault.kind == "die" else RankHung(at)


class Injections:
    """The faults, delays and messages of a world that are planted at one rank."""

    def __init__(self, rank: int, world: World) -> None:
        self.rank = rank
        self._faults: dict[Key, list[Fault]] = {}
        for fault in world.faults:
            if fault.rank == rank:
                self._faults.setdefault(_key(fault.at), []).append(fault)
        self._kills: dict[Key, Kill] = {}
        for kill in world.kills:
            if kill.rank == rank and kill.at is not None:
                self._kills[_key(kill.at)] = kill
        self.doom: Callable[[Kill], None] = lambda kill: None
        """Called at the op after which a kill may end the rank. The simulation sets it; others refuse such kills."""
        self._delays: dict[Key, int] = {}
        for delay in world.delays:
            if delay.rank == rank:
                self._delays[_key(delay.at)] = self._delays.get(_key(delay.at), 0) + delay.ns

        self._messages: dict[Key, list[tuple[int, Message]]] = {}
        for number, message in enumerate(world.messages):
            if message.by == rank:
                self._messages.setdefault(_key(message.at), []).append((number, message))
        here = [gate for gate in world.gates if gate.at[0] == rank]
        self.gates = {gate.at[1:]: gate for gate in here if isinstance(gate, Gate)}
        """The gates of this rank, by thread, site and ordinal."""
        self.served_after = {one.at[1:]: one.before for one in here if isinstance(one, Turn) and one.of == "store"}
        """For a call at a store, by thread, site and ordinal: the call that the store serves before it."""
        self.post: Callable[[int, Message], None] = lambda number, message: None
        """Sends a message from outside. The backend sets it."""
        self.make: Callable[[Fault], object] = lambda fault: None
        """Makes an inserted call, and returns what the program would await. The rank sets it."""
        self.begun: list[object] = []
        """What `make` returned. A transfer of gloo needs it until it is over."""

    def __bool__(self) -> bool:
        return bool(self._faults or self._delays or self._kills or self._messages)

    def start_ns(self, thread: str) -> int:
        """Returns how late a thread starts."""
        return self._delays.get((thread, None, None), 0)

    def delay_ns(self, thread: str, site: str, ordinal: int) -> int:
        """Returns how late an op is, by its address."""
        return self._delays.get((thread, site, ordinal), 0) + self._delays.get((thread, site, None), 0)

    def collective_delay_ns(self, communicator: str, seq: int) -> int:
        """Returns how late a collective is, by its second address."""
        return self._delays.get((None, communicator, seq), 0)

    def faults(self, thread: str, site: str, ordinal: int) -> Sequence[Fault]:
        """Returns the faults at an op, by its address."""
        return self._faults.get((thread, site, ordinal), ())

    def collective_faults(self, communicator: str, seq: int) -> Sequence[Fault]:
        """Returns the faults at a collective, by its second address."""
        return self._faults.get((None, communicator, seq), ())

    def come(self, where: str | None, what: str, number: int) -> None:
        """Looks up kills and messages at an address: (thread, site, ordinal), or (None, communicator, seq)."""
        kills = self._kills
        kill = kills.pop((where, what, number), None) or kills.pop((where, what, None), None)
        if kill is not None:
            self.doom(kill)

    def messages(self, thread: str, site: str | None, ordinal: int | None) -> Sequence[tuple[int, Message]]:
        """Returns the messages from outside at an op or at a thread's start, with their numbers in the world."""
        return self._messages.get((thread, site, ordinal), ())

    def apply(self, fault: Fault, issue: Issue) -> list[Issue]:
        """Returns the issues after a fault: none for a skip, two for a repeat, a changed one for alter. If the sizes of
        a call decide what moves, another count changes nothing, because torch refuses such a call. The same applies to
        a reduction that no library has for that element type.
        """
        if fault.kind == "skip" or fault.kind in STOPS:
            return []
        if fault.kind == "insert":
            return [issue]
        if fault.kind == "repeat":
            return [issue, issue._replace(delay_ns=0)]
        others: tuple[str, ...] = () if issue.peer is None else ("op", "root")  # a field that transfers do not have
        if issue.peer is None and issue.rules.sizes_rule(issue.call):
            others = ("count",)
        changed = issue._replace(**{key: value for key, value in fault.change.items() if key not in others})
        if issue.peer is None:
            root = changed.root if changed.root is not None else self.rank
            changed = changed._replace(root=root if COLLECTIVES[changed.op].rooted else None)
            if changed.rules.refuses(changed.call):
                return [issue]
        altered = (changed.count, changed.dtype) != (issue.count, issue.dtype)
        return [changed._replace(altered=altered)]


def _key(at: At) -> Key:
    return (None, at.communicator, at.seq) if at.communicator is not None else (at.thread, at.site, at.ordinal)
