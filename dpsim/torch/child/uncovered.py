"""What a rank may not do or be here: it raises by name, at the user's line, and is no verdict on the program.

raise NotCovered("recv from any source")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class NotCovered(NotImplementedError):
    """A call that dpsim does not simulate."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: dpsim does not simulate it")


class CannotRun(NotCovered):
    """The target: its file is not Python, cannot be imported, or has no such function."""

    def __init__(self, what: str) -> None:
        NotImplementedError.__init__(self, f"torch.target: {what}")


def refused(what: str) -> Callable[..., NoReturn]:
    """A function in place of one that is not covered."""

    def refuse(*args: Any, **more: Any) -> NoReturn:
        raise NotCovered(what)

    return refuse
