"""The state that ranks of one process share: the program, and the result of its `prepare`. No run may change it.

On real backends each rank is a process with its own program object. A run that stores state in that object would work
in the simulation and fail elsewhere. So each backend compares the state before and after a run.

    before = state_of(program, prepared)
    ...                                        # the run
    refuse_changes(program, prepared, before)  # raises SharedState, which names what changed
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copyreg import dispatch_table
from functools import cache, cached_property
from io import BytesIO
from pickle import DEFAULT_PROTOCOL, Pickler
from types import FunctionType
from typing import Any

from dpsim.contract.program import Program
from dpsim.contract.rules import kernel_constants
from dpsim.contract.words import BadInput


class SharedState(BadInput):
    """`run` changed state that ranks of one process share: the program, or the result of `prepare`."""


def refuse_changes(program: Program[Any], prepared: Any, before: Mapping[str, Any]) -> None:
    """Compares the shared state with that before the run. Raises SharedState, which names a changed object of
    `state_of`, or a changed global that kernels read.
    """
    place = _place(program)
    if constant := kernel_constants.changed():
        raise SharedState(
            f"{type(program).__qualname__}.run ({place}) changed {constant}. Kernels read it, perhaps after that; pass "
            "the value in args of the launch"
        )
    after = state_of(program, prepared)
    if after == before:
        return
    for name in sorted(after.keys() | before.keys()):
        if before.get(name) != after.get(name):
            raise SharedState(
                f"{type(program).__qualname__}.run ({place}) changed {name}. Ranks in one process share it, and ranks "
                "in separate processes do not; keep what changes in local variables of run"
            )


def _place(program: Program[Any]) -> str:
    run = type(program).run
    return f"{run.__module__.replace('.', '/')}.py:{run.__code__.co_firstlineno}"


def state_of(program: Program[Any], prepared: Any) -> dict[str, Any]:
    """Returns the state that ranks share, by name. It is pickled, so a comparison shows each change. Values that cannot
    change remain as they are, or are left out. An object that cannot be pickled (a lock, a lambda) is replaced by its
    type and name, so the comparison covers everything else. An object that caches results can exclude them by
    `__reduce__`.
    """
    kernel_constants.begin()
    owners = [*map(vars, _classes(type(program))), vars(program)]
    named = {f"self.{name}": value for owner in owners for name, value in owner.items()}
    parts = vars(prepared) if hasattr(prepared, "__dict__") else {}
    if parts:
        named |= {f"prepared.{name}": value for name, value in parts.items()}
    elif not _cannot_change(prepared):
        named["prepared"] = prepared
    state: dict[str, Any] = {}
    for name, value in named.items():
        if isinstance(value, _FIXED):
            state[name] = value
            continue
        if name.startswith(_UNSEEN):
            continue
        for pickler in (_WithoutCaches, _ByName):  # the second pickler is slow, and few objects need it
            with suppress(Exception):  # an object's own pickling may raise any exception
                stream = BytesIO()
                pickler(stream).dump(value)
                state[name] = stream.getvalue()
                break
    return state


_UNSEEN = ("self.__", "self._abc_impl")
"""Prefixes of names that Python adds to a class."""

_FIXED = (int, float, str, type(None), type, FunctionType, staticmethod, classmethod, property)

_VALUES = frozenset({int, float, bool, str, bytes, type(None)})

_WALKED = _VALUES | {tuple, list, dict, set, frozenset}
"""Types that a pickler handles by itself."""

_NAMED = (type, FunctionType)


def _cannot_change(value: Any) -> bool:
    """Whether a value cannot change: numbers, text, and tuples of these, named or not."""
    if isinstance(value, tuple) and not hasattr(value, "__dict__"):
        return _VALUES.issuperset(map(type, value)) or all(map(_cannot_change, value))
    return type(value) in _VALUES


class _WithoutCaches(Pickler):
    """A pickler that leaves out cached properties, since the first read fills them in and this is no change."""

    def reducer_override(self, obj: Any) -> Any:
        kind: Any = type(obj)
        cached = _cached(kind)
        if not cached:
            return NotImplemented
        kept = {name: value for name, value in vars(obj).items() if name not in cached}
        return kind, tuple(obj) if isinstance(obj, tuple) else (), kept


class _ByName(_WithoutCaches):
    """A pickler that writes names in place of objects that cannot be pickled. It also writes names of functions and
    classes, because a function may have created them. Nothing loads the result.
    """

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _WALKED:
            return None
        if not isinstance(obj, _NAMED):
            with suppress(Exception):
                reduce = dispatch_table.get(kind)
                if type(reduce(obj) if reduce else obj.__reduce_ex__(DEFAULT_PROTOCOL)) is tuple:
                    return None  # such an object has no name that a lookup finds
        return f"{kind.__module__}.{kind.__qualname__} {getattr(obj, '__qualname__', '')}"


@cache
def _classes(kind: type[Program[Any]]) -> tuple[type[Any], ...]:
    """Returns a program's class and its base classes, in order, without `Program`."""
    return tuple([one for one in reversed(kind.__mro__) if issubclass(one, Program) and one is not Program])


@cache
def _cached(kind: Any) -> frozenset[str]:
    owners = [vars(owner) for owner in kind.__mro__]
    return frozenset(name for owner in owners for name, value in owner.items() if isinstance(value, cached_property))
