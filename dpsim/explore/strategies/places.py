"""The state of a DPOR search between two runs: the places of its present schedule, as objects and as plain data."""

from __future__ import annotations

from typing import NamedTuple

from dpsim.contract.schedule import Footprint, OptionalWait
from dpsim.explore.order import Step


class ToTurn(NamedTuple):
    """A race to reverse at a shared place: one of the steps `first` has to be tried there; None: all options."""

    at: int
    first: tuple[str, ...] | None


class PlaceState(NamedTuple):
    """A `ChoicePoint` as plain data. `footprint`: of the chosen step; None for a draw, or before the first run."""

    options: list[str]
    sleep: dict[str, Footprint]
    chosen: str
    todo: list[str]
    tried: dict[str, Footprint]
    footprint: Footprint | None


class DporState(NamedTuple):
    """The state of a `Dpor` between runs, as plain data. `own`: its first own place. `anew`: all has to begin again."""

    places: list[PlaceState]
    fresh: int
    begun: bool
    incomplete: bool
    first: bool
    at_once: list[str]
    known_to_fail: list[int]
    own: int
    anew: bool


class ChoicePoint:
    """A place of the present schedule, at which the search chose a step or the option of a draw. `todo`: the options to
    try. `tried`: with their footprints. `sleep`: not to try. `step`: None for a draw. `wait`: what the draw decided in
    this run.
    """

    __slots__ = ("chosen", "options", "sleep", "step", "todo", "tried", "wait")

    def __init__(self, options: list[str], sleep: dict[str, Footprint], chosen: str) -> None:
        self.options = options
        self.sleep = sleep
        self.chosen = chosen
        self.todo = [chosen]
        self.tried: dict[str, Footprint] = {}
        self.step: Step | None = None
        self.wait: OptionalWait | None = None

    def choices(self) -> list[str]:
        """Returns the options that were tried or have to be: at least the present one."""
        return [one for one in self.todo if one not in self.sleep] or [self.chosen]

    def next(self) -> str | None:
        """Returns an option that is still to be tried, or None."""
        return next((one for one in self.todo if one not in self.tried and one not in self.sleep), None)

    def state(self) -> PlaceState:
        """Returns the place as plain data, which shares the lists of the place."""
        footprint = self.step.footprint if self.step is not None else None
        return PlaceState(self.options, self.sleep, self.chosen, self.todo, self.tried, footprint)

    @classmethod
    def of(cls, state: PlaceState) -> ChoicePoint:
        """Returns a place with this state, which it does not change."""
        place = cls(state.options, state.sleep, state.chosen)
        place.todo, place.tried = [*state.todo], {**state.tried}
        return place
