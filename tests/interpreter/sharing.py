"""Python objects of modules in the interpreter. By the contract each rank has its own process, and so its own modules.

A rank that reads a module object finds the value that it has written itself. The interpreter marks a state as `leaked`
if the rank would find another value in a module that all ranks share. Process ids and string hashes also differ between
processes. An outcome cannot contain them, so a rank that notes one always causes the mark `leaked`. The mark `left`
says that a module may contain a value of an earlier run.
"""

from __future__ import annotations

from typing import Any

from tests.interpreter.language import Script
from tests.interpreter.moves import goes_on, notes
from tests.interpreter.state import State

MODULES = ("dict", "list", "cache", "context", "array", "environ", "attribute", "default")
"""Kinds of module objects through which a rank can pass its number to another rank of the process."""

OWN = ("pid", "hash")
"""Values that differ between processes."""

CLEAN = ("plain", "helper", "constant", "cached", "local function")
"""Kernels that fill a view and use no object that changes."""

DIRTY = ("reads a dict", "reads a list", "sets a global", "a helper reads a dict", "keeps what it saw")
"""Kernels that fill a view and read or write objects of their module. dpsim refuses to launch them."""


def step(script: Script, state: State, rank: int, what: str, how: list[Any]) -> State:
    host, way = state.hosts[rank], how[0]
    if what == "put":
        shared = state._replace(modules=state.modules.plus(way, host.number))
        return goes_on(shared, rank, host._replace(kept=host.kept.plus(way, host.number)))
    if way in OWN:
        return goes_on(state.marked("leaked"), rank, host)
    mine = host.kept.get(way, 0)
    left = way not in host.kept and any(("put", way) in said for said in script.ranks)
    marks = ["leaked"] * (state.modules.get(way, 0) != mine) + ["left"] * left
    return notes(state.marked(*marks), rank, host, mine)
