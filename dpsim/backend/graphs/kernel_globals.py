"""Checks the globals that a kernel reads. A launch refuses a kernel that reads a global which may change.

A kernel runs later than its launch, and on real hardware each rank has its own process. It reads only constant globals:

    functions, classes, modules             the check reads each function of a program as it reads the kernel
    a cache of such a function              functools.cache and lru_cache
    numbers, text, tuples and the like      also an Enum, a dtype, a frozen dataclass of such values, a logger
    functions of Python and of libraries    unchecked: the check cannot see their internal state

So the launch refuses a mutable global or a method of one, such as a list, an array, a ContextVar or `os.environ`. It
also refuses a kernel that sets a global, or an attribute of a module, a class or a function, or calls one of
`_FORBIDDEN`.

The check reads the bytecode of the kernel, of functions and lambdas within it, and of each function that it names. It
follows chains of attributes (`os.environ`), also through a local variable that contains a module.

A launch also refuses a number that a function of its module sets by `global`. If other code sets it (`config.STEP =
2`), the comparison at the end of each run finds this (`dpsim.contract.rules.kernel_constants`).
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import inspect
import logging
import os
import re
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from dpsim.backend.journal.call_site import is_installed, place_in
from dpsim.backend.journal.instructions import CodeStep, steps_of
from dpsim.contract.registry import packages
from dpsim.contract.rules.kernel_constants import watch


class KernelRefused(TypeError):
    """A kernel reads a value that may change before it runs."""


class _Value(NamedTuple):
    """`text`: the chain of names as in the source. `owner`: the module or class that contains the last name."""

    value: Any
    text: str
    owner: Any = None
    name: str = ""


_KEPT = (
    *(int, float, complex, bool, str, bytes, type(None), range, slice, type(...), type(NotImplemented)),
    *(enum.Enum, np.generic, np.dtype, np.ufunc, re.Pattern, logging.Logger, ModuleType, type),
    *(types.GenericAlias, types.UnionType, types.MethodDescriptorType, types.WrapperDescriptorType),
    *(types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, property),
)
"""Types whose values never change."""

_FORBIDDEN: dict[Any, str] = {
    globals: "globals",
    vars: "vars",
    eval: "eval",
    exec: "exec",
    setattr: "setattr",
    delattr: "delattr",
    os.getenv: "os.getenv",
}
"""Functions by which a kernel could reach names that are not in its code."""

_ROOTS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_DEREF"})
_KEEPS_CHAIN = frozenset({"PUSH_NULL", "NOP", "EXTENDED_ARG", "CACHE"})
_MISSING = object()


def check_globals(kernel: FunctionType) -> None:
    """Raises KernelRefused, which names the global, unless a kernel reads only constant globals."""
    _Reader(packages() | {kernel.__module__.partition(".")[0]}).function(kernel, f"the kernel {kernel.__qualname__}")


class _Reader:
    """`own`: the packages of programs, whose functions it reads."""

    def __init__(self, own: set[str]) -> None:
        self._own = own
        self._read: set[FunctionType] = set()

    def function(self, function: FunctionType, who: str) -> None:
        """Reads a function's code, its defaults, and its enclosing variables."""
        code, names = function.__code__, function.__globals__
        if function in self._read:
            return
        self._read.add(function)
        cells = _cells(function)
        if not self._is_own(names.get("__name__", "")):  # a wrapper, as of functools, around a function of the program
            for _, value in cells:
                if isinstance(value, FunctionType):
                    self.function(value, who)
            return
        for name, value in [*_defaults(function), *cells]:
            self.value(_Value(value, name), who, place_in(function.__module__, code, code.co_firstlineno))
        self._code(code, names, function.__module__, who, {name: _Value(value, name) for name, value in cells})

    def value(self, found: _Value, who: str, where: str) -> None:
        """Raises KernelRefused for a value that may change."""
        value = found.value.stands_for if hasattr(type(found.value), "stands_for") else found.value  # a stand-in
        if isinstance(value, types.BuiltinFunctionType | FunctionType) and value in _FORBIDDEN:
            raise KernelRefused(f"{who} uses {_FORBIDDEN[value]} ({where}), which reaches what may change; {_CURE}")
        if isinstance(found.owner, ModuleType) and not self._is_own(found.owner.__name__):
            if isinstance(value, FunctionType):  # of a library
                return
        elif found.owner is not None:
            self._rebound(found, who, where)
        kind = type(value).__qualname__
        for part in self._parts(value):
            if part is _MISSING:
                what = f"uses {found.text} ({where}), which may change, of type {kind}"
                raise KernelRefused(f"{who} {what}; {_CURE}")
            if isinstance(part, FunctionType):
                self.function(part, f"{who} calls {part.__qualname__}, which")
            else:
                self.value(_Value(part, found.text), who, where)

    def _parts(self, value: Any) -> Iterator[Any]:
        """The values that must not change so that a value does not; _MISSING if the value itself may change."""
        kind = type(value)
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, tuple | frozenset):
            yield from value
        elif isinstance(value, functools._lru_cache_wrapper):
            yield value.__wrapped__
        elif isinstance(value, staticmethod | classmethod):
            yield value.__func__
        elif isinstance(value, functools.partial):
            yield from (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, types.MethodType):
            yield value.__func__ if isinstance(value.__self__, type) else _MISSING
        elif isinstance(value, types.BuiltinFunctionType):
            held = value.__self__
            if not (held is None or isinstance(held, _KEPT)):
                yield _MISSING
        elif is_dataclass(value) and not isinstance(value, type):
            frozen = kind.__dataclass_params__.frozen
            yield from [getattr(value, one.name) for one in fields(value)] if frozen else [_MISSING]
        elif isinstance(value, _KEPT) or kind.__module__ == "typing":
            if isinstance(value, type) and self._is_own(value.__module__):
                yield from _made_by(value)
        elif kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "Size", "memory_format"):
            pass
        elif not callable(value) or self._is_own(kind.__module__):
            yield _MISSING

    def _code(self, code: CodeType, names: dict[str, Any], module: str, who: str, around: dict[str, _Value]) -> None:
        chain: _Value | None = None
        known, line = dict(around), code.co_firstlineno
        for step in steps_of(code):
            line, name = step.line or line, step.opname
            where = place_in(module, code, line)
            if name in _KEEPS_CHAIN:
                continue
            if name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                raise KernelRefused(f"{who} sets the global {step.argval} ({where}); write to an array of writes")
            if name in ("STORE_ATTR", "DELETE_ATTR") and chain is not None:
                raise KernelRefused(f"{who} sets {chain.text}.{step.argval} ({where}); write to an array of writes")
            if name.startswith(("STORE_FAST", "STORE_DEREF")) and chain is not None and isinstance(step.argval, str):
                known[step.argval] = chain
            chain = self._next(step, chain, names, known)
            if chain is not None and name not in _LOCALS:
                self.value(chain, who, where)
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self._code(inner, names, module, who, known)

    def _next(
        self, step: CodeStep, chain: _Value | None, names: dict[str, Any], known: dict[str, _Value]
    ) -> _Value | None:
        name, text = step.opname, step.argval
        if name in _ROOTS:
            value = names.get(text, _MISSING)
            if value is _MISSING:
                value = getattr(builtins, text, _MISSING)
                return None if value is _MISSING else _Value(value, text)
            return _Value(value, text, sys.modules.get(names.get("__name__", "")), text)
        if name in _LOCALS:
            return known.get(text)
        if name == "IMPORT_NAME":
            value = sys.modules.get(text)
            return None if value is None else _Value(value, text)
        if (name in _ATTRIBUTES or name == "IMPORT_FROM") and chain is not None:
            if not isinstance(chain.value, ModuleType | type | FunctionType):
                return None
            value = inspect.getattr_static(chain.value, text, _MISSING)
            return None if value is _MISSING else _Value(value, f"{chain.text}.{text}", chain.value, text)
        return None

    def _rebound(self, found: _Value, who: str, where: str) -> None:
        owner = found.owner
        if isinstance(owner, ModuleType):
            by = _setters(owner).get(found.name)
            if by is not None:
                raise KernelRefused(f"{who} uses {found.text} ({where}), which {by} sets; {_CURE}")
        elif not (isinstance(owner, type) and self._is_own(owner.__module__)):
            return
        if not isinstance(found.value, ModuleType) and found.name in vars(owner):
            watch(owner, found.name)

    def _is_own(self, module: str) -> bool:
        top = module.partition(".")[0]
        if top in self._own:
            return True
        found = sys.modules.get(top)
        place = getattr(found, "__file__", None) or "".join(getattr(found, "__path__", ()))
        return bool(place) and top not in sys.stdlib_module_names and not is_installed(place)


_CURE = "pass the value in args"


def _cells(function: Any) -> list[tuple[str, Any]]:
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            found.append((name, cell.cell_contents))
    return found


def _defaults(function: Any) -> list[tuple[str, Any]]:
    values = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return [*zip(names[len(names) - len(values) :], values, strict=True), *(function.__kwdefaults__ or {}).items()]


def _made_by(kind: type) -> Iterator[FunctionType]:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    for name in ("__new__", "__init__", "__post_init__"):
        made = inspect.getattr_static(kind, name, None)
        made = made.__func__ if isinstance(made, staticmethod) else made
        if isinstance(made, FunctionType) and made.__code__.co_filename == file:
            yield made


@functools.lru_cache(1024)
def _setters(module: ModuleType) -> dict[str, str]:
    found: dict[str, str] = {}
    for function in _functions(module):
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
            line = code.co_firstlineno
            if any(step.opname == "STORE_GLOBAL" for step in dis.get_instructions(code)):
                for step in steps_of(code):
                    line = step.line or line
                    if step.opname == "STORE_GLOBAL":
                        found[step.argval] = f"{function.__qualname__} ({place_in(module.__name__, code, line)})"
    return found


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    owners: list[Any] = [module]
    seen = set[Any]()
    while owners:
        for value in list(vars(owners.pop()).values()):
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            elif isinstance(value, property):
                value = value.fget
            if isinstance(value, FunctionType | functools._lru_cache_wrapper):
                value = inspect.unwrap(value)
            if isinstance(value, FunctionType | type) and value.__module__ == module.__name__ and value not in seen:
                seen.add(value)
                if isinstance(value, FunctionType):
                    yield value
                else:
                    owners.append(value)
