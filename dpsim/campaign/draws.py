"""Draws: finds the rank, step and line of a program that draws random numbers without a seed.

    with unseeded() as taken:                  # generators of a program's own
        ... a run ...
    taken                                      # a `Culprit` for each that was made without a seed and drawn from

    with Tracing(which) as tracing:            # the generators that a process shares
        ... the same run ...
    tracing.culprit                            # the rank that moved one of them first

`unseeded` is cheap. It patches `random.Random` and `numpy.random.default_rng`, so that they note each generator that
the program creates without a seed. A generator that the program seeds later, or never draws from, does not count.
`Tracing` compares the state of the shared generators at each line, so it is only for a run that is known to change
them.

Only draws by the program itself count. Draws by the standard library for it (names of temporary files) do not, nor
draws during the import of a module.

XX: dpsim finds some draws only if a repeated run differs. These are numpy's `RandomState()`, `Generator(PCG64())` and
`SeedSequence()` without a seed, and a `default_rng` that the program imports by name. The same is true for `secrets`,
`os.urandom`, `uuid` and clocks, because most programs only make names and logs of them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
"""The number of bytes of the state of numpy's usual generator: 624 words and a position (`mt19937_state` in its
headers).
"""


def generators() -> tuple[Any, ...]:
    """Returns the states of the generators that a process shares."""
    bits = np.random.mtrand.get_bit_generator()
    if type(bits) is np.random.MT19937:  # its property `state` takes a fifth of a small run
        return random.getstate(), string_at(bits.ctypes.state_address, MERSENNE)
    state = bits.state["state"]
    return random.getstate(), tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in state.values())


@contextmanager
def unseeded() -> Iterator[list[Culprit]]:
    """Yields a list, which at the end has each rank that created a generator without a seed and drew from it."""
    taken: list[Culprit] = []
    made: dict[int, tuple[Callable[[], Any], Any, Culprit]] = {}  # a function for its state, its first state, its maker
    seed, setstate, default_rng = random.Random.seed, random.Random.setstate, np.random.default_rng

    def note(one: object, state: Callable[[], Any]) -> None:
        if (culprit := _caller(sys._getframe(2))) is not None:
            made[id(one)] = state, state(), culprit

    def seeds(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, a, version)
        made.pop(id(self), None)
        if a is None:
            note(self, self.getstate)

    def sets_state(self: random.Random, state: Any) -> None:
        setstate(self, state)
        made.pop(id(self), None)

    def makes(seed: Any = None) -> np.random.Generator:
        one = default_rng(seed)
        if seed is None:
            note(one, lambda: one.bit_generator.state)
        return one

    random.Random.seed, random.Random.setstate = seeds, sets_state  # type: ignore[method-assign]
    np.random.default_rng = makes
    try:
        yield taken
    finally:
        random.Random.seed, random.Random.setstate = seed, setstate  # type: ignore[method-assign]
        np.random.default_rng = default_rng
        taken += [culprit for state, first, culprit in made.values() if repr(state()) != repr(first)]


class Tracing:
    """Watches some of the shared generators, given by their indexes in SHARED. It replaces any other line tracer
    meanwhile.
    """

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


def _caller(frame: FrameType | None) -> Culprit | None:
    """Returns the program's line that created a generator; None if it was no program."""
    while frame is not None and _module(frame).partition(".")[0] in MAKERS:
        frame = frame.f_back
    return None if frame is None or _is_library(frame) else _at(frame)


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
