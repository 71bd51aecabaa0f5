"""Unbound: a function that replaces a builtin function of C, and which a class does not bind either.

    class Timer:
        clock = time.perf_counter       # a builtin: `Timer().clock()` passes no `self`

A function of Python that is an attribute of a class becomes a method. So each function with which dpsim replaces a
builtin is an object of this class. It has the name and the module of the builtin, also in pickles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Unbound:
    """Calls `function` in place of the builtin `original`. It has no `__get__`."""

    def __init__(self, function: Callable[..., Any], original: Any) -> None:
        self._function = function
        self.__name__ = self.__qualname__ = original.__name__
        self.__module__ = original.__module__
        self.__doc__ = original.__doc__

    def __call__(self, *args: Any, **more: Any) -> Any:
        return self._function(*args, **more)

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"
