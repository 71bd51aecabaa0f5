"""Globals that kernels read. No program may change them during a run, so dpsim compares them at the end of each run.

A kernel may read a number from its module, or from a class. If a rank sets another number (`config.STEP = 2`), later
kernels in this process read the new one. On a real backend, ranks in other processes read the old one.

    watch(config, "STEP")           # when a kernel that reads it is launched first
    begin()                         # a run begins
    changed()                       # "STEP of config, which was 1 and is 2", or ""
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.words import short

_WATCHED: dict[tuple[int, str], tuple[Any, Any]] = {}
"""For each (id of the owner, name): the module or class, which this table keeps alive, and the value at the start of
the run.
"""

_GONE = object()


def watch(owner: Any, name: str) -> None:
    """Registers a global of a module, or an attribute of a class, that a kernel reads."""
    _WATCHED.setdefault((id(owner), name), (owner, vars(owner).get(name, _GONE)))


def begin() -> None:
    """A run begins: records the present values. Assignments between runs are no change."""
    for (key, name), (owner, before) in _WATCHED.items():
        if (now := vars(owner).get(name, _GONE)) is not before:
            _WATCHED[key, name] = owner, now


def changed() -> str:
    """Returns a text about a global that has changed; empty if there is none."""
    for (_, name), (owner, before) in _WATCHED.items():
        now = vars(owner).get(name, _GONE)
        if now is not before and not (type(now) is type(before) and now == before):
            is_now = "is gone" if now is _GONE else f"is {short(repr(now))}"
            return f"{name} of {owner.__name__}, which was {short(repr(before))} and {is_now}"
    return ""
