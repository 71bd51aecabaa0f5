"""Describes the contents of modules in words, so that a comparison of two processes shows which variable a run changed.

    there = contents(["programs"])      # {"BOARD of programs.py": "{}", ...} in a fresh interpreter
    changed(contents(["programs"]), there)      # ["BOARD of programs.py"]

The words cover the variables of the modules, the attributes of their classes, and the defaults, closures and caches of
their functions. An object is described by its fields, at most DEPTH levels deep.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

DEPTH = 4
LENGTH = 1_000
"""At most this number of elements of a container are described."""


def contents(modules: Iterable[str]) -> dict[str, str]:
    """Returns the contents of each variable and class attribute, in words. A key names the file, too."""
    found: dict[str, str] = {}
    for name in modules:
        module = sys.modules.get(name)
        if module is None:
            continue
        file = (getattr(module, "__file__", None) or name).rpartition("/")[2]
        for variable, value in [*vars(module).items()]:
            if variable.startswith("__") or isinstance(value, ModuleType):
                continue
            if isinstance(value, type):
                if value.__module__ == name:
                    found.update(_of_class(value, file))
            else:
                found[f"{variable} of {file}"] = describe(value)
    return found


def changed(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Returns the names whose contents differ between two results of `contents`."""
    return [name for name in here if here[name] != there.get(name, here[name])]


def _of_class(kind: type[Any], file: str) -> dict[str, str]:
    own = [(name, value) for name, value in vars(kind).items() if not name.startswith(("__", "_abc_"))]
    return {f"{kind.__qualname__}.{name} of {file}": describe(value) for name, value in own}


def describe(value: Any, depth: int = DEPTH) -> str:
    """Returns equal words for equal plain data, arrays and containers. `depth`: of levels that are described."""
    try:
        return _describe(value, depth)
    except Exception:  # for instance a property of the user's class that raises
        return type(value).__qualname__


def _describe(value: Any, depth: int) -> str:
    kind = type(value).__qualname__
    if value is None or isinstance(value, (int, float, str, bytes)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes()!r}"
    if not depth:
        return kind
    if isinstance(value, Mapping):
        items = [(describe(key, depth - 1), describe(one, depth - 1)) for key, one in [*value.items()][:LENGTH]]
        return f"{kind}{len(value)}{items}"
    if isinstance(value, (set, frozenset)):
        return f"{kind}{sorted(describe(one, depth - 1) for one in value)[:LENGTH]}"
    if isinstance(value, (list, tuple)):
        return f"{kind}{len(value)}{[describe(one, depth - 1) for one in value[:LENGTH]]}"
    if isinstance(value, ContextVar):
        return describe(value.get(None), depth - 1)
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        return "over" if frame is None else f"{frame.f_lasti}{describe(frame.f_locals, depth - 1)}"
    if hasattr(value, "cache_info"):
        return repr(value.cache_info().currsize)
    if isinstance(value, (staticmethod, classmethod)):
        return describe(value.__func__, depth)
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
        return describe([value.__qualname__, value.__defaults__, value.__kwdefaults__, *cells], depth - 1)
    if isinstance(value, type):
        return value.__qualname__
    return f"{kind}{describe(vars(value), depth - 1) if hasattr(value, '__dict__') else ''}"


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True
