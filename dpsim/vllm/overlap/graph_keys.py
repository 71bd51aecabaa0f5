"""The keys under which a graph of microbatches is stored and looked up, by release (specification 4.9).

A key is computed from the tokens of each microbatch:

                  stored under               looked up under
    001, 0.14     first + second             2 x first
    0.17 - 0.24   first + second             all
    0.33          all                        all
    V2 runner     all                        all; a batch that is not split has a separate graph

For two microbatches of equal size, both keys are equal in all releases. Otherwise they may differ in releases before
0.33. Then no step finds the graph, and each step captures another one (vLLM issue 43145).

    >>> Keys001().stored([32, 33]), Keys001().looked_up([32, 33])
    (65, 64)
    >>> [(keys().stored([8, 8, 8]), keys().looked_up([8, 8, 8])) for keys in (Keys017, Keys033)]
    [(16, 24), (24, 24)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class GraphKeys(ABC):
    """The keys of a release, from the tokens of each microbatch."""

    @abstractmethod
    def stored(self, tokens: Sequence[int]) -> int:
        """The key under which a capture stores its graph."""

    @abstractmethod
    def looked_up(self, tokens: Sequence[int]) -> int:
        """The key that a step looks up."""

    def plain(self, num_tokens: int) -> int:
        """The key that a batch looks up if it is not split."""
        return num_tokens


class Keys001(GraphKeys):
    """The keys of source page 001 and of release 0.14."""

    def stored(self, tokens: Sequence[int]) -> int:
        return tokens[0] + tokens[1]

    def looked_up(self, tokens: Sequence[int]) -> int:
        return 2 * tokens[0]


class Keys017(GraphKeys):
    """The keys of releases 0.17 to 0.24."""

    def stored(self, tokens: Sequence[int]) -> int:
        return tokens[0] + tokens[1]

    def looked_up(self, tokens: Sequence[int]) -> int:
        return sum(tokens)


class Keys033(GraphKeys):
    """The keys of release 0.33."""

    def stored(self, tokens: Sequence[int]) -> int:
        return sum(tokens)

    def looked_up(self, tokens: Sequence[int]) -> int:
        return sum(tokens)


class KeysV2(Keys033):
    """The keys of the V2 runner of 0.33, which captures a size as a whole and for microbatches."""

    def plain(self, num_tokens: int) -> int:
        """A key of no tokens. It matches no graph of microbatches, because each of them has tokens."""
        return 0
