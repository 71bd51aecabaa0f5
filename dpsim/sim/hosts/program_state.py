"""Program state: all that a suspended coroutine still knows, as bytes, so that two moments of a run can be compared.

    positions(coroutine)        # where it stands: one number for each frame of the program that waits
    state_of([coroutine, ...])  # the values there, or None if some value has no comparable form

The state contains the local variables and the values on the stack of each frame, so also how far a `for` loop is. It
contains the plain globals that these frames use, and Python's and numpy's random generators. Objects of the
simulation, such as a communicator, count by their type: what a program does with them is in its journal.

A value that cannot be pickled, such as a generator in a local variable, may have any state. Then there is no result,
and a caller must not conclude anything.

Prior art: SPIN and Stateright, which store the states of a model. `gc.get_referents` shows the stack of a coroutine.
"""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Iterator, Sequence
from io import BytesIO
from operator import itemgetter
from pickle import DEFAULT_PROTOCOL, Pickler
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dpsim.backend.journal.call_site import is_own_code

PLAIN = (int, float, complex, str, bytes, bytearray, list, dict, set, frozenset, tuple, type(None))
"""Types of the globals that belong to the state. Modules, functions and classes do not."""

_NAMED = (type, ModuleType, CodeType, BuiltinFunctionType)
_MACHINE = ("dpsim.sim.", "dpsim.backend.", "simpy.")


def positions(coroutine: Any) -> tuple[int, ...]:
    """Returns the instruction at which each frame of a suspended coroutine waits; empty if it has ended."""
    return tuple(frame.f_lasti for _, frame in _frames(coroutine))


def state_of(coroutines: Sequence[Any]) -> bytes | None:
    """Returns the state of suspended coroutines, or None if it is unknown."""
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
