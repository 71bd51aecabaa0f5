"""Adds the collectives to a communicator class as methods, from their files (`dpsim.contract.collectives`).

Each file defines the host call and the device call of a collective as functions. They check the arguments, and then
call `_collective` of the communicator. A class takes these functions as methods, so a call costs no more than any other
method. A new collective needs no line here.

    take_methods(JournaledHostCommunicator, "on_host")
"""

from __future__ import annotations

from abc import update_abstractmethods
from types import FunctionType
from typing import Literal

from dpsim.contract.collectives import COLLECTIVES


def take_methods(kind: type[object], side: Literal["on_host", "on_device"]) -> None:
    """Adds to a class the method of each collective that has this side ("on_host" or "on_device")."""
    for name, rules in COLLECTIVES.items():
        call = getattr(rules, side)
        if call is not None:
            method = FunctionType(call.__code__, call.__globals__, name, call.__defaults__, call.__closure__)
            method.__kwdefaults__ = call.__kwdefaults__
            method.__qualname__ = f"{kind.__name__}.{name}"  # the name that errors about arguments print
            setattr(kind, name, method)
    update_abstractmethods(kind)
