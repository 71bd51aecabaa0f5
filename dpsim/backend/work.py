"""What a host awaits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from dpsim.backend.journal import Journal

Outcome: TypeAlias = Callable[[], Generator[Any, Any, Any]]
"""Gives what an awaited op learned: a generator that may suspend or block."""


class Work:
    """What a host awaits, exactly once."""

    __slots__ = ("_journal", "_ordinal", "_outcome", "_site", "_taken")

    def __init__(self, journal: Journal, outcome: Outcome) -> None:
        """Of the op that was journaled last."""
        self._journal = journal
        self._site = journal.site
        self._ordinal = journal.ordinal
        self._outcome = outcome
        self._taken = False

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._taken:
            raise RuntimeError(f"{self._site}[{self._ordinal}] was awaited twice; await it once and keep the result")
        self._taken = True
        result = yield from self._outcome()
        self._journal.learned(self._site, self._ordinal, result)
        return result
