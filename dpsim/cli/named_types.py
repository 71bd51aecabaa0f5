"""Finds the types that signatures name, for `dpsim show`: records, enumerations, interfaces and aliases.

    dpsim show LocalBatch          # its fields, with types and docstrings
    dpsim show Buffer              # its methods
    dpsim show HostArray           # the type for which the alias stands

Who overrides a method needs the types of its signature, and those that their fields and methods name. Definitions come
from the source, because Python keeps neither docstrings of fields nor names of aliases. Types of Python and of other
installed packages are left out.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from dpsim.cli.hooks import Hook, methods

DOTTED = re.compile(r"[A-Za-z_][\w.]*")


class Definition(NamedTuple):
    """Where a type is defined. `node`: a class, or the assignment of an alias. `doc`: its docstring, or ""."""

    module: str
    name: str
    node: ast.stmt
    doc: str

    @property
    def path(self) -> str:
        """The import path."""
        return f"{self.module}.{self.name}"


def types_of(hooks: list[Hook]) -> dict[str, Definition]:
    """Returns the types that the methods of hooks name, and the types that those name in turn, by import path."""
    todo = [hook["classes"][0] for hook in hooks]
    found: dict[str, Definition] = {}
    while todo:
        for module, name in annotations_of(todo.pop()):
            one = definition(module, name)
            if one is not None and one.path not in found:
                found[one.path] = one
                todo.append(one.path)
    return found


@functools.cache
def annotations_of(path: str) -> list[tuple[str, str]]:
    """Returns the names in the annotations of a class or alias, each with the module whose names count there. They are
    sorted, because the order of a set differs from process to process.
    """
    module, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    if not isinstance(value, type):
        one = definition(module, name)
        return [] if one is None else sorted({(module, word) for word in _names(one.node)})
    bodies = [(base.__module__, node) for base in _own_bases(value) for node in _body(base)]
    return sorted({(where, word) for where, node in bodies if _is_public(node) for word in _names_of_member(node)})


def _own_bases(kind: type[Any]) -> list[type[Any]]:
    package = kind.__module__.partition(".")[0]
    return [base for base in reversed(kind.__mro__) if base.__module__.partition(".")[0] == package]


def _body(kind: type[Any]) -> list[ast.stmt]:
    one = definition(kind.__module__, kind.__qualname__)
    return one.node.body if one is not None and isinstance(one.node, ast.ClassDef) else []


def _is_public(node: ast.stmt) -> bool:
    if isinstance(node, ast.AnnAssign):
        return not ast.unparse(node.target).startswith("_")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")


def _names_of_member(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.AnnAssign):
        yield from _names(node.annotation)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        everything = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        for annotation in [*(one.annotation for one in everything if one is not None), node.returns]:
            if annotation is not None:
                yield from _names(annotation)


def _names(node: ast.AST) -> list[str]:
    return DOTTED.findall(ast.unparse(node))


@functools.cache
def definition(module: str, name: str) -> Definition | None:
    """Finds the type that `name` means in a module, through imports: a class, or the assignment of an alias. Returns
    None for another name, and for a type of Python or of another installed package.
    """
    first, _, rest = name.partition(".")
    for node, after in _statements(module):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for imported in node.names:
                if (imported.asname or imported.name) == first and _is_shown(node.module):
                    found = definition(node.module, f"{imported.name}.{rest}".rstrip("."))
                    return found or (definition(f"{node.module}.{imported.name}", rest) if rest else None)
        elif isinstance(node, ast.ClassDef) and node.name == name:
            return Definition(module, name, node, ast.get_docstring(node) or "")
        elif name in _assigned(node) and _names_a_type(module, name, node):
            return Definition(module, name, node, after)
    return None


def _is_shown(module: str) -> bool:
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return False
    file = getattr(importlib.import_module(package), "__file__", None) or ""
    return package == "dpsim" or "site-packages" not in file


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [one.id for one in targets if isinstance(one, ast.Name)]


def _names_a_type(module: str, name: str, node: ast.stmt) -> bool:
    """Returns whether an assignment makes an alias: its value is neither a number nor a text without a type."""
    value = getattr(importlib.import_module(module), name, None)
    written = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias")
    return written or isinstance(value, type | TypeVar) or hasattr(value, "__origin__") or hasattr(value, "__args__")


@functools.cache
def _statements(module: str) -> list[tuple[ast.stmt, str]]:
    try:
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    except (OSError, TypeError, ImportError):
        return []
    found = []
    for body in [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]:
        found += [(node, _text(after)) for node, after in zip(body, [*body[1:], None], strict=True)]
    return found


def _text(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return inspect.cleandoc(node.value.value) if is_text else ""  # type: ignore[union-attr]  # mypy: not through a name


# ---- what `dpsim show` prints


def meaning(one: Definition) -> dict[str, Any]:
    """Returns a type as plain data. `text`: its fields and methods, or the alias. `copy`: see `changed_copy`."""
    module = importlib.import_module(one.module)
    value = getattr(module, one.name)
    lines = _members(value) if isinstance(one.node, ast.ClassDef) else ast.unparse(one.node).split("\n")
    names = {"name": one.path, "file": inspect.getsourcefile(module)}
    return {"kind": "type", **names, "doc": one.doc, "text": "\n".join(lines), "copy": changed_copy(value)}


def changed_copy(kind: Any) -> str:
    """Returns the expression that copies a value `x` of a type with one other field; "" for a type without fields.

    >>> changed_copy(Definition)
    'x._replace(module=...)'
    """
    if not isinstance(kind, type):
        return ""
    names = vars(kind).get("_fields", ())
    if issubclass(kind, tuple) and names:
        return f"x._replace({names[0]}=...)"
    if is_dataclass(kind) and fields(kind):
        return f"dataclasses.replace(x, {fields(kind)[0].name}=...)"
    if issubclass(kind, BaseModel) and kind.model_fields:
        return f'x.model_copy(update={{"{next(iter(kind.model_fields))}": ...}})'
    return ""


def _members(kind: type[Any]) -> list[str]:
    lines: dict[str, list[str]] = {}
    for base in _own_bases(kind):
        body = _body(base)
        for node, after in zip(body, [*body[1:], None], strict=True):
            for name in _assigned(node):
                if not name.startswith("_") and (isinstance(node, ast.AnnAssign) or issubclass(kind, Enum)):
                    lines[name] = [_field(node), *(f"    {line}" for line in _text(after).split("\n") if line)]
        for name, found in vars(base).items():
            if isinstance(found, property | functools.cached_property) and not name.startswith("_"):
                lines[name] = [name, *(f"    {line}" for line in (inspect.getdoc(found) or "").split("\n") if line)]
    for method in methods(kind):
        lines[method["name"]] = [method["signature"], *[f"    {method['rule']}"] * bool(method["rule"])]
    return [line for lines_of_one in lines.values() for line in lines_of_one]


def _field(node: ast.stmt) -> str:
    if not isinstance(node, ast.AnnAssign):
        return ast.unparse(node)
    begins = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    if node.value is None or not isinstance(node.value, ast.Call):
        return begins if node.value is None else f"{begins} = {ast.unparse(node.value)}"
    given = {word.arg: word.value for word in node.value.keywords}
    default = given.get("default", node.value.args[0] if node.value.args else None)
    description = given.get("description")
    line = begins if default is None else f"{begins} = {ast.unparse(default)}"
    if isinstance(description, ast.Constant):
        line += f"  # {description.value!s}"
    return line
