"""Plain data and whole numbers: checks of the values that a program passes to dpsim.

dpsim sends messages, decisions and the arguments of kernels to other processes, and compares them between ranks. So
they must have types that mean the same everywhere: int, float, bool, str, None, and tuples of these. dpsim refuses a
numpy number: it overflows where an int does not. It refuses a named tuple in a message, because a rank in another
process would get a tuple without names.

    check_plain((1, "start"), "the message", "wake")
    check_plain(np.int32(1), "the message", "wake")         # TypeError: ... write int(...)

Compared values (messages, decisions, tags) must not be NaN either. NaN equals nothing, not even itself, so ranks that
all decide NaN would not agree.

Numbers that dpsim itself counts with (steps, shapes, sizes, ranks, nanoseconds) may be of any integer type, and become
an int.
"""

from __future__ import annotations

import re
from operator import index
from typing import Any

from dpsim.backend.journal.misuse import CONTRACT, a_or_an
from dpsim.contract.words import short

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

PLAIN = frozenset({int, float, bool, str, type(None)})
"""The types of plain values that are no tuple. Subclasses are not plain, since a journal would not preserve them."""

SETTLED = PLAIN - {float}
"""The types of which each value equals itself."""


def check_plain(value: Any, what: str, site: str, named: bool = True, compared: bool = True) -> None:
    """Raises TypeError unless plain, and ValueError for NaN if `compared`. `named`: tuples may be named ones."""
    if type(value) is tuple or (named and isinstance(value, tuple)):
        if SETTLED.issuperset(map(type, value)):  # most tuples are a few integers
            return
        for item in value:
            if type(item) not in PLAIN or item != item:
                check_plain(item, what, site, named, compared)
    elif type(value) not in PLAIN:
        raise TypeError(
            f"{site}: {what} has {typed(value, cured=True)}; it must be a number, a string, a truth value, None or a "
            "tuple of these"
        )
    elif compared and value != value:
        raise ValueError(f"{site}: {what} contains NaN, which does not equal itself; use None or a string in its place")


def whole(number: Any, what: str, site: str, least: int | None = None) -> int:
    """Returns the number as an int. Raises TypeError if it is no integer, ValueError if it is less than `least`."""
    try:
        value = int(index(number))
    except TypeError:
        raise TypeError(f"{site}: {what} is {typed(number, cured=True)}; an integer is needed") from None
    if least is not None and value < least:
        raise ValueError(f"{site}: {what} is {value}; at least {least} is needed")
    return value


def shape_of(shape: Any, site: str) -> tuple[int, ...]:
    """Returns a shape as a tuple of ints of at least 0."""
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple([whole(size, "a size of the shape", site, 0) for size in sizes])


def typed(value: Any, cured: bool = False) -> str:
    """Returns a value with its type as text. `cured` adds the plain data to write instead, if known. The text has no
    addresses of objects, because journals store it, and a repeated run has other addresses.

    >>> typed(3.5), typed([object()])
    ('3.5 (float)', '[<object object>] (list)')
    """
    kind = type(value)
    if issubclass(kind, CONTRACT):  # the class of the contract, since each backend has a different one
        return next(a_or_an(one) for one in CONTRACT if issubclass(kind, one))
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if hasattr(kind, "__await__"):
        return f"a {name} (did you forget await?)"
    cure = ""
    if kind.__module__ == "numpy" and hasattr(value, "ndim"):
        cure = f": write {'tuple(....tolist())' if value.ndim else 'int(...) or float(...)'}" if cured else ""
    elif kind.__module__ != "builtins":
        return f"a {name}"
    return f"{short(_ADDRESS.sub('', str(value)))} ({name}{cure})"
