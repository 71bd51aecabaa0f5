"""Shows on stderr how far a command is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from dpsim.cli.streams import is_terminal, note
from dpsim.cli.timer import Timer


class Progress:
    """Shows the number of finished steps: as a bar on a terminal, otherwise as a line every ten seconds. Work of less
    than half a second shows nothing. A timer updates the display, if its signal is free: this process forks, so no
    thread does. `unit`: a word for one step. `budget`: seconds that the command may take.
    """

    AFTER_S = 0.5
    LINE_EVERY_S = 10.0
    DRAW_EVERY_S = 0.1
    TICK_S = 1.0

    def __init__(
        self,
        title: str,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "step",
        budget: float | None = None,
        quiet: bool = False,
    ) -> None:
        self.title = title
        self._budget = budget
        self._quiet = quiet
        self._unit = unit
        self._clock = clock
        self._start = self._last = clock()
        self._terminal = is_terminal(sys.stderr)
        self._bar: Any = None
        self._task: Any = None
        self._done: tuple[int, int | None] | None = None
        self._line = ""
        self._timer = Timer(self.TICK_S, self._show)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.stop()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """Reports steps. `done`: the finished steps, from 0. `total`: all steps, or None if it is unknown."""
        self._done = done, total
        self._show()

    def set_line(self, line: str) -> None:
        """Sets a text that replaces the number of steps."""
        self._line = line

    def phase(self, title: str) -> None:
        """Sets another title and resets the number of steps."""
        self.title, self._done = title, None
        if self._bar is not None:
            self._draw(f"{title}{self._left(self._clock())}", 0, None)

    def _left(self, now: float) -> str:
        if self._budget is None:
            return ""
        left = self._budget - (now - self._start)
        return f", {left:.0f} s left" if left >= 0.5 else ", budget used up"

    def _show(self) -> None:
        now = self._clock()
        if self._quiet:
            return
        if self._terminal:
            if now - self._start >= self.AFTER_S and now - self._last >= self.DRAW_EVERY_S:
                self._last = now
                title = f"{self.title}: {self._line}" if self._line else self.title
                self._draw(f"{title}{self._left(now)}", *(self._done or (0, None)))
        elif now - self._last >= self.LINE_EVERY_S:
            self._last = now
            done, total = self._done or (0, None)
            of = "" if total is None else f" of {total}"
            how_far = f"no {self._unit} yet" if self._done is None else self._line or f"{self._unit} {done}{of}"
            note(f"dpsim: {self.title}: {how_far} after {now - self._start:.0f} s{self._left(now)}")

    def _draw(self, title: str, done: int, total: int | None) -> None:
        if self._bar is None:
            self._bar, self._task = _new_bar(estimate=self._budget is None)
        self._bar.update(self._task, description=title, completed=max(done, 0), total=total)
        self._bar.refresh()


def _new_bar(estimate: bool) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    parts = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn())
    times = (TimeElapsedColumn(), *[TimeRemainingColumn()] * estimate)
    bar = Bar(*parts, *times, console=Console(stderr=True, force_terminal=True), auto_refresh=False, transient=True)
    bar.start()
    return bar, bar.add_task("", total=None)
