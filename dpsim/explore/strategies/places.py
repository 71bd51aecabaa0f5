"""Where a DPOR stands: the places of the present schedule, and both as plain data, which crosses processes."""

from __future__ import annotations

from typing import NamedTuple

from dpsim.contract.schedule import Footprint, OptionalWait
from dpsim.explore.order import Step


class ToTurn(NamedTuple):
    """At this place of the prefix, which others have, one of `first` has to be tried; all options, if that is None."""

    at: int
    first: tuple[str, ...] | None


class PlaceState(NamedTuple):
    """A `ChoicePoint` as plain data. `footprint`: of what was chosen; None for a draw, and if it was not chosen yet."""

    options: list[str]
    sleep: dict[str, Footprint]
    chosen: str
    todo: list[str]
    tried: dict[str, Footprint]
    footprint: Footprint | None


class DporState(NamedTuple):
    """Where a `Dpor` stands between two runs, as plain data. `own`: places from here on are its own. `anew`: a run of
    it has shown that everything has to begin anew.
    """

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
    """A point of the present schedule at which something was chosen.

    `todo`: what has to be tried here. `tried`: what was, with the footprint that it had. `sleep`: what need not be.
    `step`: what happened here; None for a draw. `wait`: what the draw was about in the present run.
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
        """What was tried or has to be. At least what is tried now."""
        return [one for one in self.todo if one not in self.sleep] or [self.chosen]

    def next(self) -> str | None:
        """What is left to try."""
        return next((one for one in self.todo if one not in self.tried and one not in self.sleep), None)
