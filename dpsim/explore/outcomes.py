"""Outcomes: what the actors of a program learned in the runs of a search, as a set to look up another run in.

    outcomes = Outcomes()
    outcomes.add({"rank 0": ["sum[0] 3", "finished"], "rank 1": ["poll[0] None", "finished"]})
    outcomes.unlike({"rank 0": ["sum[0] 4", "finished"], "rank 1": ["poll[0] None", "finished"]})
    # [LeavesSet("rank 0", 0, ("sum[0] 3",))]

A run is one list of words for each actor. The set keeps a digest of each beginning of a list, with the words that came
next, and a digest of each whole run. So the ranks of a run may each be as in some run, and still never be so together.
Equivalent schedules have equal lists, so a search that saw every class of schedules has seen every outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

SIZE = 12

Lists = Mapping[str, Sequence[str]]
"""For each actor the words of what it learned, in its order."""


class LeavesSet(NamedTuple):
    """Where the list of an actor leaves the set: its number in the list, and the words that came next in the set."""

    actor: str
    at: int
    seen: tuple[str, ...]


@dataclass
class Outcomes:
    """The outcomes of some runs. `after`: by the digest of an actor's beginning, the words that came next. `whole`: the
    digests of the whole lists of each run. `rounded`: in some run a sum of floats depended on the order of its terms.
    """

    after: dict[bytes, dict[str, None]] = field(default_factory=dict)
    whole: set[frozenset[bytes]] = field(default_factory=set)
    rounded: bool = False

    def add(self, lists: Lists) -> None:
        """Adds a run."""
        ends = []
        for actor, words in lists.items():
            digest = _begin(actor)
            for word in words:
                self.after.setdefault(digest, {})[word] = None
                digest = _next(digest, word)
            ends.append(digest)
        self.whole.add(frozenset(ends))

    def join(self, other: Outcomes) -> None:
        """Adds all runs of another set."""
        for digest, words in other.after.items():
            self.after.setdefault(digest, {}).update(words)
        self.whole |= other.whole
        self.rounded |= other.rounded

    def unlike(self, lists: Lists) -> list[LeavesSet]:
        """Returns where each actor leaves the set. Perhaps each stays in it, but no run has them together. Then the
        actors that differ from the nearest run leave it at the end of their lists, and `seen` is empty.
        """
        ends = {actor: self._end(actor, words) for actor, words in lists.items()}
        left = [end for end in ends.values() if isinstance(end, LeavesSet)]
        digests = frozenset(end for end in ends.values() if isinstance(end, bytes))
        if left or digests in self.whole:
            return left
        nearest = max(self.whole, key=lambda one: (len(one & digests), sorted(one)), default=frozenset())
        return [LeavesSet(actor, len(lists[actor]), ()) for actor, end in ends.items() if end not in nearest]

    def next_words(self, actor: str, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the words that came next in the set after this beginning of an actor's list."""
        digest = _begin(actor)
        for word in words:
            digest = _next(digest, word)
        return tuple(self.after.get(digest, ()))

    def _end(self, actor: str, words: Sequence[str]) -> bytes | LeavesSet:
        digest = _begin(actor)
        for at, word in enumerate(words):
            known = self.after.get(digest, {})
            if word not in known:
                return LeavesSet(actor, at, tuple(known))
            digest = _next(digest, word)
        return digest


def _begin(actor: str) -> bytes:
    return blake2b(actor.encode(), digest_size=SIZE).digest()


def _next(digest: bytes, word: str) -> bytes:
    return blake2b(digest + word.encode("utf-8", "backslashreplace"), digest_size=SIZE).digest()
