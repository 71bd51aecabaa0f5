"""Draws: finds the rank, step and line of a program whose library draws from a generator that a process shares.

    before = generators()
    ...                                        # a run
    generators() != before                     # then it drew, or seeded one
    with Tracing(which) as tracing:            # the generators that changed
        ... the same run ...
    tracing.culprit                            # the rank that moved one of them first

A run notes and undoes the draws of Python code (`SimRun.drawn`), so a changed state comes from C code, such as that of
scipy. `Tracing` compares the state at each line, so it is slow. Draws during an import do not count.
"""

from __future__ import annotations

import random
import sys
from ctypes import string_at
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np

from dpsim.backend.journal.call_site import is_own_code, place_in
from dpsim.checks.finding import Culprit
from dpsim.sim.calls.rank import SimRank

SITE = "draws"
MAKERS = ("random", "numpy")
SHARED = ("random", "numpy.random")
"""The generators of which a process has one each, in the order of `generators`."""


MERSENNE = 625 * 4
"""The bytes of the state of numpy's usual generator: 624 words and a position (`mt19937_state`)."""


def generators() -> tuple[Any, ...]:
    """Returns the states of the generators that a process shares."""
    bits = np.random.mtrand.get_bit_generator()
    if type(bits) is np.random.MT19937:  # its property `state` takes a fifth of a small run
        return random.getstate(), string_at(bits.ctypes.state_address, MERSENNE)
    state = bits.state["state"]
    return random.getstate(), tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in state.values())


class Tracing:
    """Watches the shared generators at these indexes of SHARED. Meanwhile, it replaces any other line tracer."""

    def __init__(self, which: list[int]) -> None:
        self.culprit: Culprit | None = None
        self._which = which
        self._state = self._now()
        self._last: Culprit | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _now(self) -> list[Any]:
        state = generators()
        return [state[at] for at in self._which]

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if self.culprit is not None or _is_library(frame):
            return None
        if self._now() != self._state:
            self.culprit = self._last or _at(frame)
            return None
        self._last = _at(frame)
        return self._trace


def _at(frame: FrameType) -> Culprit | None:
    """Returns the rank that executes a frame; None if there is none, or if it only imports a module."""
    where, outer = place_in(_module(frame), frame.f_code, frame.f_lineno), frame
    while not isinstance(rank := outer.f_locals.get("rank"), SimRank):
        if outer.f_back is None or _module(outer).startswith("importlib."):
            return None
        outer = outer.f_back
    return Culprit(rank.rank, rank.step, SITE, where)


def _is_library(frame: FrameType) -> bool:
    name = _module(frame)
    return is_own_code(frame) or name.partition(".")[0] in {*sys.stdlib_module_names, *MAKERS} - {"__main__"}


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))
