"""The variant or the form of a world, for its report: its class, and what it leaves unprotected.

variant_text("M-DP-1")      # "M-DP-1 is EarlyExit, dpsim/vllm/museum/batch.py:88"
unprotected("mine", None)   # what the default form of the protocol leaves unprotected (`Program.unprotected`)
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Protocol

from dpsim.contract import registry
from dpsim.diagnose.evidence import Extras


class ChosenProtocol(Protocol):
    """The protocol that a scenario chooses."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str | None: ...
    @property
    def variant(self) -> str | None: ...


def extras_of(variant: str | None, *commands: str) -> Extras:
    """The extras of a report for a world with that variant, and the next commands."""
    return Extras(variant=variant_text(variant), next=commands)


def extras_of_choice(choice: ChosenProtocol, *commands: str) -> Extras:
    """The same for the choice of a scenario. Without a variant, the form may be the cause."""
    leaves = () if choice.variant else unprotected(choice.name, choice.form)
    shows = registry.protocol(choice.name).program.shows
    return extras_of(choice.variant, *commands)._replace(unprotected=leaves, shows=shows)


def unprotected(name: str, form: str | None) -> tuple[str, ...]:
    """What a form leaves unprotected, a sentence each; by default, the default form."""
    entry = registry.protocol(name)
    return tuple(entry.program.unprotected.get(form or entry.forms[0], ()))


def variant_text(name: str | None) -> str:
    """The variant in a line; empty without one. A variant that a program made at run time has no source line."""
    if not name:
        return ""
    make = registry.variant(name).make
    place = f"{make.__module__.replace('.', '/')}.py"
    with suppress(OSError, TypeError):
        place += f":{inspect.getsourcelines(make)[1]}"
    return f"{name} is {make.__qualname__}, {place}"
