"""The place of a call: the user's lines, without frames of torch, of Python's own library and of the recorder.

    place_of(frame)      # (("step", "train.py:42"), ("main", "train.py:60")), the innermost first

The module looks up the place of a call by code objects and offsets. So a repeated call at the same place creates no
text.
"""

from __future__ import annotations

import os
from types import CodeType, FrameType

DEPTH = 3
"""The number of the user's lines in a place."""

MOST = 20_000
"""The number of places that the module caches."""

_HERE = os.path.dirname(os.path.abspath(__file__))
_OTHERS = tuple(
    os.sep + "torch" + os.sep + part + os.sep for part in ("distributed", "nn", "autograd", "utils", "_dynamo")
)
_ALSO = (
    f"{os.sep}contextlib.py",
    f"{os.sep}functools.py",
    f"{os.sep}threading.py",
    f"{os.sep}typing_extensions.py",
    "<frozen ",
)

_LIBRARY = os.path.dirname(os.__file__) + os.sep
"""The folder of Python's own library, with the one of installed packages in it."""

_INSTALLED = f"-packages{os.sep}"

_users: dict[int, bool] = {}
"""Whether a code object is the user's, by its id, since hashing a code object hashes all its contents."""
_codes: list[CodeType] = []
"""The same code objects, kept alive so that ids stay unique."""


def _is_users(code: CodeType) -> bool:
    file = code.co_filename
    found = not (file.startswith(_HERE) or any(part in file for part in (*_OTHERS, *_ALSO)))
    found = found and (_INSTALLED in file or not file.startswith(_LIBRARY))
    _codes.append(code)
    _users[id(code)] = found
    return found


def key_of(frame: FrameType | None) -> tuple[int, ...]:
    """Returns the key of a place: code and offset of the user's innermost frames."""
    key: list[int] = []
    add, users, left = key.append, _users, DEPTH
    while frame is not None:
        code = id(frame.f_code)
        own = users.get(code)
        if own is None:
            own = _is_users(frame.f_code)
        if own:
            add(code)
            add(frame.f_lasti)
            left -= 1
            if not left:
                break
        frame = frame.f_back
    return tuple(key)


def lines_of(frame: FrameType | None) -> list[tuple[str, str]]:
    """Returns function and line of the user's innermost frames."""
    lines: list[tuple[str, str]] = []
    while frame is not None and len(lines) < DEPTH:
        if _users[id(frame.f_code)]:
            lines.append((frame.f_code.co_name, f"{frame.f_code.co_filename}:{frame.f_lineno}"))
        frame = frame.f_back
    return lines
