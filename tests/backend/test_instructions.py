"""Tests that dpsim reads the bytecode of a function in the same form on each version of Python. Newer versions join two
instructions into one.
"""

from __future__ import annotations

import dis
from typing import Any

from dpsim.backend.journal.instructions import steps_of


def several(order: Any, table: Any, key: Any) -> Any:
    module = order
    found = module.count
    table[key] = found
    return table[3], order == key


def variables(names: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in names if name in ("LOAD_FAST", "STORE_FAST", "BINARY_SUBSCR")]


def test_each_variable_and_each_item_is_seen() -> None:
    steps = [(step.opname, step.argval) for step in steps_of(several.__code__)]
    assert [name if value is None else f"{name} {value}" for name, value in variables(steps)] == [
        *("LOAD_FAST order", "STORE_FAST module"),
        *("LOAD_FAST module", "STORE_FAST found"),
        *("LOAD_FAST found", "LOAD_FAST table", "LOAD_FAST key"),
        *("LOAD_FAST table", "BINARY_SUBSCR"),
        *("LOAD_FAST order", "LOAD_FAST key"),
    ]
    assert ("LOAD_CONST", 3) in steps


class Joined:
    """An instruction as Python 3.13 joins it, or as Python 3.14 names it."""

    def __init__(self, opname: str, argval: Any, argrepr: str = "") -> None:
        self.opname, self.argval, self.argrepr = opname, argval, argrepr
        self.offset, self.starts_line, self.line_number = 8, True, 3
        self.opcode, self.arg = dis.opmap["NOP"], None


def test_joined_instructions_are_two(monkeypatch: Any) -> None:
    """`steps_of` splits joined instructions, also if the test runs on an older Python. A reader of the raw list would
    find none of the variables.
    """
    joined = [
        Joined("STORE_FAST_LOAD_FAST", ("a", "b")),
        Joined("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("c", "d")),
        Joined("LOAD_FAST_BORROW", "e"),
        Joined("LOAD_SMALL_INT", 4),
        Joined("BINARY_OP", 26, "[]"),
        Joined("BINARY_OP", 0, "+"),
    ]
    monkeypatch.setattr(dis, "get_instructions", lambda code: joined)
    steps = [*steps_of(several.__code__)]
    assert [(step.opname, step.argval) for step in steps] == [
        *(("STORE_FAST", "a"), ("LOAD_FAST", "b"), ("LOAD_FAST", "c"), ("LOAD_FAST", "d")),
        *(("LOAD_FAST", "e"), ("LOAD_CONST", 4), ("BINARY_SUBSCR", None), ("BINARY_OP", 0)),
    ]
    assert {(step.offset, step.line) for step in steps} == {(8, 3)}
    assert [step.effect for step in steps[:4]] == [-1, 1, 1, 1]
    assert variables([(one.opname, one.argval) for one in joined]) == [], "the twin"
