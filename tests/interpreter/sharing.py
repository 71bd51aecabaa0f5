"""What ranks share in Python, or do not: to the contract each rank has its own interpreter.

A rank that looks into a module finds what it has put there itself. `leaked` says that it would find something else if
the module were the same for all. A process number and the hash of a string differ from process to process as well.
No outcome has them: a rank that notes one leaks in any case. A module may also have what a rank left there in a run
before (`left`).
"""

from __future__ import annotations

from typing import Any

from tests.interpreter.language import Script
from tests.interpreter.moves import goes_on, notes
from tests.interpreter.state import State

MODULES = ("dict", "list", "cache", "context", "array", "environ", "attribute", "default")
"""Ways through a module, by which the number of a rank gets to another rank of the process."""

OWN = ("pid", "hash")
"""What each process has for itself."""

CLEAN = ("plain", "helper", "constant", "cached", "local function")
"""Kernels that fill a view, and touch nothing else that changes."""

DIRTY = ("reads a dict", "reads a list", "sets a global", "a helper reads a dict", "keeps what it saw")
"""Kernels that fill a view and read or write what their module holds: they are refused where they are launched."""


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
