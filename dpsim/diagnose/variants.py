"""The variant that a world runs, for its report: its name, its class or function, and the line where that begins.

variant_text("M-DP-1")      # "M-DP-1 is EarlyExit, dpsim/vllm/museum/batch.py:88"
"""

from __future__ import annotations

import inspect
from contextlib import suppress

from dpsim.contract import registry
from dpsim.diagnose.evidence import Extras


def extras_of(variant: str | None, *commands: str) -> Extras:
    """What a report says of a world with that variant, and what to type next."""
    return Extras(variant=variant_text(variant), next=commands)


def variant_text(name: str | None) -> str:
    """In a line; empty without a variant. A variant that was made at run time has no line."""
    if not name:
        return ""
    make = registry.variant(name).make
    place = f"{make.__module__.replace('.', '/')}.py"
    with suppress(OSError, TypeError):
        place += f":{inspect.getsourcelines(make)[1]}"
    return f"{name} is {make.__qualname__}, {place}"
