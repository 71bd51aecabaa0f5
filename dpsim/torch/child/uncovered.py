"""The errors for calls that dpsim does not simulate. They name the call and the user's line, and give no verdict.

raise NotCovered("recv from any source")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class NotCovered(NotImplementedError):
    """The program made a call that dpsim does not simulate."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: dpsim does not simulate it")


class CannotRun(NotCovered):
    """The target cannot run: its file is not Python, its import fails, or it has no such function."""

    def __init__(self, what: str) -> None:
        NotImplementedError.__init__(self, f"torch.target: {what}")


def refused(what: str) -> Callable[..., NoReturn]:
    """Returns a function that raises NotCovered. `what`: the name in the message."""

    def refuse(*args: Any, **more: Any) -> NoReturn:
        raise NotCovered(what)

    return refuse
