"""Restores `os.environ` after a run: a variable that one run sets must not reach the next run or another process.

On a real backend each rank is a process with its own variables. Here all ranks share those of dpsim's process during a
run. A variable that stayed set would reach every process that dpsim starts later. That would hide that a rank needs it.

    before = VARIABLES.copy()
    ...                                     # rank 0: os.environ["PLAN"] = "7"
    if VARIABLES != before:
        put_back(before)                    # ("PLAN",), and it is gone
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

VARIABLES: dict[Any, Any] = vars(os.environ)["_data"]
"""The table behind `os.environ`, in bytes. Decoding it twice per run would take twice as long as a short run."""


def put_back(before: Mapping[Any, Any]) -> tuple[str, ...]:
    """Restores the variables. Returns the names that were set, changed or deleted since `before`, sorted."""
    names = sorted(name for name in VARIABLES.keys() | before.keys() if VARIABLES.get(name) != before.get(name))
    changed = tuple(map(os.environ.decodekey, names))
    for name, shown in zip(names, changed, strict=True):
        if name in before:
            os.environ[shown] = os.environ.decodevalue(before[name])
        else:
            del os.environ[shown]
    return changed
