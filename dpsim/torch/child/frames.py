"""The user's lines: from the frames of a process, what a record says of a call.

    site("all_reduce")              # "train:Trainer.step+3.all_reduce", the same in each run and on each rank

A site consists of module, function, line within the function, and call. dpsim skips frames of torch, of Python's
library and of dpsim. So a call that a library makes has the user's line that led there. The child sends the place of a
site once, with the calls that led there: at most three frames of the user.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TypeAlias

import torch

from dpsim.backend.journal.call_site import place_in
from dpsim.torch.child.pipe import tell

FRAMES = 3
_NOT_WORD = re.compile("[^!-~]+")
_TORCH = str(Path(torch.__file__).parent) + "/"
_STANDARD = sysconfig.get_path("stdlib") + "/"
_OURS = str(Path(__file__).parent.parent) + "/"
_MARK = str(Path(__file__).parent.parent.parent / "mark.py")
_PACKAGES = ("site-packages", "dist-packages")

Begun: TypeAlias = tuple[str, CodeType, int, list[list[str]]]
"""Module, function, line and calls of a user's frame."""

_thread = threading.local()
_users: dict[CodeType, bool] = {}
_told: dict[tuple[CodeType, int, str], str] = {}
"""By the code of the user's frame, its line and the call: the site, of which dpsim has the place."""


def is_users(code: CodeType) -> bool:
    """Whether code is the user's, or that of a package of his which is not torch."""
    known = _users.get(code)
    if known is None:
        file = code.co_filename
        library = file.startswith((_TORCH, _OURS, "<")) or file == _MARK
        known = _users[code] = not (library or is_standard(code))
    return known


def is_standard(code: CodeType) -> bool:
    """Whether code is that of Python's library."""
    file = code.co_filename
    return file.startswith((_STANDARD, "<frozen")) and not any(one in file for one in _PACKAGES)


def users_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the user's."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
    return frame


def site(op: str) -> str:
    """The site of a call that is made now."""
    frame = users_frame(2)
    if frame is not None:
        return _site(frame.f_code, frame.f_lineno, op, lambda: _begun(frame))
    begun: Begun | None = getattr(_thread, "begun", None)
    return f"?.{op}" if begun is None else _site(begun[1], begun[2], op, lambda: begun)


def _site(code: CodeType, line: int, op: str, of: Callable[[], Begun]) -> str:
    """The site of a call at a line. dpsim gets its place, which `of` says, at the first call."""
    known = _told.get((code, line, op))
    if known is None:
        module, _, _, calls = of()
        known = _word(f"{module}:{code.co_qualname}+{line - code.co_firstlineno}.{op}")
        _told[code, line, op] = known
        tell(["place", known, calls])
    return known


def here() -> Begun | None:
    """The user's line that calls, for a thread that begins there."""
    frame = users_frame(2)
    return getattr(_thread, "begun", None) if frame is None else _begun(frame)


def begin(begun: Begun | None) -> None:
    """This thread has begun at a line of the user's: it is the place of calls that a library makes in it."""
    _thread.begun = begun


def _begun(frame: FrameType) -> Begun:
    return _module(frame), frame.f_code, frame.f_lineno, _chain(frame)


def raised_at(trace: TracebackType | None) -> list[list[str]]:
    """The innermost user's frame of an exception, and those that called it."""
    frames = []
    while trace is not None:
        if is_users(trace.tb_frame.f_code):
            frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return [[frame.f_code.co_name, _place(frame, line)] for frame, line in frames[: -1 - FRAMES : -1]]


def _chain(frame: FrameType | None) -> list[list[str]]:
    calls: list[list[str]] = []
    while frame is not None and len(calls) < FRAMES:
        if is_users(frame.f_code):
            calls.append([frame.f_code.co_name, _place(frame, frame.f_lineno)])
        frame = frame.f_back
    return calls


def _place(frame: FrameType, line: int) -> str:
    return _word(place_in(str(frame.f_globals.get("__name__", "?")), frame.f_code, line))


def _module(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", "?"))
    return Path(frame.f_code.co_filename).stem if name == "__main__" else name


def _word(text: str) -> str:
    return _NOT_WORD.sub("_", text)
