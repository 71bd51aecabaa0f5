"""The place in the source where a program issued an op, and which code belongs to a backend rather than to a program.

A place is a text such as "dpsim/vllm/museum/batch.py:88". The journal needs one for every op, so this module computes
it once for each call in the source. Later calls find it by their position in the bytecode.

A backend declares in its `__init__` which packages are its own code, for itself and for libraries that it calls:

    from dpsim.backend.journal.call_site import own_code

When a program first reaches a place, the module walks the stack. It stores the innermost frames as the chain of calls
of this place (`chains`). Later ops at the place get this chain even if other functions led there: to walk the stack for
each op would be slow.

If a program raises, the place of the error is the innermost frame of the program's code (`raised_at`). Frames of a
backend, or of a library such as numpy, do not count.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Protocol, TypeAlias

from dpsim.backend.journal.elsewhere import Elsewhere, chains_by_site
from dpsim.contract.chain import CHAIN_FRAMES, Chain

Places: TypeAlias = dict[int, tuple[CodeType, str]]
"""By position in the bytecode. A code object is compared and not hashed: its hash covers all its constants."""

_places: defaultdict[str, Places] = defaultdict(dict)
"""By site. All journals of the process share the table, so each place is computed once."""

chains: dict[str, Chain] = {}
"""By place: the chain of calls that first led there."""

chain_listeners: list[Callable[[str, Chain], None]] = []
"""Functions that receive each new chain at once: a parent process cannot read the table of a worker process."""

Seen: TypeAlias = dict[tuple[int, int, str], Chain]
"""By rank, step and place: the chain of calls that first led there."""

_watched: dict[str, Seen] = {}

_own = {"dpsim.backend", "dpsim.contract.collectives"}

_LIBRARY = re.compile(rf"<|{re.escape(sysconfig.get_path('stdlib'))}|.*[/\\](site|dist)-packages[/\\]")
"""Matches the file names of Python's library, of installed packages, and of code without a file."""

_STANDARD = re.compile(rf"<|{re.escape(sysconfig.get_path('stdlib'))}[/\\\\](?!(site|dist)-packages[/\\\\])")
"""As `_LIBRARY`, without installed packages, since a program may be installed."""

_WORD = re.compile("[!-~]+")


def is_word(name: object) -> bool:
    """Whether the text is printable ASCII without spaces."""
    return isinstance(name, str) and _WORD.fullmatch(name) is not None


class Site:
    """A site of a thread's journal: how often the thread reached it, and the places of its calls."""

    __slots__ = ("count", "places")

    def __init__(self, site: str) -> None:
        """Raises ValueError for a name that is no word: labels and addresses could not tell it from other text."""
        if type(site) is not str or (site not in _places and not is_word(site)):
            raise ValueError(f"the site {site!r} is no word; a site is printable ASCII without spaces, e.g. dp.agree")
        self.count = 0
        self.places = _places[site]


class Caller(Protocol):
    """The fields of a journal that `place_of` uses."""

    rank: int
    step: int


@contextmanager
def watched(site: str) -> Iterator[Seen]:
    """Yields the chains of calls at this site while the block lasts, since one line may have several callers."""
    known, _places[site] = _places.pop(site, {}), {}
    seen: Seen = {}
    _watched[site] = seen
    try:
        yield seen
    finally:
        del _watched[site]
        _places[site] = known


def place_of(site: str, frame: FrameType, by: Caller | None = None) -> str:
    """Returns the place of an issuing frame, in another process the place there. `by`: the journal."""
    known = _places[site].get(frame.f_lasti)
    if known is None or known[0] is not frame.f_code:
        elsewhere = chains_by_site.get(site)
        known = frame.f_code, elsewhere[0][1] if elsewhere else _place(frame, frame.f_lineno)
        if site in _watched and by is not None:
            _watched[site].setdefault((by.rank, by.step, known[1]), elsewhere or chain_of(frame, frame.f_lineno))
            return known[1]
        _places[site][frame.f_lasti] = known
        if known[1] not in chains:
            note_chain(known[1], elsewhere or chain_of(frame, frame.f_lineno))
    return known[1]


def forget_places(site: str) -> None:
    """Drops the stored places of a site, which have changed (`elsewhere.set_place`)."""
    _places[site].clear()


@contextmanager
def placed_as(site: str, like: str) -> Iterator[None]:
    """While the block lasts, calls at a site have the place of the site `like` of a program in another process.

    The site of a decision is its label. A program may decide one label at several lines, and a program of this process
    may use the label as well.
    """
    forget_places(site)
    chains_by_site[site] = chains_by_site.get(like, ())
    try:
        yield
    finally:
        del chains_by_site[site]
        forget_places(site)


def note_chain(place: str, chain: Chain) -> None:
    """Stores the chain of calls that led to a place."""
    chains[place] = chain
    for listener in chain_listeners:
        listener(place, chain)


def chain_of(frame: FrameType | None, line: int) -> Chain:
    """Returns the calls that led a program to a line, the innermost first. The chain ends at the code of the backend,
    and has at most `CHAIN_FRAMES` frames. It omits frames of Python's library and comprehensions.
    """
    calls: list[tuple[str, str]] = []
    place = ""
    while frame is not None and len(calls) < CHAIN_FRAMES and not is_own_code(frame):
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if not _STANDARD.match(file):
            place = place or _place(frame, line)
            if not name.startswith("<"):
                calls.append((name, place))
                place = ""
        frame = frame.f_back
        line = 0 if frame is None else frame.f_lineno
    return tuple(calls)


def raised_at(error: BaseException, packages: Collection[str] = ()) -> str:
    """Returns the innermost place of the program in an error's traceback; "" if there is none. For a kernel, the place
    is in the cause of the backend's error.

    `packages`: those of protocols, which may be installed like any library. If no other frame belongs to the program,
    it is the outermost frame of a library. An error of another process has its place already.
    """
    if isinstance(error, Elsewhere):
        if error.chain:
            note_chain(error.place, error.chain)
        return error.place
    frames = [(frame, line) for frame, line in frames_of(error) if not is_own_code(frame)]
    its = [(frame, line) for frame, line in frames if not is_library(frame, packages)]
    if not frames:
        return ""
    place = _place(*(its[-1:] or frames[:1])[0])
    if its:
        note_chain(
            place, tuple((frame.f_code.co_name, _place(frame, line)) for frame, line in its[: -1 - CHAIN_FRAMES : -1])
        )
    return place


def frames_of(error: BaseException) -> list[tuple[FrameType, int]]:
    """Returns the frames of an error's traceback with their lines, the outermost first; then those of its causes."""
    frames: list[tuple[FrameType, int]] = []
    cause: BaseException | None = error
    while cause is not None:
        frames += traceback.walk_tb(cause.__traceback__)
        cause = cause.__cause__
    return frames


def is_library(frame: FrameType, packages: Collection[str] = ()) -> bool:
    """Whether a frame belongs to Python's library or to an installed package."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    file = frame.f_code.co_filename
    return bool(_LIBRARY.match(file)) and (package not in packages or file.startswith("<"))


def is_library_file(file: str) -> bool:
    """Whether a file belongs to Python's library or to an installed package."""
    return bool(_LIBRARY.match(file))


@cache
def is_installed(file: str) -> bool:
    """Whether pip installed a package in the folder of this file. `pip install --target` may give that folder any name.

    >>> import numpy
    >>> is_installed(numpy.__file__), is_installed(__file__)
    (True, False)
    """
    return any(next(folder.glob("*.dist-info"), None) is not None for folder in Path(file).parents[:2])


def own_code(*packages: str) -> None:
    """Declares that frames of these packages belong to a backend and never to a program."""
    _own.update(packages)


def is_own_code(frame: FrameType) -> bool:
    """Whether a frame belongs to a backend. The package `real` is one; a program's `realtime_protocol` is not."""
    package = str(frame.f_globals.get("__name__", ""))
    while package:
        if package in _own:
            return True
        package = package.rpartition(".")[0]
    return False


def _place(frame: FrameType, line: int) -> str:
    return place_in(frame.f_globals.get("__name__", "?"), frame.f_code, line)


def place_in(module: str, code: CodeType, line: int) -> str:
    """Returns the module's name as a path, which is the same in a source tree and in a wheel."""
    if module == "__main__":
        module = code.co_filename.rsplit("/", 1)[-1].removesuffix(".py")
    return f"{module.replace('.', '/')}.py:{line}"
