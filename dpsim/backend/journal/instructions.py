"""The instructions of a function, in the same words for each Python: one variable an instruction.

    LOAD_FAST_LOAD_FAST (order, table)      Python 3.13     ->      LOAD_FAST order, LOAD_FAST table
    LOAD_FAST_BORROW order                  Python 3.14     ->      LOAD_FAST order
    LOAD_SMALL_INT 3                        Python 3.14     ->      LOAD_CONST 3
    BINARY_OP []                            Python 3.14     ->      BINARY_SUBSCR

Python joins neighbours into one instruction where it can. A reader that looks for `LOAD_FAST` alone would miss these
variables, and with them what a kernel or a thread uses.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_JOINED = ("LOAD_FAST", "STORE_FAST")
_ALIKE = {"LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_SMALL_INT": "LOAD_CONST"}


class CodeStep(NamedTuple):
    """One instruction. `offset`: in bytes; two steps of one joined instruction share it. `line`: None if it is that of
    the step before. `effect`: on the depth of the stack.
    """

    offset: int
    opname: str
    argval: Any
    line: int | None
    effect: int


def steps_of(code: CodeType) -> Iterator[CodeStep]:
    """The instructions of `code`, in their order."""
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
    """The two instructions of a joined one.

    >>> _parts("STORE_FAST_LOAD_FAST"), _parts("LOAD_FAST_BORROW_LOAD_FAST_BORROW")
    (('STORE_FAST', 'LOAD_FAST'), ('LOAD_FAST', 'LOAD_FAST'))
    """
    first, second = name.replace("_BORROW", "").split("_FAST")[:2]
    return f"{first}_FAST", f"{second.strip('_')}_FAST"
