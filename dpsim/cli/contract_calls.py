"""Finds the calls of the contract, for `dpsim show`: what a program can call on its `Rank` and on what that returns.

    calls("send")[0]["name"]        # "HostCommunicator.send"; others are DeviceCommunicator.send and Rank.send
    calls("Rank.send")              # that one alone

A name with another meaning, such as that of a scenario, is not looked up here.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from dpsim.cli.hooks import ANNOTATION
from dpsim.contract import interface


@functools.cache
def all_calls() -> tuple[dict[str, Any], ...]:
    """Returns the public methods of the contract in the order of its source. `name`: `Class.method`."""
    classes = [one for one in vars(interface).values() if inspect.isclass(one) and one.__module__ == interface.__name__]
    return tuple(
        {"kind": "call", "name": f"{one.__name__}.{name}", "signature": _signature(name, method), "doc": _doc(method)}
        for one in classes
        for name, method in vars(one).items()
        if inspect.isfunction(method) and not name.startswith("_")
    )


def calls(name: str) -> list[dict[str, Any]]:
    """Returns the calls `name`, a method or `Class.method`."""
    return [one for one in all_calls() if name in (one["name"], one["name"].rpartition(".")[2])]


def _signature(name: str, method: Any) -> str:
    signature = ANNOTATION.sub(r"\1\2", str(inspect.signature(method)))
    return f"{name}{signature.replace('(self, ', '(', 1).replace('(self)', '()', 1)}"


def _doc(method: Any) -> str:
    return inspect.cleandoc(method.__doc__ or "")
