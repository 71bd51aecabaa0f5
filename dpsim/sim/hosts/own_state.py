"""Own state: if a rank changes the state of its process, the change is its own, as if each rank had a process.

    state = OwnState()
    state.touched(os.chdir, rank=0)         # before rank 0 changes the working directory
    state.enter(1)                          # rank 1 goes on: in the directory in which the run began
    state.put_back()                        # after the run: so does everything else

A run pays nothing until a rank calls a function that changes one of the `KINDS`. From then on, each switch to another
rank saves the state of the one and loads that of the other.

A generator that a rank has not seeded differs from that of every other rank, as in separate processes. But its numbers
are the same in each run, so that a search can repeat a run.
"""

from __future__ import annotations

import decimal
import os
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

SHARED = ("random", "numpy.random")
"""The generators of which a process has one each."""


VARIABLES: dict[Any, Any] = vars(os.environ)["_data"]
"""The table behind `os.environ`, in bytes. Decoding it twice per run would take twice as long as a short run."""


class Kind(NamedTuple):
    """A kind of state. `copy`: a copy of the present one, for ranks that have not changed it. `read`: the present one.
    `start`: the state of a rank at first, from a word for the rank and the copy; by default the copy.
    """

    copy: Callable[[], Any]
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    start: Callable[[str, Any], Any] | None = None


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def _numpy_state() -> Any:
    return np.random.mtrand._rand.get_state(legacy=False)


def _numpy_start(word: str, _: Any) -> Any:
    return np.random.RandomState(list(word.encode())).get_state(legacy=False)


def _same(read: Callable[[], Any], write: Callable[[Any], Any]) -> Kind:
    return Kind(read, read, write)


KINDS: dict[str, Kind] = {
    "folder": _same(os.getcwd, os.chdir),
    "umask": _same(_umask, os.umask),
    "recursion": _same(sys.getrecursionlimit, sys.setrecursionlimit),
    "random": Kind(random.getstate, random.getstate, random.setstate, lambda word, _: random.Random(word).getstate()),
    "numpy.random": Kind(
        _numpy_state, _numpy_state, lambda state: np.random.mtrand._rand.set_state(state), _numpy_start
    ),
    "decimal": Kind(
        lambda: decimal.getcontext().copy(), decimal.getcontext, decimal.setcontext, lambda _, one: one.copy()
    ),
    "errors of numpy": _same(np.geterr, lambda state: np.seterr(**state)),
    "prints of numpy": _same(np.get_printoptions, lambda state: np.set_printoptions(**state)),
}

_BY_NAME = {"chdir": "folder", "fchdir": "folder", "umask": "umask", "setrecursionlimit": "recursion"} | {
    "seterr": "errors of numpy",
    "set_printoptions": "prints of numpy",
    "getcontext": "decimal",
    "setcontext": "decimal",
    "localcontext": "decimal",
}


class OwnState:
    """The state of the ranks of one run. `active`: whether any rank has called a function that changes it."""

    def __init__(self, salt: str = "") -> None:
        self.active = False
        self.seeded: set[tuple[str, int]] = set()
        """The shared generators that a rank has seeded."""
        self._salt = salt
        self._running = -1
        self._first: dict[str, Any] = {}
        self._saved: dict[tuple[str, int], Any] = {}

    def touched(self, function: Any, rank: int) -> str:
        """Called before a rank calls a function. Returns the kind of state to which it belongs."""
        name = function.__name__
        kind = _BY_NAME.get(name) or (
            "random" if getattr(function, "__self__", None) is random._inst else "numpy.random"
        )
        if kind not in self._first:
            self.active, self._running = True, rank
            self._first[kind] = KINDS[kind].copy()
            if KINDS[kind].start is not None:
                KINDS[kind].write(self._start(kind, rank))
        return kind

    def enter(self, rank: int) -> None:
        """Rank `rank` goes on: saves the state of the rank that ran, and loads its own."""
        before, self._running = self._running, rank
        if before == rank:
            return
        for kind in self._first:
            own = KINDS[kind]
            self._saved[kind, before] = own.read()
            own.write(self._saved[kind, rank] if (kind, rank) in self._saved else self._start(kind, rank))

    def _start(self, kind: str, rank: int) -> Any:
        start, first = KINDS[kind].start, self._first[kind]
        return first if start is None else start(f"{self._salt} rank {rank}", first)

    def put_back(self) -> None:
        """The run is over: the process has the state again that it had before."""
        for kind, state in self._first.items():
            with suppress(OSError):  # the program may have removed the folder
                KINDS[kind].write(state)
        self.active = False
        self._first.clear()
        self._saved.clear()


def put_back(before: Mapping[Any, Any]) -> tuple[str, ...]:
    """Restores `os.environ` after a run. Returns the names that were set, changed or deleted since `before`, sorted.

    All ranks share these variables during a run. A variable that stayed set would reach the next run, and every process
    that dpsim starts later. That would hide that a rank needs it.
    """
    names = sorted(name for name in VARIABLES.keys() | before.keys() if VARIABLES.get(name) != before.get(name))
    changed = tuple(map(os.environ.decodekey, names))
    for name, shown in zip(names, changed, strict=True):
        if name in before:
            os.environ[shown] = os.environ.decodevalue(before[name])
        else:
            del os.environ[shown]
    return changed
