"""Finds uses of Python in the simulation, protocols and checks that could differ between processes, and so are banned.

    found = violations(source, "dpsim/sim/lane.py")
    str(found[0])       # "dpsim/sim/lane.py:12: iterates over a set, whose order is not that of any other process"

The ban list contains `id` and `hash`, iteration over a set or frozenset in any form, clocks and dates. It also contains
the environment, uuid, secrets, and random numbers except from a generator with a seed. A use of a set that cannot show
its order is allowed: `in`, `len`, `sorted`, `min`, `max`, `sum`, `any`, `all`, another set. `sorted`, `min` and `max`
with a key are banned, because items that are equal under the key keep the order of the set.

The function recognises a set in three forms: a literal or comprehension, a call of `set` or `frozenset`, and an
operation on one of these. It also recognises a name or attribute that the same file binds to a set or annotates as one.
It does not recognise a set that a function of another file returns. `tests.determinism.repeat` may find such uses.

Prior art: the determinism lints of madsim (Rust) and of Temporal's workflow sandbox (Python).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef)

BUILTINS = {"id": "the address of an object", "hash": "depends on PYTHONHASHSEED"}
MODULES = {
    **dict.fromkeys(("time", "datetime", "calendar"), "a wall clock; the simulation has its own"),
    **dict.fromkeys(("uuid", "secrets"), "never the same twice"),
}
OS = {"environ", "environb", "getenv", "getenvb", "urandom", "getpid"}
SEEDED = {"Random", "default_rng", "Generator", "PCG64", "Philox", "SeedSequence"}
"""Generators of random numbers that are allowed with a seed."""

SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
ORDERLESS = {"sorted", "min", "max"}
"""These functions do not show the order of their argument, unless they have a key."""
BLIND = {"len", "sum", "any", "all", "set", "frozenset", "bool", "isinstance"}
"""These functions never show the order of their argument."""
TAKING = {"list", "tuple", "iter", "next", "enumerate", "zip", "map", "filter", "deque", "dict", "str", "repr"}
TAKING_METHODS = {"join", "extend", "fromkeys", "from_iterable", "chain", "array", "asarray", "fromiter", "writelines"}

SET_ORDER = "iterates over a set, whose order is not that of any other process"


class Violation(NamedTuple):
    """A banned use in a file."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def violations(source: str, file: str = "source") -> list[Violation]:
    """Returns all banned uses in a file, in the order of lines."""
    tree = ast.parse(source)
    found = {(node.lineno, message) for node, message in [*_banned_names(tree), *_set_orders(tree)]}
    return [Violation(file, line, message) for line, message in sorted(found)]


# ---- names


def _banned_names(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in BUILTINS:
            yield node, f"{node.id}: {BUILTINS[node.id]}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in MODULES:
                    yield node, f"{alias.name}: {MODULES[alias.name.partition('.')[0]]}"
        elif isinstance(node, ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner == "os" and node.attr in OS:
                yield node, f"os.{node.attr}: not the same on every machine"
            elif owner.rpartition(".")[2] == "random" and not _is_seeded(node, called.get(id(node))):
                yield node, f"{owner}.{node.attr}: random without its own seed"
        elif isinstance(node, ast.Call) and ast.unparse(node) in ("Random()", "default_rng()"):
            yield node, f"{ast.unparse(node.func)}: random without its own seed"


def _imported(node: ast.ImportFrom) -> Iterator[tuple[ast.stmt, str]]:
    module = node.module or ""
    for alias in node.names:
        if module.partition(".")[0] in MODULES:
            yield node, f"{module}.{alias.name}: {MODULES[module.partition('.')[0]]}"
        elif module == "os" and alias.name in OS:
            yield node, f"os.{alias.name}: not the same on every machine"
        elif module.rpartition(".")[2] == "random" and alias.name not in SEEDED:
            yield node, f"{module}.{alias.name}: random without its own seed"


def _is_seeded(node: ast.Attribute, call: ast.Call | None) -> bool:
    if node.attr not in SEEDED:
        return False
    return call is None or bool(call.args or call.keywords)  # not called, so it is a type


# ---- sets


def _set_orders(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    attributes = {target.attr for target, _ in _bound_sets(tree, set(), set()) if isinstance(target, ast.Attribute)}
    yield from _in_scope(tree, set(), attributes)


def _in_scope(scope: Scope, outer: set[str], attributes: set[str]) -> Iterator[tuple[ast.expr, str]]:
    """Yields uses that show the order of a set, in a function or module and in the functions inside it."""
    own = {node.id for node in _walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    parameters = [] if isinstance(scope, ast.Module) else _parameters(scope)
    names = outer - own - {parameter.arg for parameter in parameters}
    names |= {one.arg for one in parameters if one.annotation is not None and _is_a_set_annotation(one.annotation)}
    names |= {target.id for target, _ in _bound_sets(scope, names, attributes) if isinstance(target, ast.Name)}
    harmless = {id(part) for node in _walk(scope) for part in _without_order(node)}
    for node in _walk(scope):
        for seen in _iterated(node, harmless):
            if _is_set(seen, names, attributes):
                yield seen, SET_ORDER
        if isinstance(node, SCOPES):
            yield from _in_scope(node, names, attributes)


def _walk(scope: Scope) -> Iterator[ast.AST]:
    """Yields the nodes of a scope. An inner function is one node."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting += ast.iter_child_nodes(node)


def _parameters(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]


def _bound_sets(scope: Scope, names: set[str], attributes: set[str]) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Yields the names and attributes that a scope binds to a set or annotates as one. For a module, these include the
    attributes of all its classes.
    """
    for node in ast.walk(scope) if isinstance(scope, ast.Module) and not names else _walk(scope):
        if isinstance(node, ast.AnnAssign) and _is_a_set_annotation(node.annotation):
            yield node.target, node
            if isinstance(node.target, ast.Name):  # perhaps a field of a dataclass
                yield ast.Attribute(value=node.target, attr=node.target.id), node
        elif isinstance(node, ast.Assign) and _is_set(node.value, names, attributes):
            yield from ((target, node) for target in node.targets)
        elif isinstance(node, ast.NamedExpr) and _is_set(node.value, names, attributes):
            yield node.target, node


def _is_a_set_annotation(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation).strip("'\"").rpartition(".")[2].partition("[")[0]
    return text in {"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"}


def _is_set(node: ast.expr, names: set[str], attributes: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name in attributes
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in SET_METHODS:
            return _is_set(owner, names, attributes)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, SET_OPERATORS):
            sides = [left] if isinstance(op, ast.Sub) else [left, right]
            return any(_is_set(side, names, attributes) or _is_keys(side) for side in sides)
        case ast.IfExp(body=body, orelse=other):
            return _is_set(body, names, attributes) or _is_set(other, names, attributes)
        case ast.BoolOp(values=values):
            return any(_is_set(value, names, attributes) for value in values)
    return False


def _is_keys(node: ast.expr) -> bool:
    """Returns whether the node is `x.keys()`; an operation on it returns a set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _without_order(node: ast.AST) -> list[ast.expr]:
    """Returns the expressions that a node iterates without showing their order."""
    if isinstance(node, ast.Call) and _hides_order(node):
        return node.args
    return node.elts if isinstance(node, ast.Set) else []


def _hides_order(call: ast.Call) -> bool:
    """Returns whether a call hides the order of its items."""
    if not isinstance(call.func, ast.Name):
        return False
    keyed = any(keyword.arg == "key" for keyword in call.keywords)
    return call.func.id in BLIND or (call.func.id in ORDERLESS and not keyed)


def _iterated(node: ast.AST, harmless: set[int]) -> Iterator[ast.expr]:
    """Yields the expressions that a node iterates in order."""
    match node:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.YieldFrom(value=source):
            yield source
        case ast.Starred(value=source) if id(node) not in harmless:
            yield source
        case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) if id(node) not in harmless:
            yield from (part.iter for part in parts)
        case ast.DictComp(generators=parts):
            yield from (part.iter for part in parts)
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=source):
            yield source
        case ast.Call(func=ast.Attribute(value=source, attr="pop"), args=[]) | ast.FormattedValue(value=source):
            yield source
        case ast.Call(func=function, args=args) if not _hides_order(node):
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            named = TAKING | ORDERLESS if isinstance(function, ast.Name) else TAKING_METHODS
            yield from args if name in named else ()
