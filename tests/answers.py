"""Enumerates all answers to the questions of a run, one run after another and depth first.

    answers = Answers()
    while answers is not None:
        ...                                # a run that calls answers.next(number of options)
        answers = answers.following()      # None after the last run

This module uses no code of dpsim, because brute force must not share code with what it tests.
"""

from __future__ import annotations

from collections.abc import Sequence


class Answers:
    """Returns the given answers, and then always the first option."""

    def __init__(self, given: Sequence[int] = ()) -> None:
        self.made: list[int] = []
        self._given = given
        self.options: list[int] = []

    def next(self, options: int) -> int:
        """Returns the answer to the next question, which has `options` possible answers."""
        at = len(self.made)
        self.made.append(self._given[at] if at < len(self._given) else 0)
        self.options.append(options)
        return self.made[at]

    def following(self) -> Answers | None:
        """Returns the answers of the next run, or None after the last run. The last answer that can grow is one higher,
        and all later answers start again.
        """
        for at in reversed(range(len(self.made))):
            if self.made[at] + 1 < self.options[at]:
                return Answers([*self.made[:at], self.made[at] + 1])
        return None
