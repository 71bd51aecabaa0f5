"""Finds Python variables that host threads of a rank share without order.

A program with `ordered_by_flags = True` promises that flags order what its threads share. This module checks the
promise. A *turn* is one scheduler step of a thread. The promise is broken if the following happens:

    Two threads use one thing, in turns of which none comes before the other, and one of these turns changes it.

A *thing* is a variable of an enclosing function, a global, an attribute of an object, or an item of a list or
dictionary. Any other container is one thing. A thread *uses* a thing if it reads an attribute or an item, calls a
method, compares it, or loops over it. Passing an object on is no use. A turn *changes* a thing if the thing, or a
container in it, differs at the end of the turn. The order of items in a dictionary is no thing, so each thread may set
its item.

The trace of instructions is slow, so it watches only a few runs (`SimBackend(sharing=True)`). docs/design/sim.md lists
what it does not see.

Prior art: FastTrack (Flanagan and Freund, PLDI 2009), which also keeps only the last uses.
"""

from __future__ import annotations

import array
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator
from inspect import CO_COROUTINE
from types import CellType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from dpsim.backend.journal.call_site import is_library, is_own_code, place_in
from dpsim.backend.journal.misuse import CONTRACT
from dpsim.contract.registry import packages
from dpsim.contract.rules.unordered import SharedUse, Unordered
from dpsim.sim.hosts.turn_order import SeenTurns, TurnOrder
from dpsim.sim.hosts.uses import Use, uses_of

_CONTAINERS = (list, dict, set, deque, bytearray, array.array, np.ndarray)
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_NO_OBJECTS: tuple[Any, ...] = (*_PLAIN, *_CONTAINERS, tuple, frozenset, FunctionType, ModuleType, *CONTRACT)
_MISSING = object()
_ALL = "*"
_LENGTH = "its length"
ITEMS = 1_000
"""A container with more items counts as one thing."""


class _Seen(NamedTuple):
    """The uses of one thing in the present turn. `name`, `where`: of the first use. `before`: the contents at the first
    use, by key. `only`: the used attribute names of an object or module; None: the whole container.
    """

    thing: Any
    name: str
    where: str
    before: dict[Any, Any]
    reads: dict[Any, None]
    only: set[str] | None


class SharedWatch:
    """Watches one rank in one run. `found`: the first unordered pair of uses."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._packages = packages()
        self._turn = 0
        self.order = TurnOrder()
        self.found: Unordered | None = None
        self._functions: dict[str, FunctionType] = {}
        self._turns: SeenTurns | None = None
        self._seen: dict[int, _Seen] = {}
        self._kept: dict[int, Any] = {}  # keeps objects alive, so that ids stay unique
        self._uses: dict[int, dict[tuple[str, Any, bool], tuple[SeenTurns, int, SharedUse]]] = {}

    def started(self, name: str, program: Any) -> None:
        """Registers the function of a thread that the program starts."""
        function = getattr(program, "__func__", program)
        if isinstance(function, FunctionType):
            self._functions[name] = function

    def within(self, turns: SeenTurns | None, go_on: Callable[[], Any]) -> Any:
        """Runs a thread until it next waits, and traces it."""
        if turns is None or self.found is not None or sys.gettrace() is not None:
            return with_null_trace(go_on)
        self._turns, self._turn = turns, len(turns.marks)
        sys.settrace(self._enter)
        try:
            return go_on()
        finally:
            sys.settrace(None)
            self._end(turns)
            self._turns = None

    def _end(self, turns: SeenTurns) -> None:
        seen, self._seen = self._seen, {}
        for number, one in seen.items():
            now = dict(_state(one.thing, one.only))
            before, keys = one.before, one.before | now
            changed = dict.fromkeys(key for key in keys if now.get(key, _MISSING) != before.get(key, _MISSING))
            for key in changed:
                self._use(turns, number, one, key, True)
            for key in (key for key in one.reads if key not in changed):
                self._use(turns, number, one, key, False)

    # ---- tracing uses

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if (
            is_own_code(frame)
            or is_library(frame, self._packages)
            or not (frame.f_code.co_flags & CO_COROUTINE or _is_called(frame, self._packages))
        ):
            return None  # kernels are not traced either: the machine calls them
        frame.f_trace = self._step  # first: Python 3.13 traces instructions only in frames with a trace function
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and self._turns is not None:
            for use in uses_of(frame.f_code).get(frame.f_lasti, ()):
                self._look(frame, use)
        return self._step

    def _look(self, frame: FrameType, use: Use) -> None:
        value, name = self._variable(frame, use), use.root
        for at, attribute in enumerate(use.path):
            if isinstance(value, _CONTAINERS):
                self._note(value, name, frame, _ALL)
                return
            value = self._attribute(value, attribute, name, frame, at + 1 == len(use.path))
            name = f"{name}.{attribute}"
        if use.how == "set" and use.name and not isinstance(value, _NO_OBJECTS) and value is not _MISSING:
            self._note(value, f"{name}.{use.name}", frame, None, {use.name})
        elif isinstance(value, _CONTAINERS) and use.how != "load":
            self._note(value, name, frame, None if use.how == "store" else self._key(frame, use, value))

    def _variable(self, frame: FrameType, use: Use) -> Any:
        reads = None if use.how == "set" and not use.name else use.root
        if use.scope == "global":
            value = frame.f_globals.get(use.root, _MISSING)
            if reads is None or isinstance(value, _PLAIN):
                self._note(frame.f_globals, use.root, frame, reads, {use.root})
            return value
        if use.scope == "deref" and (cell := self._cell(frame, use.root)) is not None:
            self._note(cell, use.root, frame, reads and _ALL)
        return frame.f_locals.get(use.root, _MISSING)

    def _attribute(self, owner: Any, attribute: str, name: str, frame: FrameType, last: bool) -> Any:
        if owner is _MISSING or isinstance(owner, _NO_OBJECTS):
            named = isinstance(owner, ModuleType) or attribute in getattr(owner, "_fields", ())
            return getattr(owner, attribute, _MISSING) if named else _MISSING
        value = _field(owner, attribute)
        if value is not _MISSING and not isinstance(value, FunctionType | staticmethod | classmethod | property):
            self._note(owner, f"{name}.{attribute}", frame, attribute, {attribute})
        return value

    def _cell(self, frame: FrameType, name: str) -> CellType | None:
        """The cell of a variable counts only if a started function, or one that it calls, can reach it."""
        code, functions = frame.f_code, self._functions
        own = functions.get(self._turns.thread) if self._turns is not None else None
        for function in (*(() if own is None else (own,)), *functions.values()):
            cells = map(_content, function.__closure__ or ())
            inner = [held for held in cells if isinstance(held, FunctionType)]
            for one in (function, *inner):
                names = one.__code__.co_freevars
                within = one.__code__.co_qualname.startswith(f"{code.co_qualname}.<locals>.")
                if name in names and (one.__code__ is code or (name in code.co_cellvars and within)):
                    cell: CellType = one.__closure__[names.index(name)]
                    if _MISSING is not (held := _content(cell)) and held is frame.f_locals.get(name, held):
                        return cell
        return None

    def _key(self, frame: FrameType, use: Use, container: Any) -> Any:
        if use.how != "item":
            return _ALL
        scope, name = use.name
        if scope == "const":
            key = name
        else:
            key = (frame.f_globals if scope == "global" else frame.f_locals).get(name, _MISSING)
        if isinstance(container, dict):
            return _token(key)
        return key if isinstance(container, list) and isinstance(key, int) and key >= 0 else _ALL

    def _note(self, thing: Any, name: str, frame: FrameType, reads: Any, only: set[str] | None = None) -> None:
        """Notes a use. `reads`: the key that is read, or None. `only`: the attribute names of an object or module."""
        number = id(thing)
        self._kept[number] = thing
        seen = self._seen.get(number)
        if seen is None:
            where = place_in(frame.f_globals.get("__name__", "?"), frame.f_code, frame.f_lineno)
            seen = self._seen[number] = _Seen(thing, name, where, dict(_state(thing, only)), {}, only)
            if only is None and isinstance(thing, _CONTAINERS):
                for inner in _within(thing):
                    self._note(inner, f"{name}[...]", frame, None)
        elif only is not None and seen.only is not None and not only <= seen.only:
            seen.before.update(_state(thing, only - seen.only))
            seen.only.update(only)
        if reads is not None:
            seen.reads[reads] = None

    # ---- checking their order

    def _use(self, turns: SeenTurns, number: int, one: _Seen, key: Any, writes: bool) -> None:
        step, site = turns.at()
        mine = SharedUse(turns.thread, step, site, one.where, writes)
        others = self._uses.setdefault(number, {})
        for (thread, part, wrote), (before, turn, use) in sorted(others.items(), key=lambda one: not one[0][2]):
            if thread == turns.thread or not (writes or wrote) or not (part == key or _ALL in (part, key)):
                continue
            if not self.order.orders(before, turn, turns.knows()):
                self.found = self.found or Unordered(self._rank, one.name, use, mine)
        others[turns.thread, key, writes] = turns, self._turn, mine


def _is_called(frame: FrameType, packages: Collection[str]) -> bool:
    back = frame.f_back
    while back is not None and is_library(back, packages):
        back = back.f_back
    return back is not None and back.f_trace is not None


def _state(thing: Any, only: set[str] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yields the contents of a thing, by key. `only`: the attribute names of an object or module."""
    if isinstance(thing, CellType):
        yield _ALL, _token(_content(thing))
    elif isinstance(thing, dict) and only is None:
        if len(thing) > ITEMS:
            yield _ALL, [(_token(key), _token(value)) for key, value in thing.items()]
        else:
            yield from ((_token(key), _token(value)) for key, value in thing.items())
    elif isinstance(thing, list | deque):
        tokens = [_token(value) for value in thing]
        if len(tokens) > ITEMS or isinstance(thing, deque):
            yield _ALL, tokens
        else:
            yield _LENGTH, len(tokens)
            yield from enumerate(tokens)
    elif isinstance(thing, set):
        yield _ALL, frozenset(map(_token, thing))
    elif isinstance(thing, bytearray | array.array | np.ndarray):
        yield _ALL, bytes(thing) if isinstance(thing, bytearray) else thing.tobytes()
    else:
        for name in sorted(only or ()):
            value = thing.get(name, _MISSING) if isinstance(thing, dict) else _field(thing, name)
            yield name, _token(value)


def _token(value: Any) -> Any:
    """Returns a value that is equal for equal plain values, and for other objects only if they are the same object."""
    return (type(value), value) if isinstance(value, _PLAIN) else ("object", id(value))


def _within(container: Any) -> list[Any]:
    if isinstance(container, dict | list | deque) and len(container) <= ITEMS:
        values = container.values() if isinstance(container, dict) else container
        return [value for value in values if isinstance(value, _CONTAINERS) and not isinstance(value, np.ndarray)]
    return []


def _field(owner: Any, name: str) -> Any:
    """Returns an attribute of an object without running its code."""
    own = getattr(owner, "__dict__", None)
    if own is not None and name in own:
        return own[name]
    slot = getattr(type(owner), name, None)
    if isinstance(slot, MemberDescriptorType):
        return getattr(owner, name, _MISSING)
    return _MISSING


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def with_null_trace(go_on: Callable[[], Any]) -> Any:
    """Returns what `go_on` returns, for a host thread whose frames were traced before. A trace function that is set
    already, such as that of a debugger, stays. If a greenlet resumes a traced frame while no trace function is set,
    CPython 3.12 calls a null pointer, which is a bug. So each later turn of the thread needs this, and its end, too.
    """
    if sys.gettrace() is not None:
        return go_on()
    sys.settrace(_ignore)
    try:
        return go_on()
    finally:
        sys.settrace(None)


def _ignore(frame: FrameType, event: str, argument: Any) -> None:
    """Traces no frame."""
