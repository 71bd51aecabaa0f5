"""Reads the meanings of a model's fields from the docstrings below them. Only the JSON Schema uses them.

    class Sizes(StrictModel):
        ranks: int = 2
        \"""How many.\"""             # described(Sizes) == {"ranks": "How many."}

pydantic has a setting with which it reads these docstrings when it creates a class (`use_attribute_docstrings`). But
then each command of dpsim would read and parse the source of every model. So dpsim parses the source in this module,
and only for the JSON Schema. A class without source, as of a prompt, has none.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

Fields = dict[str, str | None]


def described(kind: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field that has one. A field that a derived class repeats has it there."""
    found: Fields = {}
    for base in kind.__mro__[kind.__mro__.index(BaseModel) - 1 :: -1]:
        found.update(_classes(base.__module__).get(base.__qualname__, {}))
    return {name: text for name, text in found.items() if text is not None}


@functools.cache
def _classes(module: str) -> dict[str, Fields]:
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    return dict(_within(ast.parse(source).body, ""))


def _within(body: Sequence[ast.stmt], above: str) -> Iterator[tuple[str, Fields]]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield above + one.name, _fields(one.body)
            yield from _within(one.body, f"{above}{one.name}.")
        elif isinstance(one, ast.FunctionDef):
            yield from _within(one.body, f"{above}{one.name}.<locals>.")


def _fields(body: Sequence[ast.stmt]) -> Fields:
    found: Fields = {}
    for one, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            value = below.value if isinstance(below, ast.Expr) else None
            text = value.value if isinstance(value, ast.Constant) else None
            found[one.target.id] = inspect.cleandoc(text) if isinstance(text, str) else None
    return found
