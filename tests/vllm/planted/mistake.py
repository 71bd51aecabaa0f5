"""One planted mistake: a line or two of the healthy protocol code, changed.

A mistake is data, so that the campaign can plant it in a copy of the tree. The text `old` occurs once in the file, and
the campaign replaces it by `new`. `by` states what notices the mistake first:

    shipped    a file of `scenarios/` does not give the result that it expects
    quick      a test of `make test` fails, one of the room of the file
    nothing    no run differs; `why` explains why the mistake is harmless
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

By = Literal["shipped", "quick", "nothing"]


class DoesNotFit(ValueError):
    """The text `old` of a mistake does not occur exactly once in its file."""


class Mistake(NamedTuple):
    """One mistake.

    `name`: unique; `program`: the first program that runs the line; `file`: below dpsim/vllm; `why`: the harm.
    """

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
        """Returns the text of the file with the mistake. Raises DoesNotFit."""
        if text.count(self.old) != 1:
            raise DoesNotFit(f"{self.name}: {self.file} has {text.count(self.old)} times, expected once:\n{self.old}")
        return text.replace(self.old, self.new)
