"""Globals that kernels read and that no program may change during a run. dpsim compares them at the end of each run.

A kernel may read a number of its module, or of a class. If the program sets another number (`config.STEP = 2`), a
kernel that runs later reads the new one. A rank in another process does not see it.

    watch(config, "STEP")           # when a kernel that reads it is launched first
    begin()                         # a run begins
    changed()                       # "STEP of config, which was 1 and is 2", or ""
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.words import short

_WATCHED: dict[tuple[int, str], tuple[Any, Any]] = {}
"""For each global its module or class, which this table keeps alive, and its value at the start of the run."""

_GONE = object()


def watch(owner: Any, name: str) -> None:
    """A kernel reads that global of a module, or attribute of a class."""
    _WATCHED.setdefault((id(owner), name), (owner, vars(owner).get(name, _GONE)))


def begin() -> None:
    """A run begins. Assignments between runs are no change."""
    for (key, name), (owner, before) in _WATCHED.items():
        if (now := vars(owner).get(name, _GONE)) is not before:
            _WATCHED[key, name] = owner, now


def changed() -> str:
    """A global that has changed, in words; empty if there is none."""
    for (_, name), (owner, before) in _WATCHED.items():
        now = vars(owner).get(name, _GONE)
        if now is not before and not (type(now) is type(before) and now == before):
            is_now = "is gone" if now is _GONE else f"is {short(repr(now))}"
            return f"{name} of {owner.__name__}, which was {short(repr(before))} and {is_now}"
    return ""
