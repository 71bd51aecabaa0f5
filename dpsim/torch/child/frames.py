"""Finds the user's line that made a call, from the frames of the process. Records and reports name this line.

    site("all_reduce")              # "train:Trainer.step+3.all_reduce", the same in each run and on each rank

A site names module, function, line within the function, and call; a place, sent once a site, names file and line.
Frames of torch, of Python's library and of dpsim are skipped, so a call inside a library has the user's line.
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

_thread = threading.local()
_users: dict[CodeType, bool] = {}
_known_sites: dict[tuple[CodeType, int, str], str] = {}
"""Maps code object, line and call to the site, if dpsim already has its place."""


def is_users(code: CodeType) -> bool:
    """Returns whether code belongs to the user or to an installed package other than torch and dpsim."""
    known = _users.get(code)
    if known is None:
        file = code.co_filename
        library = file.startswith((_TORCH, _OURS, "<")) or file == _MARK
        known = _users[code] = not (library or is_standard(code))
    return known


def is_standard(code: CodeType) -> bool:
    """Returns whether code belongs to Python's library."""
    return code.co_filename.startswith((_STANDARD, "<frozen")) and not is_installed(code)


def is_installed(code: CodeType) -> bool:
    """Returns whether code belongs to an installed package."""
    return any(one in code.co_filename for one in _PACKAGES)


def users_frame(depth: int = 1) -> FrameType | None:
    """Returns the innermost frame of the user, from `depth` frames above the caller outwards, or None."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
    return frame


def users_place() -> str:
    """Returns file and line of the user's innermost frame, or `?`."""
    frame = users_frame(2)
    return "?" if frame is None else place_of(frame)


def place_of(frame: FrameType) -> str:
    """Returns file and line at which a frame is."""
    return _place(frame, frame.f_lineno)


def site(op: str) -> str:
    """Returns the site of the call `op` that the rank makes now."""
    frame = users_frame(2)
    if frame is not None:
        return _site(frame.f_code, frame.f_lineno, op, lambda: _begun(frame))
    begun: Begun | None = getattr(_thread, "begun", None)
    return f"?.{op}" if begun is None else _site(begun[1], begun[2], op, lambda: begun)


def _site(code: CodeType, line: int, op: str, of: Callable[[], Begun]) -> str:
    """Sends the place to dpsim at the first call. `of`: finds it."""
    known = _known_sites.get((code, line, op))
    if known is None:
        module, _, _, calls = of()
        known = _word(f"{module}:{code.co_qualname}+{line - code.co_firstlineno}.{op}")
        _known_sites[code, line, op] = known
        tell(["place", known, calls])
    return known


def here() -> Begun | None:
    """Returns the user's line that starts a thread, for `begin` in the new thread."""
    frame = users_frame(2)
    return getattr(_thread, "begun", None) if frame is None else _begun(frame)


def begin(begun: Begun | None) -> None:
    """Sets the user's line that started this thread. Calls without a user's frame have this line as their place."""
    _thread.begun = begun


def _begun(frame: FrameType) -> Begun:
    return _module(frame), frame.f_code, frame.f_lineno, _chain(frame)


def raised_at(trace: TracebackType | None) -> list[list[str]]:
    """Returns the innermost user's frames of an exception, innermost first: pairs of function and place."""
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
            calls.append([frame.f_code.co_name, place_of(frame)])
        frame = frame.f_back
    return calls


def _place(frame: FrameType, line: int) -> str:
    return _word(place_in(str(frame.f_globals.get("__name__", "?")), frame.f_code, line))


def _module(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", "?"))
    return Path(frame.f_code.co_filename).stem if name == "__main__" else name


def _word(text: str) -> str:
    return _NOT_WORD.sub("_", text)
