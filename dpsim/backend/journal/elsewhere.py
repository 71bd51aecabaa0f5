"""A program that runs in another process: the places of its calls, and what it raises there.

    tell_place("train:step+3.all_reduce", (("step", "train.py:12"), ("main", "train.py:40")))
    raise raised_elsewhere("ValueError", "no such layer", (("forward", "model.py:7"),))

dpsim runs a program of torch by a counterpart in its own process, which issues the ops. The frames of the counterpart
mean nothing to the user. So the records of a site have the place in the user's program, which the other process sends,
and the calls that led there (`call_site.place_of`). An error has the name, the place and the calls of the user's
exception.
"""

from __future__ import annotations

import re

from dpsim.contract.chain import Chain

told: dict[str, Chain] = {}
"""By site: the calls of the other process that led there."""


class Elsewhere(Exception):
    """What a program raised in another process. Each name is another class, so a finding has that name."""

    chain: Chain = ()

    @property
    def place(self) -> str:
        return self.chain[0][1] if self.chain else ""


def tell_place(site: str, chain: Chain) -> bool:
    """Say where a site is. The answer: whether it was elsewhere before, as in a file that was changed since."""
    before = told.get(site)
    told[site] = chain
    return before is not None and before[:1] != chain[:1]


def raised_elsewhere(name: str, text: str, chain: Chain) -> Elsewhere:
    """An error of another process, to be raised here."""
    kind = type(re.sub(r"\W", "", name) or "Error", (Elsewhere,), {})
    error: Elsewhere = kind(text)
    error.chain = chain
    return error
