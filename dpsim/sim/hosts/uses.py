"""What one instruction of a program does with a variable. The module reads this from the bytecode, once per function.

    order.append(n)         Use("order", "deref", ("append",), "whole")
    self.count += 1         Use("self", "fast", (), "set", "count")
    table[key]              Use("table", "fast", (), "item", key)
    worker(order)           Use("order", "fast", (), "load")        # passed on: what worker does with it counts

The module finds a use at the instruction that loads the variable. The instruction that pops the value from the stack
shows what happens with it.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from dpsim.backend.journal.instructions import CodeStep, steps_of


class Use(NamedTuple):
    """One use of a variable. `path`: attributes that are loaded one after the other. `how`: what happens to the last
    one.

    * "load": nothing yet. "whole": the program reads all of it.
    * "item": it reads one item, and `name` is the key as (scope, value). "store": it sets an item.
    * "set": it sets the attribute, or the variable, `name`.
    """

    root: str
    scope: str
    path: tuple[str, ...]
    how: str
    name: Any = ""


_SCOPES = {
    "LOAD_FAST": "fast",
    "LOAD_DEREF": "deref",
    "LOAD_CLASSDEREF": "deref",
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
}
_SET = {"STORE_DEREF": "deref", "STORE_GLOBAL": "global"}
_PUSHES = {"LOAD_METHOD": 2, "STORE_SUBSCR": 0, "STORE_ATTR": 0, "DELETE_SUBSCR": 0, "DELETE_ATTR": 0, "COPY": 1}
_NONE = (
    *("STORE_", "POP_", "DELETE_", "SWAP", "RETURN", "RAISE", "NOP", "PRECALL", "CACHE", "KW_NAMES", "RESUME"),
    *("NOT_TAKEN", "END_"),
)
_READERS = (
    *("COMPARE_OP", "CONTAINS_OP", "BINARY_OP", "UNARY_", "GET_ITER", "GET_LEN", "POP_JUMP", "JUMP_IF", "UNPACK"),
    *("FORMAT", "LIST_EXTEND", "SET_UPDATE", "DICT_", "CALL_FUNCTION_EX", "MATCH", "TO_BOOL", "BINARY_SLICE"),
)
_LOOK = {
    *("len", "sum", "min", "max", "sorted", "list", "tuple", "set", "dict", "frozenset", "any", "all", "iter", "next"),
    *("reversed", "enumerate", "zip", "map", "filter", "int", "float", "bool", "str", "repr", "print"),
}
"""Built-in functions that read their arguments."""


@lru_cache(4096)
def uses_of(code: CodeType) -> dict[int, list[Use]]:
    """Returns the uses by bytecode offset, as lists, because one instruction may load two variables."""
    steps = [step for step in steps_of(code) if step.opname not in ("CACHE", "NOP", "EXTENDED_ARG")]
    found: dict[int, list[Use]] = {}
    for at, step in enumerate(steps):
        if step.opname in _SCOPES and isinstance(step.argval, str):
            found.setdefault(step.offset, []).append(_use(steps, at))
        elif step.opname in _SET:
            found.setdefault(step.offset, []).append(Use(step.argval, _SET[step.opname], (), "set"))
    return found


def _use(steps: list[CodeStep], at: int) -> Use:
    root, scope = steps[at].argval, _SCOPES[steps[at].opname]
    path: list[str] = []
    taker, index = at, 0
    while True:
        index, depth = _taker(steps, taker)
        name = steps[index].opname if index else ""
        if name in ("LOAD_ATTR", "LOAD_METHOD") and depth == 1:
            path.append(steps[index].argval)
            taker = index
            continue
        break
    key = steps[index - 1] if index else steps[at]
    if name in ("STORE_ATTR", "DELETE_ATTR"):
        return Use(root, scope, tuple(path), "set" if depth == 1 or _copied(steps, at) else "load", steps[index].argval)
    if name == "BINARY_SUBSCR" and depth == 2:
        simple = key.opname == "LOAD_CONST" or key.opname in _SCOPES
        known = (_SCOPES.get(key.opname, "const"), key.argval) if simple and index - 1 == taker + 1 else None
        return Use(root, scope, tuple(path), "item" if known else "whole", known)
    if name in ("STORE_SUBSCR", "DELETE_SUBSCR") and depth == 2:
        return Use(root, scope, tuple(path), "store")
    if name.startswith(_READERS):
        return Use(root, scope, tuple(path), "whole")
    before = steps[at - 1] if at else steps[at]
    if name.startswith(("CALL", "PRECALL")) and before.opname == "LOAD_GLOBAL" and before.argval in _LOOK:
        return Use(root, scope, tuple(path), "whole")
    return Use(root, scope, tuple(path), "load")


def _copied(steps: list[CodeStep], at: int) -> bool:
    """Whether the instruction loads an object to one of whose attributes the program adds (`+=`)."""
    return at + 1 < len(steps) and steps[at + 1].opname == "COPY"


def _taker(steps: list[CodeStep], at: int) -> tuple[int, int]:
    """Returns the instruction that pops a pushed value, and the value's depth in the stack; 0 if there is none."""
    depth = 1
    for index in range(at + 1, min(at + 40, len(steps))):
        step = steps[index]
        effect = step.effect
        if step.opname in _PUSHES:
            pushed = _PUSHES[step.opname]
        else:
            pushed = 0 if step.opname.startswith(_NONE) else 1
        popped = 1 if step.opname == "LOAD_ATTR" else max(pushed - effect, 0)
        if step.opname.startswith(("POP_JUMP", "JUMP_IF")):
            popped = 1
        if popped >= depth:
            return index, depth
        depth += effect
    return 0, 0
