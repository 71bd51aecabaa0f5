"""Steps, from the loops of the user's program: a line that comes again begins a new step.

    for batch in batches:           # the outermost loop that makes calls
        loss(batch)                 # all_reduce: step 0, 1, 2, ...

A call has a path: the user's frames that led to it, with the line at which each stands. Where a frame reaches a line
that does not lie behind its last one, it went round a loop. The outermost frame that does so counts the steps. A rank
that leaves a call out in one round counts that round if it makes another call there. A program that says its steps
(`dpsim.mark.step`) is believed, and nothing is inferred.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from dpsim.torch.child.frames import is_users
from dpsim.torch.child.pipe import tell


class Loops(threading.local):
    """The loops of each thread of this rank. `said`: the program says its steps itself, by the thread that did so."""

    said: list[int] = []  # noqa: RUF012  # one for all threads

    def __init__(self) -> None:
        self.step = -1
        self._path: list[tuple[int, int]] = []
        self._depth: int | None = None

    def come(self) -> None:
        """The rank makes a call."""
        if self.said:
            return
        path = _path(sys._getframe(1))
        depth = self._round(path)
        self._path = path
        if self.step < 0 or (depth is not None and (self._depth is None or depth <= self._depth)):
            if depth is not None:
                self._depth = depth
            self.step += 1
            tell(["loop", self.step])

    def says(self, number: int) -> None:
        """The program says its step."""
        self.said.append(number)
        tell(["step", number])

    def _round(self, path: list[tuple[int, int]]) -> int | None:
        """The depth of the outermost frame that went round a loop since the last call; None if none did."""
        for depth, ((frame, line), (before, last)) in enumerate(zip(path, self._path, strict=False)):
            if frame != before:  # the line that calls it came again
                return depth - 1 if depth else None
            if line != last:
                return depth if line < last else None
        return min(len(path), len(self._path)) - 1 if self._path else None


def _path(frame: FrameType | None) -> list[tuple[int, int]]:
    path = []
    while frame is not None:
        if is_users(frame.f_code):
            path.append((id(frame), frame.f_lineno))
        frame = frame.f_back
    return path[::-1]


LOOPS = Loops()
