"""The methods of a communicator that make collectives, from the files of these (`dpsim.contract.collectives`).

Each of these files has the two calls of the contract as functions: they check the arguments and end in `_collective`
of the communicator. A class takes them as methods, so a call costs no more than a method that the class defines. A new
collective needs no line here.

    take_methods(JournaledHostCommunicator, "on_host")
"""

from __future__ import annotations

from abc import update_abstractmethods
from types import FunctionType
from typing import Literal

from dpsim.contract.collectives import COLLECTIVES


def take_methods(kind: type[object], side: Literal["on_host", "on_device"]) -> None:
    """Give the class the method of every collective that has this side."""
    for name, rules in COLLECTIVES.items():
        call = getattr(rules, side)
        if call is not None:
            method = FunctionType(call.__code__, call.__globals__, name, call.__defaults__, call.__closure__)
            method.__kwdefaults__ = call.__kwdefaults__
            method.__qualname__ = f"{kind.__name__}.{name}"  # what errors about arguments say
            setattr(kind, name, method)
    update_abstractmethods(kind)
