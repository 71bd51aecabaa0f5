"""Variants: names, for a report, the planted bug that a scenario runs, or what its release leaves unprotected.

variant_text("M-DP-1")      # "M-DP-1 is EarlyExit, dpsim/vllm/museum/batch.py:88"
unprotected("mine", None)   # what the default form of the protocol leaves unprotected (`Program.unprotected`)

A variant is a copy of a protocol with one bug. A form is the protocol as one release of the engine has it.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Protocol

from dpsim.contract import registry
from dpsim.diagnose.evidence import Extras


class ChosenProtocol(Protocol):
    """The protocol that a scenario chooses, with its form and its variant."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> str | None: ...
    @property
    def variant(self) -> str | None: ...


def extras_of(variant: str | None, *commands: str) -> Extras:
    """Returns the extras of a report for a scenario with that variant, and the next commands."""
    return Extras(variant=variant_text(variant), next=commands, compare=compare_with_base(variant))


def extras_of_choice(choice: ChosenProtocol, *commands: str) -> Extras:
    """Returns the extras for the protocol of a scenario. Without a variant, the form may be the cause."""
    leaves = () if choice.variant else unprotected(choice.name, choice.form)
    shows = registry.protocol(choice.name).program.shows
    return extras_of(choice.variant, *commands)._replace(unprotected=leaves, shows=shows)


def unprotected(name: str, form: str | None) -> tuple[str, ...]:
    """Returns what a form leaves unprotected, one sentence each. Without a form it is the default form."""
    entry = registry.protocol(name)
    return tuple(entry.program.unprotected.get(form or entry.forms[0], ()))


def compare_with_base(name: str | None) -> tuple[str, str] | None:
    """Returns the file of the variant, and the advice to compare the variant with its base class; None without one.

    A program checks its own results. If a variant makes them wrong, the exception comes from a line of the program.
    """
    if not name:
        return None
    make = registry.variant(name).make
    base = make.__mro__[1]
    file = _file(make)
    return (
        file,
        f"Compare {make.__qualname__} ({file}) with {base.__qualname__} ({_file(base)}), from which it derives.",
    )


def _file(kind: type) -> str:
    return f"{kind.__module__.replace('.', '/')}.py"


def variant_text(name: str | None) -> str:
    """Returns the variant in a line; empty without one. A class that a program made at run time has no source line."""
    if not name:
        return ""
    make = registry.variant(name).make
    place = _file(make)
    with suppress(OSError, TypeError):
        place += f":{inspect.getsourcelines(make)[1]}"
    return f"{name} is {make.__qualname__}, {place}"
