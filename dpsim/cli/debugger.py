"""pdb at an op of a replay, with two more commands that show the state of every rank.

    (dpsim) ranks                # where each rank is, and which rank it waits for
    (dpsim) rank 2               # the variables of rank 2 in its current frame
    (dpsim) rank 2 batch.tokens  # an expression in that frame

The debugger stops inside of a call of the program, before its op has any effect. It stops for the last time at the
return of a coroutine, because pdb would go on in frames of dpsim or of another rank.
"""

from __future__ import annotations

import inspect
import pdb
import sys
from dis import opname
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from dpsim.backend.journal.call_site import is_own_code
from dpsim.contract.words import printable, short

if TYPE_CHECKING:
    from dpsim.campaign.stepping import Stepping

LONGEST = 200

WAITS = ("YIELD_VALUE", "RESUME")
"""The op of a coroutine's frame that waits. In Python 3.13 the frame is already at the op that continues it."""


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
            why = self._looks.without_frame(int(number)) if number.isdecimal() else ""
            absent = f"rank {number} {why}" if why else f"{number or 'rank'}: no such rank"
            self.error(f"{absent}; expected rank N [EXPRESSION]")
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
        return not _is_dpsim(frame) and bool(super().stop_here(frame))

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        """Stops where a coroutine returns, but not where it waits. If it returns to dpsim, the debugger ends."""
        observed = frame is self.stopframe or self.stop_here(frame)
        if not observed or not frame.f_code.co_flags & inspect.CO_COROUTINE:
            return super().dispatch_return(frame, arg)
        if opname[frame.f_code.co_code[frame.f_lasti]] in WAITS:
            if self.stopframe is None:
                self.set_next(frame)  # else `s` would stop in the program of another rank
            return self.trace_dispatch
        self.set_step()  # else pdb ignores the return of a coroutine
        action = super().dispatch_return(frame, arg)
        if self.stoplineno != -1 and frame.f_back is not None and _is_dpsim(frame.f_back):
            ends = "pdb stops at the next breakpoint" if self.breaks else "pdb ends"
            self.message(f"{frame.f_code.co_name}() has returned, so {ends}, and the replay continues")
            self.set_continue()
        return action

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """Continues if the exception is in a frame of dpsim, where pdb has no line of the program to show."""
        if _is_dpsim(frame):
            self.set_continue()
        else:
            super().user_exception(frame, exc_info)

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Returns the frames of the program, and at a breakpoint that the user sets in dpsim all frames."""
        stack, at = super().get_stack(f, t)
        if _is_dpsim(stack[at][0]):
            return stack, at
        begin = next((place + 1 for place in range(at, -1, -1) if _is_dpsim(stack[place][0])), 0)
        return stack[begin:], at - begin

    def _frame(self, number: str) -> FrameType | None:
        if not number.isdecimal():
            return None
        running = self._looks.running()  # another rank than at first, if the user sets further breakpoints
        current = int(number) == (self._rank if running is None else running)
        return self.curframe if current else self._looks.frame_of(int(number))


def _is_dpsim(frame: FrameType) -> bool:
    """Whether a frame belongs to the simulation or to the code that watches it. Models of engines are programs."""
    module = str(frame.f_globals.get("__name__", ""))
    return is_own_code(frame) or module.startswith(("dpsim.contract.", "dpsim.campaign.", "dpsim.explore."))


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
    for line in [*looks.lines(), looks.stop_words()]:
        debugger.message(printable(line))
    debugger.interaction(frame, None)
    if debugger.quitting:
        return True
    if debugger.stopframe is not debugger.botframe or debugger.breaks:
        sys.settrace(debugger.trace_dispatch)
    return False
