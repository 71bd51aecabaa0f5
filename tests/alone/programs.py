"""Programs of two ranks for the tests of `dpsim.alone`.

In some programs rank 1 reads a Python object that rank 0 changed, each program by another kind of object. In the
healthy programs the ranks share no object, though it may look as if they did.
"""

from __future__ import annotations

import contextvars
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpsim import Arguments, Program, Rank, register_protocol

BOARD: dict[str, int] = {}
LOG: list[int] = []
USED: list[int] = []
LOCAL = threading.local()
VAR: contextvars.ContextVar[int | None] = contextvars.ContextVar("VAR", default=None)
ARRAY = np.zeros(1, np.int32)
LIMIT = 7
TABLE = (7, 8)


class Noted:
    value: int | None = None


@functools.cache
def plan() -> dict[str, int]:
    return {}


def closed() -> tuple[Callable[[int], None], Callable[[], int | None]]:
    kept: int | None = None

    def put(value: int) -> None:
        nonlocal kept
        kept = value

    return put, lambda: kept


def default(value: int | None = None, kept: list[int] = []) -> int | None:  # noqa: B006 - it is what is tested
    if value is not None:
        kept.append(value)
    return kept[-1] if kept else None


def counting() -> Generator[int | None, int | None, None]:
    last: int | None = None
    while True:
        value = yield last
        last = last if value is None else value


GENERATOR = counting()
next(GENERATOR)


def environ() -> int | None:
    word = os.environ.get("DPSIM_TEST_PLAN")
    return None if word is None else int(word)


def path() -> int | None:
    return next((int(entry) for entry in sys.path if entry.isdigit()), None)


@functools.cache
def square(number: int) -> int:
    return number * number


SHARED: dict[str, tuple[Callable[[int], Any], Callable[[], int | None]]] = {
    "dict": (lambda value: BOARD.update(plan=value), lambda: BOARD.get("plan")),
    "list": (LOG.append, lambda: LOG[-1] if LOG else None),
    "cache": (lambda value: plan().update(plan=value), lambda: plan().get("plan")),
    "context": (VAR.set, VAR.get),
    "array": (ARRAY.fill, lambda: int(ARRAY[0]) or None),
    "environ": (lambda value: os.environ.update(DPSIM_TEST_PLAN=str(value)), environ),
    "path": (lambda value: sys.path.append(str(value)), path),
    "thread": (lambda value: setattr(LOCAL, "value", value), lambda: getattr(LOCAL, "value", None)),
    "attribute": (lambda value: setattr(Noted, "value", value), lambda: Noted.value),
    "closure": closed(),
    "default": (default, default),
    "generator": (GENERATOR.send, lambda: next(GENERATOR)),
}
"""For each kind of shared object, two functions: rank 0 writes a number with the first, and another rank reads it with
the second. The second returns None if it finds no number.
"""

OWN: dict[str, Callable[[], Any]] = {"pid": os.getpid, "hash": lambda: hash("plan"), "id": lambda: id(SHARED)}
"""Values that are equal for all ranks of one process, but differ between two processes."""

HEALTHY: dict[str, Callable[[], Any]] = {
    "constant": lambda: TABLE[0] + LIMIT,
    "logger": lambda: logging.getLogger("dpsim.tests").debug("here"),
    "pure cache": lambda: square(LIMIT),
    "numpy": lambda: int(np.arange(LIMIT).sum()),
}


class Way(BaseModel):
    way: str


class Ways(Program[Arguments[Way]]):
    Params = Way

    @staticmethod
    def ranks(params: Way) -> int:
        return 2


@register_protocol("alone_through")
class Through(Ways):
    """Rank 0 writes a number into a shared object, and rank 1 reads it there. This works only in one process."""

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        put, get = SHARED[args.params.way]
        if rank.rank == 0:
            put(7)
        await rank.host("world").barrier(site="meet")
        assert get() == 7, f"rank {rank.rank} has {get()}"


@register_protocol("alone_writes")
class Writes(Ways):
    """Each rank writes its number into a shared object, and takes it for its own. With `no` object it decides on its
    number, so that real processes disagree, too. With `raises`, rank 1 raises in any process.
    """

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        way = args.params.way
        put, get = SHARED.get(way, (lambda value: None, lambda: rank.rank))
        put(rank.rank)
        await rank.host("world").barrier(site="meet")
        if way == "raises" and rank.rank == 1:
            raise ValueError
        rank.decide("number", get() == rank.rank if way in SHARED else get(), "world")
        await rank.host("world").barrier(site="end")


@register_protocol("alone_uses_up")
class UsesUp(Ways):
    """The ranks of the first run of a process communicate, and those of later ones do not (`module`). With `own`,
    ranks never communicate.
    """

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        USED.append(rank.rank)
        if args.params.way == "module" and USED.count(rank.rank) == 1:
            await rank.host("world").barrier(site="meet")


@register_protocol("alone_leaves")
class Leaves(Ways):
    """Rank 1 raises GeneratorExit: in each run (`always`), or only if it does not find the number of rank 0."""

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        if rank.rank == 0:
            BOARD["left"] = 7
        await rank.host("world").barrier(site="meet")
        if rank.rank == 1 and (args.params.way == "always" or "left" not in BOARD):
            raise GeneratorExit


@register_protocol("alone_decides")
class Decides(Ways):
    """Both ranks decide on the same value if they run in one process."""

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        rank.decide("plan", (OWN | HEALTHY)[args.params.way](), "world")
        await rank.host("world").barrier(site="meet")


@register_protocol("alone_started")
class Started(Ways):
    """Two threads of each rank append to a list: to one list of the module (`module`), or to one list for each rank
    (`own`).
    """

    threaded = True

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        own: list[int] = LOG if args.params.way == "module" else []
        before = len(own) if args.params.way == "own" else 0

        async def append(rank: Rank) -> None:
            await rank.flag("go").wait("wait")
            own.append(rank.rank)

        first, second = rank.start("first", append), rank.start("second", append)
        rank.flag("go").set("set")
        await first.join("join")
        await second.join("join")
        await rank.host("world").barrier(site="meet")
        rank.decide("long", len(own) - before, "world")
        await rank.host("world").barrier(site="end")


@register_protocol("alone_branches")
class Branches(Ways):
    """Rank 0 writes a number. Rank 1 reads it only if two messages arrive in one of their two orders."""

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        if rank.rank == 0:
            BOARD["branch"] = 7
        await rank.host("world").barrier(site="meet")
        rank.send(1, "box", rank.rank, "tell")
        if rank.rank == 1:
            first = await rank.mailbox("box").get("first")
            await rank.mailbox("box").get("second")
            assert first == 1 or BOARD.get("branch") == 7


@register_protocol("alone_rarely")
class Rarely(Ways):
    """Rank 0 polls five mailboxes. If it finds a message in every second one only, both ranks decide on a number.
    Rank 0 leaves it in a module (`module`), in the program (`self`), or nowhere (`own`).
    """

    def __init__(self) -> None:
        self.number = 0

    async def run(self, rank: Rank, args: Arguments[Way]) -> None:
        rank.step = 0
        places = range(5)
        found = [False] * len(places)
        if rank.rank == 0:
            BOARD["rare"] = self.number = 0
            found = [await rank.mailbox(f"box{at}").poll(f"poll{at}") is not None for at in places]
        else:
            for at in places:
                rank.send(0, f"box{at}", at, f"send{at}")
        rare = np.array([found == [True, False, True, False, True]])
        (rare,) = await rank.host("world").broadcast(rare, 0, site="tell")
        if rank.rank == 0 and rare:
            BOARD["rare"] = self.number = 7
        await rank.host("world").barrier(site="meet")
        if rare:
            left = {"module": BOARD.get("rare"), "self": self.number, "own": 7}[args.params.way]
            rank.decide("number", left, "world")
        await rank.host("world").barrier(site="end")
        self.number = 0
