"""Finds code that reads a sentence of a finding back, and facts without a sentence.

    python -m pytest tests/house/test_sentences.py

A check reports facts, and `dpsim.diagnose.words` makes a sentence of each. A reader of sentences breaks without an
error when a word changes, so it has to ask the fact instead. A *part* of a finding is one of the attributes `PARTS`,
or what `text` and `told` return.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from string import Formatter
from typing import NamedTuple

PARTS = frozenset({"message", "details", "ground", "grounds", "waits", "why"})
"""The attributes of a finding that hold parts."""

READS = frozenset(
    {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "replace", "removeprefix", "removesuffix"}
    | {"find", "index", "count"}
)
"""The methods that read a text."""

PATTERNS = frozenset({"match", "search", "findall", "finditer", "fullmatch", "sub"})
"""The functions of `re` and the methods of a compiled pattern."""

FINDINGS = ("finding", "found", "first", "one", "primary", "base", "hang", "told", "fails", "post", "old", "new")
"""Names that code gives to a finding."""


class Read(NamedTuple):
    """A place that reads a sentence back."""

    line: int
    source: str


def read_back(source: str) -> Iterator[Read]:
    """Yields each place of a file that reads a part of a finding as text."""
    for node in ast.walk(ast.parse(source)):
        if _reads(node):
            yield Read(node.lineno, ast.unparse(node))  # type: ignore[attr-defined]  # the nodes that read have a line


def _reads(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr=how)) if how in READS and _is_part(of):
            return True
        case ast.Call(func=ast.Attribute(attr=how), args=args) if how in PATTERNS:
            return any(map(_is_part, args))
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[of]):
            return _is_part(of)
        case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops):
            return any(_reads_name(inner, loop) for loop in loops if _is_part(loop.iter) for inner in ast.walk(node))
    return False


def _reads_name(node: ast.AST, loop: ast.comprehension) -> bool:
    """Returns whether an expression reads a text that a comprehension takes from a part."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr=how)) if isinstance(loop.target, ast.Name):
            return of == loop.target.id and how in READS
    return False


def _is_part(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=of), attr=attr):
            return attr in PARTS and of in FINDINGS
        case ast.Subscript(value=of):
            return _is_part(of)
        case ast.Call(func=ast.Name(id="text")):
            return True
        case ast.NamedExpr(value=of):
            return _is_part(of)
    return False


def made(source: str) -> Iterator[tuple[int, str, frozenset[str] | None]]:
    """Yields each fact that a file makes: its line, its name, and the names of its values, or None with `**`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="fact"), args=[ast.Constant(value=str(name))], keywords=given):
                known = None if any(one.arg is None for one in given) else frozenset(f"{one.arg}" for one in given)
                yield node.lineno, name, known


def fields(row: str) -> frozenset[str]:
    """Returns the names of the values that a sentence has.

    >>> sorted(fields("{call.site} of {ranks:ranks}"))
    ['call', 'ranks']
    """
    return frozenset(name.partition(".")[0].partition("[")[0] for _, name, _, _ in Formatter().parse(row) if name)
