"""Changes of a store's key in one step, and the answers that the caller gets. The rules are those of torch's TCPStore.

    >>> changed("add", None, (2,)), changed("add", "5", (2,))
    (Changed(value=2, answer=2), Changed(value=7, answer=7))
    >>> changed("compare_set", None, ("", "mine")), changed("compare_set", "his", ("", "mine"))
    (Changed(value='mine', answer='mine'), Changed(value='his', answer='his'))
    >>> changed("delete", "his", ()), changed("delete", None, ())
    (Changed(value=None, answer=True), Changed(value=None, answer=False))

A value of None means that the key has no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpsim.contract.interface import Frozen

OPERANDS = {"add": 1, "compare_set": 2, "delete": 0}
"""The calls of a store that read and change a key in one step, and how many operands each has."""


class Changed(NamedTuple):
    """`value`: the key's value after the change. `answer`: the caller's result."""

    value: Frozen
    answer: Frozen


def changed(how: str, value: Frozen, operands: Sequence[Any]) -> Changed:
    """Returns the change that a call makes to a value. For `add`, a value that is no number counts as 0."""
    if how == "add":
        total = _number(value) + operands[0]
        return Changed(total, total)
    if how == "delete":
        return Changed(None, value is not None)
    expected, desired = operands
    if value == expected or (value is None and expected == ""):
        return Changed(desired, desired)
    return Changed(value, expected if value is None else value)


def takes(how: str, operands: Sequence[Any]) -> bool:
    """Whether these are valid operands of such a change."""
    return len(operands) == OPERANDS.get(how) and (how != "add" or type(operands[0]) is int)


def _number(value: Frozen) -> int:
    if isinstance(value, int):
        return int(value)
    try:
        return int(value) if isinstance(value, str) else 0
    except ValueError:
        return 0
