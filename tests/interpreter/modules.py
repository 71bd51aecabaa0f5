"""The functions that `put`, `look` and `kernel` of a script call on dpsim: objects of a module, and kernels that may
use them.
"""

from __future__ import annotations

import contextvars
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

BOARD: dict[str, int] = {}
LOG: list[int] = []
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)
ARRAY = np.zeros(1, np.int64)
KEY = "DPSIM_TEST_NUMBER"
LAST = 0
OFFSET = 0


class Shelf:
    number = 0


@functools.cache
def notes() -> dict[str, int]:
    return {}


def kept(number: int | None = None, box: list[int] = []) -> int:  # noqa: B006 - the shared default is the point
    if number is not None:
        box[:] = [number]
    return box[0] if box else 0


WAYS: Mapping[str, tuple[Callable[[int], Any], Callable[[], int]]] = {
    "dict": (lambda number: BOARD.update(number=number), lambda: BOARD.get("number", 0)),
    "list": (LOG.append, lambda: LOG[-1] if LOG else 0),
    "cache": (lambda number: notes().update(number=number), lambda: notes().get("number", 0)),
    "context": (VARIABLE.set, VARIABLE.get),
    "array": (ARRAY.fill, lambda: int(ARRAY[0])),
    "environ": (lambda number: os.environ.update({KEY: str(number)}), lambda: int(os.environ.get(KEY, "0"))),
    "attribute": (lambda number: setattr(Shelf, "number", number), lambda: Shelf.number),
    "default": (kept, kept),
}


def forget() -> None:
    """Resets all objects to their state in a new process."""
    BOARD.clear()
    LOG.clear()
    notes.cache_clear()
    VARIABLE.set(0)
    ARRAY.fill(0)
    os.environ.pop(KEY, None)
    Shelf.number = 0
    kept(0)


# ---- kernels, all of which fill their target with the number


def plain(target: Any, number: int) -> None:
    target[:] = number


def fill(target: Any, number: int) -> None:
    target[:] = number


def helper(target: Any, number: int) -> None:
    fill(target, number)


def constant(target: Any, number: int) -> None:
    target[:] = number + OFFSET


@functools.cache
def twice(number: int) -> int:
    return 2 * number


def cached(target: Any, number: int) -> None:
    target[:] = twice(number) - number


def local_function(target: Any, number: int) -> None:
    def same(value: int) -> int:
        return value

    target[:] = same(number)


def reads_a_dict(target: Any, number: int) -> None:
    target[:] = number + len(BOARD)


def reads_a_list(target: Any, number: int) -> None:
    target[:] = number + len(LOG)


def sets_a_global(target: Any, number: int) -> None:
    global LAST
    LAST = number
    target[:] = number


def look_up(number: int) -> int:
    return BOARD.get("number", number)


def a_helper_reads_a_dict(target: Any, number: int) -> None:
    target[:] = look_up(number)


def keeps_what_it_saw(target: Any, number: int) -> None:
    LOG.append(number)
    target[:] = number


KERNELS: Mapping[str, Callable[..., None]] = {
    one.__name__.replace("_", " "): one
    for one in (
        plain,
        helper,
        constant,
        cached,
        local_function,
        reads_a_dict,
        reads_a_list,
        sets_a_global,
        a_helper_reads_a_dict,
        keeps_what_it_saw,
    )
}
