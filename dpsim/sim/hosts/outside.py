"""Outside: what the ranks of one run touch besides the contract, with the line of the program.

    with Outside() as outside:
        ...                             # the run; `outside.state.enter(rank)` before a rank goes on
    outside.touched                     # {("clock", "engine.py:12", 1): None}
    outside.drawn                       # [(culprit, "the generator of random")]: numbers drawn without a seed

Only the program counts, with the calls that Python's library and installed packages make for it. dpsim's own reads do
not count, nor imports and logging, because the program does not learn from them. `dpsim.sim.hosts.sources` lists what
is a source.

With `elsewhere`, clocks jump by an hour at each read of the program, and a generator without a seed draws other
numbers. A program that makes the same calls there does not depend on them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

from dpsim.backend.calls.rank import JournaledRank
from dpsim.backend.journal.call_site import is_library, is_own_code, place_in
from dpsim.contract.registry import modules, packages
from dpsim.sim.hosts.own_state import SHARED, OwnState
from dpsim.sim.hosts.sources import CLOCK, ENTROPY, STATE, SourceListener, StandIn, StandIns, listener

JUMP = 3_600
"""The seconds by which a clock jumps at each read of the program, if a run happens elsewhere."""

SILENT = {"importlib", "logging", "linecache", "traceback", "tokenize", "inspect", "warnings", "encodings", "zoneinfo"}
"""Modules of Python whose reads tell a program nothing."""

NAMES_ONLY = "tempfile"
"""A module whose random numbers are only names of files."""

_STAND_INS = StandIns()

SEEDS = ("seed", "setstate", "set_state")
OWN = "a generator of the program"


class Touch(NamedTuple):
    """A rank touched something of this kind (`dpsim.sim.hosts.sources`) at a line."""

    what: str
    where: str
    rank: int


class ProgramPlace(NamedTuple):
    """Rank, step and line of a program. `through`: modules of libraries that it called there."""

    rank: int
    step: int
    where: str
    through: frozenset[str] = frozenset()


class UnseededDraw(NamedTuple):
    """A number that was drawn without a seed. `generator`: of what, in words."""

    place: ProgramPlace
    generator: str


class Outside:
    """What one run touched. It hears of all sources in its block, and restores the process's state after it."""

    def __init__(self, elsewhere: bool = False, touched: dict[tuple[str, str, int], None] | None = None) -> None:
        """`touched`: where it keeps what ranks touched, by kind, line and rank."""
        self.touched = {} if touched is None else touched
        self.drawn: list[UnseededDraw] = []
        self.state = OwnState("elsewhere" if elsewhere else "")
        self._elsewhere = elsewhere
        self._reads = 0
        self._clock: StandIn | None = None
        self._before: list[SourceListener] = []
        self._made: dict[int, tuple[Callable[[], Any], str, ProgramPlace]] = {}

    def __enter__(self) -> Self:
        _STAND_INS.__enter__()
        self._before, listener[:] = listener[:], [self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        listener[:] = self._before
        if self.state.active:
            self.state.put_back()
        for state, first, place in self._made.values():
            if repr(state()) != first:
                self.drawn.append(UnseededDraw(place, OWN))
        self._made.clear()
        _STAND_INS.__exit__(kind, error, trace)

    # ---- what the sources tell

    def touches(self, kind: str, source: StandIn, args: tuple[Any, ...], frame: FrameType) -> None:
        place = place_of_program(frame)
        if kind == CLOCK:
            self._clock = None if place is None else source
        if place is None or (kind == ENTROPY and NAMES_ONLY in place.through):
            return
        if kind == STATE:
            self._changes(source, args, place)
        else:
            self.touched[kind, place.where, place.rank] = None

    def shifted(self, source: StandIn, value: Any) -> Any:
        if not self._elsewhere or source is not self._clock:
            return value
        self._reads += 1
        seconds = JUMP * self._reads
        if isinstance(value, datetime.datetime):
            return value + datetime.timedelta(seconds=seconds)
        if isinstance(value, int | float):
            return value + (seconds * 10**9 if source.name.endswith("_ns") else seconds)
        return value

    def made(self, generator: Any, state: Callable[[], Any], seeded: bool, frame: FrameType) -> None:
        self._made.pop(id(generator), None)
        place = None if seeded else place_of_program(frame)
        if place is not None and NAMES_ONLY not in place.through:
            self._made[id(generator)] = state, repr(state()), place

    def _changes(self, source: StandIn, args: tuple[Any, ...], place: ProgramPlace) -> None:
        """A rank touches state of the process. `drawn`: it draws from a shared generator that it has not seeded."""
        kind = self.state.touched(source.function, place.rank)
        if kind not in SHARED:
            return
        if source.name in SEEDS and args and args[0] is not None:
            self.state.seeded.add((kind, place.rank))
        elif (kind, place.rank) not in self.state.seeded:
            self.drawn.append(UnseededDraw(place, f"the generator of {kind}"))


def place_of_program(frame: FrameType | None) -> ProgramPlace | None:
    """Returns where the program stands whose call led to this frame; None if it was dpsim, an import or a log."""
    through = set()
    own = packages()
    while frame is not None and (is_library(frame, own) or frame.f_globals.get("__name__") == StandIn.__module__):
        name = str(frame.f_globals.get("__name__", "?")).partition(".")[0]
        if name.removeprefix("_frozen_") in SILENT:
            return None
        through.add(name)
        frame = frame.f_back
    if frame is None or is_own_code(frame) or _is_framework(frame):
        return None
    where, outer = place_in(str(frame.f_globals.get("__name__", "?")), frame.f_code, frame.f_lineno), frame
    while not isinstance(rank := outer.f_locals.get("rank"), JournaledRank):
        if outer.f_back is None or str(outer.f_globals.get("__name__", "")).startswith("importlib."):
            return None
        outer = outer.f_back
    return ProgramPlace(rank.rank, rank.step, where, frozenset(through))


def _is_framework(frame: FrameType) -> bool:
    parts = str(frame.f_globals.get("__name__", "")).split(".")
    return parts[0] == "dpsim" and parts[:2] not in [name.split(".")[:2] for name in modules()]
