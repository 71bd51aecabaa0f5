"""What every token of every request has to be, known without a device, without stages and without a scheduler.

`Oracle` is the model of `dpsim.protocol.model` for one request, a token at a time:

    >>> [Oracle(0, 3).token(position) for position in range(6)]
    [3, 20, 37, 186, 775, 885]

Where drafts are accepted a request needs fewer steps, but its tokens are the same: speculative decoding is exact.

A stage's inputs of a step are compared as a whole, for a token alone does not show everything: one that came for the
former owner of a slot changes the new one's length, its history or what counts as computed, and not its last token
(specification 6.11, M-PP-1). What differs is an exception; a class for each thing, since findings are named after it:
CRASH:WRONGTOKEN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsim.protocol.model import LAYERS, MODULUS, cached, chosen, embedded, guessed, mixed, prompt_token

if TYPE_CHECKING:
    from dpsim.protocol.requests import Row


class Oracle:
    """All tokens of one request, prompt first, as many as are asked for."""

    def __init__(self, request: int, prompt_tokens: int) -> None:
        self.tokens = [prompt_token(request, position) for position in range(prompt_tokens)]
        self._sums = [0] * LAYERS  # of each layer's cache, weighted, as far as `_done`
        self._done = 0

    def token(self, position: int) -> int:
        while len(self.tokens) <= position:
            token = self.tokens[self._done]
            hidden = embedded(token, self._done)
            for layer in range(LAYERS):
                self._sums[layer] += cached(hidden, self._done, layer) * (self._done + 1)
                hidden = mixed(self._sums[layer] % MODULUS, hidden, layer)
            self._done += 1
            if self._done == len(self.tokens):
                self.tokens.append(chosen(hidden, token))
        return self.tokens[position]

    def first(self, length: int) -> tuple[int, ...]:
        """The first so many tokens."""
        return tuple(self.token(position) for position in range(length))

    def drafts(self, position: int, count: int) -> list[int]:
        """What the drafter thinks comes after the token at a position."""
        drafts = [self.token(position)]
        for _ in range(count):
            drafts.append(guessed(drafts[-1]))
        return drafts[1:]

    def accepted(self, position: int, count: int) -> int:
        """How many of so many drafts after a position are right, up to the first that is not."""
        for number, draft in enumerate(self.drafts(position, count)):
            if draft != self.token(position + 1 + number):
                return number
        return count

    def digest(self, length: int) -> int:
        """One number for the first so many tokens."""
        return sum((position + 1) * token for position, token in enumerate(self.first(length))) % MODULUS


class Wrong(AssertionError):
    """A stage's state is not what the oracle says."""


class WrongCount(Wrong):
    """Another number of computed tokens: the cache is written at wrong positions."""


class WrongLength(Wrong):
    """Another number of tokens."""


class WrongToken(Wrong):
    """Another token goes into the model."""


class WrongHistory(Wrong):
    """Another token before the last."""


class WrongState(Wrong):
    """Another number of tokens is final: a model with recurrent state goes on from the wrong one."""


class WrongOutput(Wrong):
    """Another token comes out of the model."""


class LostTokens(Wrong):
    """Tokens that somebody needs are left in the queue at the end."""


def compare(oracle: Oracle, row: Row, step: int, came: Sequence[Sequence[int]], delivered: str | None) -> None:
    """Raise what differs in a row of the inputs of a step: of each token the token itself, its position, the length of
    its request, a digest of all its request's tokens, and how many are settled. `delivered`: by which op tokens came
    last to its slot.
    """
    position, count = row.position, row.scheduled
    length = row.prefill if row.prefilling else position + 1
    if row.prefilling:
        tokens = [oracle.token(position + place) for place in range(count)]
    else:
        tokens = [oracle.token(position), *oracle.drafts(position, row.drafts)]
    told: tuple[tuple[int, type[Wrong], str, list[int]], ...] = (
        (1, WrongCount, "position", [position + place for place in range(count)]),
        (2, WrongLength, "length", [length] * count),
        (0, WrongToken, "token", tokens),
        (3, WrongHistory, "history", [oracle.digest(length)] * count),
        (4, WrongState, "settled", [position] * count),
    )
    for line, wrong, what, wanted in told:
        for place in range(count):
            if came[line][place] != wanted[place]:
                raise wrong(
                    f"inputs of step {step}, request {row.request}, place {place} of {count}: "
                    f"{what} {came[line][place]}, the model says {wanted[place]}; "
                    f"last delivered to its slot: {delivered or 'nothing'}"
                )


class Witness:
    """Sees what goes into and comes out of the steps of one stage, and raises what is not as the oracles say."""

    def __init__(self, oracles: Sequence[Oracle]) -> None:
        self.oracles = oracles
        self._sampled: dict[int, list[tuple[int, int, int]]] = {}  # request -> (step, position, token)

    def inputs(
        self, step: int, rows: Sequence[Row], came: Sequence[Sequence[int]], delivered: Sequence[str | None]
    ) -> None:
        """The inputs of a step, row by row: see `compare`."""
        start = 0
        for row, by in zip(rows, delivered, strict=True):
            end = start + row.scheduled
            compare(self.oracles[row.request], row, step, [line[start:end] for line in came], by)
            start = end

    def sampled(
        self, step: int, rows: Sequence[Row], tokens: Sequence[Sequence[int]], counts: Sequence[Sequence[int]]
    ) -> None:
        """What was sampled in a step. It is looked at in the end: an input that was wrong before explains more."""
        for row, new, count in zip(rows, tokens, counts[0], strict=True):
            if row.samples:
                first = row.position + (row.scheduled if row.prefilling else 1)
                said = self._sampled.setdefault(row.request, [])
                said += [(step, first + place, token) for place, token in enumerate(new[:count])]

    def end(self) -> None:
        """Raise WrongOutput for the first token that the model would not say."""
        for request, said in sorted(self._sampled.items()):
            for step, position, token in said:
                wanted = self.oracles[request].token(position)
                if token != wanted:
                    raise WrongOutput(
                        f"request {request} got token {token} at position {position} from step {step}, "
                        f"the model says {wanted}"
                    )


__all__ = [
    "LostTokens",
    "Oracle",
    "Witness",
    "Wrong",
    "WrongCount",
    "WrongHistory",
    "WrongLength",
    "WrongOutput",
    "WrongState",
    "WrongToken",
    "compare",
]
