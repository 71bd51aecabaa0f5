"""Recurrence: ends a run that is in the same state again, because ranks answer each other's messages without end.

    rank 0   get ball    send ball    get ball    send ball    ...
    rank 1   get ball    send ball    get ball    send ball    ...         ->   Endless([0, 1])

A message may always be news, so `watch` counts it as progress. But if all programs, all mailboxes and the machine are
in a state in which they have been before, the run can only repeat itself. Two moments have to be equal in this:

* the records of each rank between the two moments, and as many before them, except for their ordinals;
* the state of each program (`state_of`): a loop that counts its rounds is never in the same state again;
* the messages in all mailboxes, and what is about to happen, in timed mode with its time.

No event may be possible all the time between the two moments and never happen: a schedule that holds it back is unfair.
The ranks may only make calls of the kinds `REPEATED`, in worlds that `Recurrence.applies` accepts.

The first look follows after FIRST ticks of the machine, and each further one after twice as many. A look compares FINE
steps with the first of them, so a long run takes no time for this.

Prior art: SPIN's acceptance cycles under weak fairness, and the states of models that SPIN and Stateright store.
"""

from __future__ import annotations

import gc
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from operator import itemgetter
from pickle import DEFAULT_PROTOCOL, Pickler
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpsim.backend.journal.call_site import is_own_code
from dpsim.contract.events import site
from dpsim.contract.ops import KIND, ORDINAL, POST_MAILBOX, POST_TO, SEQ, STREAM, RawRecord
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.sim.graph.environment import TICK
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.watch import Endless, possible

FIRST = 8
FINE = 256
MOST_STATES = 32
"""A look pickles the programs at most this number of times."""

PLAIN = (int, float, complex, str, bytes, bytearray, list, dict, set, frozenset, tuple, type(None))
"""Types of the globals that belong to the state. Modules, functions and classes do not."""

_NAMED = (type, ModuleType, CodeType, BuiltinFunctionType)
_MACHINE = ("dpsim.sim.", "dpsim.backend.", "simpy.")
REPEATED = frozenset({"post", "take", "learned", "sleep", "decision", "probe", "collective"})


class Boxes(Protocol):
    """All mailboxes of a run, as `dpsim.sim.services.mailbox` has them."""

    def taken_from(self) -> Mapping[tuple[int, str], int]: ...

    def contents(self) -> Any: ...


class Moment(NamedTuple):
    """A moment of a run. `written`: the number of records of each rank. `ahead`: the ops that can happen. `shape`:
    where each program stands, all messages, and what is about to happen. `state`: of all programs. `taken`:
    the number of messages that were taken from each mailbox.
    """

    written: tuple[int, ...]
    taken: Mapping[tuple[int, str], int]
    ahead: set[Op]
    shape: Any
    state: bytes


class Recurrence:
    """The search for a recurring state in one run. `programs`: the coroutine of each rank and service."""

    def __init__(self, machine: Machine, hosts: Sequence[Host], programs: Sequence[Any], boxes: Boxes) -> None:
        self._machine, self._hosts, self._programs, self._boxes = machine, hosts, programs, boxes
        self._ticks, self._next = 0, FIRST
        self._first: Moment | None = None
        self._left = self._states = 0

    @staticmethod
    def applies(world: World, program: Program[Any]) -> bool:
        """Whether all of a program's state is visible, and nothing planted comes at some later op."""
        planted = world.faults or world.delays or world.messages or world.gates
        seen = not (program.threaded or program.apart or planted)
        return seen and all(kill.at is None for kill in world.kills)

    def tick(self) -> int:
        """Returns the machine's steps until the next call. Raises Halt if the run is in the same state again."""
        if self._first is not None:
            self._left -= 1
            if self._left == 0 or self._states > MOST_STATES:
                self._first = None
                return TICK
            ranks = self._again(self._first)
            if ranks:
                raise self._machine.halt(Endless(ranks))
            return 1
        self._ticks += 1
        if self._ticks < self._next:
            return TICK
        self._next = 2 * self._ticks
        kinds = {raw[KIND] for host in self._hosts for raw in host.records[-FINE:]}
        if "post" not in kinds or not kinds <= REPEATED:
            return TICK
        state = state_of(self._programs)
        if state is None:
            return TICK
        written = tuple(len(host.records) for host in self._hosts)
        self._first = Moment(written, self._boxes.taken_from(), self._ahead(), self._shape(), state)
        self._left, self._states = FINE, 0
        return 1

    def _again(self, first: Moment) -> list[int]:
        moved = [rank for rank, host in enumerate(self._hosts) if len(host.records) > first.written[rank]]
        if not moved or not all(_repeats(self._hosts[rank].records, first.written[rank]) for rank in moved):
            return []
        if not self._each_is_taken(first) or first.ahead & self._ahead() or first.shape != self._shape():
            return []
        self._states += 1
        return moved if state_of(self._programs) == first.state else []

    def _each_is_taken(self, first: Moment) -> bool:
        """As many messages are under way as at `first`, and the same ones, because the records repeat."""
        records = [raw for host, at in zip(self._hosts, first.written, strict=True) for raw in host.records[at:]]
        sent = Counter((raw[POST_TO], raw[POST_MAILBOX]) for raw in records if raw[KIND] == "post")
        now = self._boxes.taken_from()
        return bool(sent) and all(now[place] - first.taken.get(place, 0) == sent[place] for place in now)

    def _ahead(self) -> set[Op]:
        machine = self._machine
        timed = (entry[-1] for entry in machine.env._queue)
        return possible(machine) | {one for one in (*timed, *machine.alarms.ahead()) if isinstance(one, Op)}

    def _shape(self) -> Any:
        machine = self._machine
        waits = {host.waiter: host.rank for host in self._hosts}
        due = [waits.get(event) for event in machine.env.due]
        queue = sorted((entry[0] - machine.now, str(waits.get(entry[-1]))) for entry in machine.env._queue)
        enabled = sorted(site(op.label) for op in machine.enabled)
        return [*map(positions, self._programs)], due, queue, enabled, self._boxes.contents()


def _repeats(records: Sequence[RawRecord], start: int) -> bool:
    number = len(records) - start
    return number <= start and all(
        _may_repeat(records[at]) and _bare(records[at]) == _bare(records[at - number])
        for at in range(len(records) - 1, start - 1, -1)
    )


def _may_repeat(raw: RawRecord) -> bool:
    return raw[KIND] in REPEATED and (raw[KIND] != "collective" or raw[STREAM] is None)


def _bare(raw: RawRecord) -> Any:
    rest = (raw[ORDINAL + 1 : SEQ], raw[SEQ + 1 :]) if raw[KIND] == "collective" else raw[ORDINAL + 1 :]
    return raw[:ORDINAL], rest


# ---- the state of programs


def positions(coroutine: Any) -> tuple[int, ...]:
    """Returns the instruction at which each frame of a suspended coroutine waits; empty if it has ended."""
    return tuple(frame.f_lasti for _, frame in _frames(coroutine))


def state_of(coroutines: Sequence[Any]) -> bytes | None:
    """Returns all that suspended coroutines still know, as bytes. None if a value cannot be pickled, such as a
    generator in a local variable. It may have any state, so a caller must not conclude anything.

    The state contains the local variables and the stack of each frame (by `gc.get_referents`), so also how far a `for`
    loop is. It contains the plain globals that these frames use, and Python's and numpy's random generators. Objects of
    the simulation count by their type: what a program does with them is in its journal.
    """
    chains = [list(_frames(one)) for one in coroutines]
    waiting = {id(one) for chain in chains for one, _ in chain}
    parts: list[Any] = [random.getstate(), np.random.get_state()]
    used: dict[tuple[int, str], Any] = {}
    for chain in chains:
        parts.append("rank")
        for one, frame in chain:
            if not is_own_code(frame):
                parts.append((frame.f_lasti, [part for part in gc.get_referents(one) if part is not frame]))
                names = frame.f_globals
                used |= {(id(names), name): names[name] for name in frame.f_code.co_names if name in names}
    parts += [value for _, value in sorted(used.items(), key=itemgetter(0)) if type(value) in PLAIN]
    stream = BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python pickle no itertools
            _Values(stream, waiting).dump(parts)
    except Exception:  # a program's object may raise any exception
        return None
    return stream.getvalue()


def _frames(coroutine: Any) -> Iterator[tuple[Any, FrameType]]:
    one = coroutine
    while one is not None:
        coroutine_frame = getattr(one, "cr_frame", None) or getattr(one, "gi_frame", None)
        if coroutine_frame is None:
            return
        yield one, coroutine_frame
        one = getattr(one, "cr_await", None) or getattr(one, "gi_yieldfrom", None)


class _Values(Pickler):
    """Pickles values for a comparison. Nothing loads the result."""

    def __init__(self, stream: BytesIO, waiting: set[int]) -> None:
        super().__init__(stream, DEFAULT_PROTOCOL)
        self._waiting = waiting

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in PLAIN:
            return None
        if id(obj) in self._waiting:
            return "waits"
        if isinstance(obj, _NAMED) or (kind is FunctionType and not (obj.__closure__ or obj.__dict__)):
            return "named", id(obj)
        return kind.__qualname__ if f"{kind.__module__}.".startswith(_MACHINE) else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is CellType:
            return _made, (obj.cell_contents,)
        if type(obj) is FunctionType:
            return _made, (id(obj.__code__), obj.__closure__, obj.__defaults__, obj.__kwdefaults__, obj.__dict__)
        return NotImplemented


def _made(*parts: Any) -> Any:
    raise NotImplementedError("nothing loads the state of a program")
