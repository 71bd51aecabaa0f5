"""A run leaves `os.environ` as it was: what one run sets, neither the next one nor another process may find.

On a real backend each process has its own variables. Here ranks share those of dpsim's process while a run lasts. What
stayed there would go into every process that dpsim starts later, and so would hide that a rank needs it.

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
"""The table behind `os.environ`. To decode it takes as long as a short run, and each run would do so twice."""


def put_back(before: Mapping[Any, Any]) -> tuple[str, ...]:
    """Make the variables what they were, and name those that were set, changed or deleted since then, in order."""
    names = sorted(name for name in VARIABLES.keys() | before.keys() if VARIABLES.get(name) != before.get(name))
    changed = tuple(map(os.environ.decodekey, names))
    for name, shown in zip(names, changed, strict=True):
        if name in before:
            os.environ[shown] = os.environ.decodevalue(before[name])
        else:
            del os.environ[shown]
    return changed
