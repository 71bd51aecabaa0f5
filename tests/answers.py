"""Answers to whatever a run asks, for trying all of them, one run after another and depth first.

    answers = Answers()
    while answers is not None:
        ...                                # a run that asks answers.next(how many options)
        answers = answers.following()      # None after the last

Nothing of dpsim is in it: what is tested by brute force must not share code with the brute force.
"""

from __future__ import annotations

from collections.abc import Sequence


class Answers:
    """Those that are given, then always the first option."""

    def __init__(self, given: Sequence[int] = ()) -> None:
        self.made: list[int] = []
        self._given = given
        self.options: list[int] = []

    def next(self, options: int) -> int:
        """The answer to the next question, which has `options` possible answers."""
        at = len(self.made)
        self.made.append(self._given[at] if at < len(self._given) else 0)
        self.options.append(options)
        return self.made[at]

    def following(self) -> Answers | None:
        """The next run's: the last answer that is not the last option is one higher, and what came after it is open."""
        for at in reversed(range(len(self.made))):
            if self.made[at] + 1 < self.options[at]:
                return Answers([*self.made[:at], self.made[at] + 1])
        return None
