"""Replay: one run along a given schedule, word by word.

A *strict* replay stops at the first difference, for a schedule that should fit. A *fallback* replay is for an older or
edited schedule, or for a normal form. It skips words that are not possible now (`skipped`), and makes the ordinary
choice where no word fits (`added`). It finds the word of a draw anywhere, because a draw has no place in the order of
steps.

Prior art: Stateright's path replay, whose errors say what was available; rr's and Shuttle's replay schedulers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dpsim.contract.events import draw_word, failing_rank
from dpsim.contract.schedule import Candidate, Unrepeatable
from dpsim.explore.normal_form import is_draw
from dpsim.explore.order import Labels
from dpsim.explore.strategies.base import LONGEST, Picker
from dpsim.explore.strategies.walks import ordinary


class Mismatch(Unrepeatable):
    """The schedule does not fit the run."""


CAUSES = (
    "Likely causes: the protocol or the scenario has changed since the schedule was noted. Or the run depends on "
    "something beside the schedule (a clock, an unseeded random number, state that outlives a run)"
)


class ScheduleReplay(Picker):
    """One run along a schedule, a list of words as in `Picker.schedule`. `strict`: stop at the first difference."""

    name = "replay"

    def __init__(
        self, noted: Sequence[str], strict: bool = True, labels: Labels | None = None, longest: int = LONGEST
    ) -> None:
        super().__init__(labels, longest)
        self.noted = list(noted)
        self.strict = strict
        self.skipped: list[str] = []
        self.added: list[str] = []
        self._at = 0
        self._runs = 0
        self._followed: set[int] = set()  # the places of the words that the run has followed

    def begin(self) -> bool:
        self._runs += 1
        return super().begin() and self._runs == 1

    def end(self, whole: bool) -> None:
        left = len(self.noted) - self._at
        if left and whole and self.strict:
            raise Mismatch(
                f"the run ended after {self._place(self._at - 1)}, which goes on with "
                f"{self.noted[self._at]!r}. {CAUSES}"
            )
        self.skipped = [word for at, word in enumerate(self.noted) if at not in self._followed]

    def failing(self) -> Collection[int]:
        found = {at: rank for at, word in enumerate(self.noted) if (rank := failing_rank(word)) is not None}
        self._followed |= found.keys()
        self.known_to_fail = frozenset(found.values())
        if self.strict:  # they are its first words
            self._at = len(found)
        return super().failing()

    def raised(self, rank: int) -> None:
        """Does nothing: the schedule names the ranks whose kernels raise."""

    def select(self, candidates: Sequence[Candidate]) -> int:
        index = self._follow([candidate.label for candidate in candidates])
        if index is None:
            index = ordinary(candidates)
            self.added.append(candidates[index].label)
        return index

    def drawn(self, label: str, options: Sequence[str]) -> int:
        words = [draw_word(label, option) for option in options]
        if self.strict:
            return self._follow(words) or 0
        for at, word in enumerate(self.noted):
            if word in words and at not in self._followed:
                self._followed.add(at)
                return words.index(word)
        self.added.append(words[0])
        return 0

    def _follow(self, words: list[str]) -> int | None:
        """Returns the index of the next word of the schedule; None if a fallback replay finds none of the words."""
        if self._at < len(self.noted) and self.noted[self._at] in words:
            return self._next(words)
        if self.strict:
            expected = repr(self.noted[self._at]) if self._at < len(self.noted) else "the end"
            raise Mismatch(
                f"{self._place(self._at)}: expected {expected}, possible are {', '.join(map(repr, words))}. {CAUSES}"
            )
        for later in range(self._at + 1, len(self.noted)):
            if self.noted[later] in words:
                self._at = later
                return self._next(words)
        return None

    def _place(self, at: int) -> str:
        """A draw has the number of the choice before it."""
        order = [not is_draw(word) for word in self.noted]
        number = sum(order[: at + 1]) + (at == len(order))
        return f"choice {number} of {sum(order)} of the schedule"

    def _next(self, words: list[str]) -> int:
        self._followed.add(self._at)
        self._at += 1
        return words.index(self.noted[self._at - 1])
