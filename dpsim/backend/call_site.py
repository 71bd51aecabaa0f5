"""Where in the source an op was issued, found once a place."""

from __future__ import annotations

from collections import defaultdict
from types import CodeType, FrameType
from typing import TypeAlias

Places: TypeAlias = dict[int, tuple[CodeType, str]]
"""Where calls came from, by position in the bytecode. The code object is compared, not looked up: its hash runs over
all of its constants.
"""


_PLACES: defaultdict[str, Places] = defaultdict(dict)
"""By site. Shared by all journals of the process, so a place is worked out once."""


class Site:
    """What a journal has of a site: how often its rank came there, and from where."""

    __slots__ = ("count", "places")

    def __init__(self, site: str) -> None:
        self.count = 0
        self.places = _PLACES[site]


def _where(places: Places, frame: FrameType) -> str:
    """The place of a frame that issues an op, to be found again among the places of its site."""
    known = places.get(frame.f_lasti)
    if known is None or known[0] is not frame.f_code:
        known = places[frame.f_lasti] = frame.f_code, _place(frame, frame.f_lineno)
    return known[1]


def _place(frame: FrameType, line: int) -> str:
    """ "dpsim/ops.py:88": the module's name is a path that is the same in a tree and in a wheel."""
    module = frame.f_globals.get("__name__", "?")
    if module == "__main__":
        module = frame.f_code.co_filename.rsplit("/", 1)[-1].removesuffix(".py")
    return f"{module.replace('.', '/')}.py:{line}"


_own: set[str] = {"dpsim.backend"}


def own_code(*packages: str) -> None:
    """Say that the frames of these packages are a backend's and never a program's: where a program raised is the
    innermost of its own. Each backend says it in its `__init__`, for itself and for the libraries that it calls.
    """
    _own.update(packages)


def is_own_code(frame: FrameType) -> bool:
    """Whether a frame belongs to a backend. "real" is one; "realtime_protocol" and "real_worlds" are not."""
    package = str(frame.f_globals.get("__name__", ""))
    while package:
        if package in _own:
            return True
        package = package.rpartition(".")[0]
    return False
