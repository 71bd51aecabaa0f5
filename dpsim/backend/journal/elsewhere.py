"""A program that runs in another process: the places of its calls, and the errors that it raises there.

    set_place("train:step+3.all_reduce", (("step", "train.py:12"), ("main", "train.py:40")))
    raise raised_elsewhere("ValueError", "no such layer", (("forward", "model.py:7"),))

dpsim runs a program of torch by a counterpart: a coroutine in dpsim's process that issues the program's ops. Its frames
mean nothing to the user. So the other process sends, for each site, the place in the user's program and the chain of
calls that led there.
"""

from __future__ import annotations

import re

from dpsim.contract.chain import Chain

chains_by_site: dict[str, Chain] = {}
"""By site: the chain of calls in the other process that led there."""


class Elsewhere(Exception):
    """An exception in another process. A class is derived for each name, so that the finding has that name."""

    chain: Chain = ()

    @property
    def place(self) -> str:
        return self.chain[0][1] if self.chain else ""


def set_place(site: str, chain: Chain) -> bool:
    """Sets the place of a site. Returns whether it had another place before, for example because the file changed."""
    before = chains_by_site.get(site)
    chains_by_site[site] = chain
    return before is not None and before[:1] != chain[:1]


def raised_elsewhere(name: str, text: str, chain: Chain) -> Elsewhere:
    """Returns an exception of another process, to be raised here."""
    kind = type(re.sub(r"\W", "", name) or "Error", (Elsewhere,), {})
    error: Elsewhere = kind(text)
    error.chain = chain
    return error
