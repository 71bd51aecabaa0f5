"""Sees what goes into and comes out of a stage, and raises what is not as the oracles say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsim.protocol.model.oracle import Oracle
from dpsim.protocol.pipeline.batches import Row


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
