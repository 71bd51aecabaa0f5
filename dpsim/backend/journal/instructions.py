"""The bytecode instructions of a function, in the same form for each version of Python: one variable per instruction.

    LOAD_FAST_LOAD_FAST (order, table)      Python 3.13     ->      LOAD_FAST order, LOAD_FAST table
    LOAD_FAST_BORROW order                  Python 3.14     ->      LOAD_FAST order
    LOAD_SMALL_INT 3                        Python 3.14     ->      LOAD_CONST 3
    BINARY_OP []                            Python 3.14     ->      BINARY_SUBSCR

Newer Pythons join two neighbouring instructions into one. dpsim reads bytecode to find variables. A reader that looks
only for `LOAD_FAST` would miss joined ones, and with them the variables that a kernel or a thread uses.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_JOINED = ("LOAD_FAST", "STORE_FAST")
_ALIKE = {"LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_SMALL_INT": "LOAD_CONST"}


class CodeStep(NamedTuple):
    """One instruction. `offset`: in bytes; the two steps of a joined instruction share it. `line`: None if it is the
    line of the step before. `effect`: the change of the stack's depth.
    """

    offset: int
    opname: str
    argval: Any
    line: int | None
    effect: int


def steps_of(code: CodeType) -> Iterator[CodeStep]:
    """Returns the instructions of `code`, in order."""
    for one in dis.get_instructions(code):
        name, at = one.opname, one.offset
        line = one.starts_line if type(one.starts_line) is int else getattr(one, "line_number", None)
        if isinstance(one.argval, tuple) and name.startswith(_JOINED) and len(one.argval) == 2:
            for part, variable in zip(_parts(name), one.argval, strict=True):
                yield CodeStep(at, part, variable, line, 1 if part == "LOAD_FAST" else -1)
            continue
        item = name == "BINARY_OP" and one.argrepr == "[]"
        name, value = ("BINARY_SUBSCR", None) if item else (_ALIKE.get(name, name), one.argval)
        yield CodeStep(at, name, value, line, dis.stack_effect(one.opcode, one.arg, jump=False))


def _parts(name: str) -> tuple[str, str]:
    """Returns the two instructions of a joined one.

    >>> _parts("STORE_FAST_LOAD_FAST"), _parts("LOAD_FAST_BORROW_LOAD_FAST_BORROW")
    (('STORE_FAST', 'LOAD_FAST'), ('LOAD_FAST', 'LOAD_FAST'))
    """
    first, second = name.replace("_BORROW", "").split("_FAST")[:2]
    return f"{first}_FAST", f"{second.strip('_')}_FAST"
