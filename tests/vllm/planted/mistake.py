"""One planted mistake: a line or two of the healthy protocol code, changed.

A mistake is data, so that a campaign plants it in a copy of the tree. `old` occurs once in the file, and `new` stands
in its place. `by` says what notices it first:

    shipped    a file of `scenarios/` does not come out as it expects
    quick      a test of `make test` fails, one of the room of the file
    nothing    no run differs; `why` says why it is harmless
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

By = Literal["shipped", "quick", "nothing"]


class DoesNotFit(ValueError):
    """The line of a mistake is not in its file, or is there more than once."""


class Mistake(NamedTuple):
    """`name`: unique; `program`: the first one that runs the line; `file`: below dpsim/vllm; `why`: what goes wrong."""

    name: str
    program: str
    file: str
    old: str
    new: str
    why: str
    by: By

    def path(self, root: Path) -> Path:
        return root / "dpsim" / "vllm" / self.file

    @property
    def room(self) -> str:
        return self.file.partition("/")[0]

    def planted(self, text: str) -> str:
        """The text of the file with the mistake. Raises DoesNotFit."""
        if text.count(self.old) != 1:
            raise DoesNotFit(f"{self.name}: {self.file} has {text.count(self.old)} times, expected once:\n{self.old}")
        return text.replace(self.old, self.new)
