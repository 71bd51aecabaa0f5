"""Infers the steps of a rank from the loops of the user's program: each new round of the outermost loop is a step.

    for batch in batches:           # the outermost loop that makes calls
        loss(batch)                 # all_reduce: step 0, 1, 2, ...

Each call has a path: the frames of the user that lead to it, each with its place, a line and an instruction. A frame
started a new round if its place is not after its place at the last call. A round counts even if the rank skips some of
its calls. A batch counts as one call. The outermost frame with such a loop counts the steps. A program that marks its
steps has only these (`dpsim.mark.step`).
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import TypeAlias

from dpsim.torch.child.frames import is_users
from dpsim.torch.child.pipe import tell

Level: TypeAlias = tuple[int, tuple[int, int]]
"""A frame, by `id`, and its place: line and instruction."""


class Loops(threading.local):
    """The loops of one thread of this rank. `said`: the steps that the program marked, in one list for all threads."""

    said: list[int] = []  # noqa: RUF012  # one for all threads

    def __init__(self) -> None:
        self.step = -1
        self._path: list[Level] = []
        self._depth: int | None = None

    def come(self) -> None:
        """Notes that the rank makes a call, and sends a new step to dpsim if a round has begun."""
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
        """Sends the step that the program marked."""
        self.said.append(number)
        tell(["step", number])

    def _round(self, path: list[Level]) -> int | None:
        """Returns the depth of the outermost frame that began a new round since the last call, or None."""
        for depth, ((frame, place), (before, last)) in enumerate(zip(path, self._path, strict=False)):
            if frame != before:  # the calling place ran again, so its frame began a new round
                return depth - 1 if depth else None
            if place != last:
                return depth if place < last else None
        return min(len(path), len(self._path)) - 1 if self._path else None


def _path(frame: FrameType | None) -> list[Level]:
    path = []
    while frame is not None:
        if is_users(frame.f_code):
            path.append((id(frame), (frame.f_lineno, frame.f_lasti)))
        frame = frame.f_back
    return path[::-1]


LOOPS = Loops()
