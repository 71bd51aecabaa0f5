"""pdb at an op of a replay, with two more commands that show the state of every rank.

    (dpsim) ranks                # where each rank is, and which rank it waits for
    (dpsim) rank 2               # the variables of rank 2 in its current frame
    (dpsim) rank 2 batch.tokens  # an expression in that frame

All other commands are pdb's own: `w`, `p`, `up`, `n`, `c`. The program has made the call, but the op has not happened
yet.
"""

from __future__ import annotations

import pdb
import sys
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from dpsim.backend.journal.call_site import is_own_code
from dpsim.contract.words import printable, short

if TYPE_CHECKING:
    from dpsim.campaign.stepping import Stepping

LONGEST = 200


class RankDebugger(pdb.Pdb):
    """pdb with the commands `ranks` and `rank`."""

    def __init__(self, looks: Stepping, rank: int) -> None:
        super().__init__(stdin=sys.stdin, stdout=sys.stdout)
        self.use_rawinput = sys.stdin is sys.__stdin__
        self.prompt = "(dpsim) "
        self._looks, self._rank = looks, rank

    def do_ranks(self, _: str) -> None:
        """ranks: where each rank is, and which rank it waits for."""
        for line in self._looks.lines():
            self.message(printable(line))

    def do_rank(self, words: str) -> None:
        """rank N [EXPRESSION]: the variables of rank N in its current frame, or an expression there."""
        number, _, expression = words.strip().partition(" ")
        frame = self._frame(number)
        if frame is None:
            self.error(f"{number or 'rank'}: no rank that stands in its program; expected rank N [EXPRESSION]")
            return
        if not expression:
            self.message(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            for name, value in frame.f_locals.items():
                self.message(f"  {name} = {_shown(value)}")
            return
        try:
            self.message(_shown(eval(expression, frame.f_globals, frame.f_locals)))
        except Exception as error:
            self.error(f"{type(error).__name__}: {error}")

    def stop_here(self, frame: FrameType) -> bool:
        """Returns False in frames of dpsim, so that `s` steps into calls of the program and not into those of dpsim."""
        return not is_own_code(frame) and bool(super().stop_here(frame))

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Returns only the frames of the program, without the frames of dpsim that run it."""
        stack, at = super().get_stack(f, t)
        begin = next((place + 1 for place in range(at, -1, -1) if is_own_code(stack[place][0])), 0)
        return stack[begin:], at - begin

    def _frame(self, number: str) -> FrameType | None:
        if not number.isdecimal():
            return None
        return self.curframe if int(number) == self._rank else self._looks.frame_of(int(number))


def _shown(value: object) -> str:
    try:
        return printable(short(repr(value), LONGEST))
    except Exception as error:
        return f"<{type(error).__name__} in repr>"


def open_debugger(frame: FrameType, looks: Stepping, rank: int) -> bool:
    """Opens pdb in `frame`, a frame of the program, and continues after it. Returns True if the user quits."""
    debugger = RankDebugger(looks, rank)
    debugger.reset()
    outer: FrameType | None = frame
    while outer is not None:
        outer.f_trace = debugger.trace_dispatch
        debugger.botframe = outer
        outer = outer.f_back
    for line in looks.lines():
        debugger.message(printable(line))
    debugger.interaction(frame, None)
    if debugger.quitting:
        return True
    if debugger.stopframe is not debugger.botframe or debugger.breaks:
        sys.settrace(debugger.trace_dispatch)
    return False
