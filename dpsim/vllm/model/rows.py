"""Tokens of a batch as rows of a buffer: the model where a step has no cache and nothing is sampled.

Each token of each request has a value of its own. A forward writes the values of its tokens, in their order, and zero
into rows of padding. Ranks that add up their buffers then find in each row the value of one token. A token that is
left out, comes twice, comes to another row or meets another one is a wrong sum.

A batch says what it runs in pieces, `(request, tokens, position)`: so many tokens of a request from a position on.

    >>> import numpy as np
    >>> rows = np.ones(6, np.int32)
    >>> write(rows, 1, ((0, 3, 7), (2, 1, 0)))
    >>> rows.tolist(), value(0, 7), value(2, 0)
    ([0, 8, 9, 10, 236066, 0], 8, 236066)
    >>> cut(((0, 3, 7), (2, 1, 0)), 2, 4)
    ((0, 1, 9), (2, 1, 0))
"""

from __future__ import annotations

from typing import Any, TypeAlias

from dpsim.vllm.model.arrays import ascending

Piece: TypeAlias = tuple[int, int, int]

PRIME = 1_000_003
SPREAD = 618_034
"""The golden section of the prime: first tokens of a few hundred requests are thousands apart."""


def value(request: int, position: int) -> int:
    """What a token comes to: never zero, and one more than the token before it. Sums of a few fit into int32."""
    return request * SPREAD % PRIME + position + 1


def write(buffer: Any, start: int, pieces: tuple[Piece, ...]) -> None:
    """Kernel: the tokens of the pieces in rows from `start` on, zero elsewhere."""
    buffer[:] = 0
    for request, tokens, position in pieces:
        first = request * SPREAD % PRIME + position + 1
        if tokens == 1:
            buffer[start] = first
        else:
            buffer[start : start + tokens] = ascending(buffer, first, first + tokens)
        start += tokens


def cut(pieces: tuple[Piece, ...], first: int, stop: int) -> tuple[Piece, ...]:
    """The tokens `first` to `stop` of a batch."""
    kept, at = [], 0
    for request, tokens, position in pieces:
        begin, end = max(first - at, 0), min(stop - at, tokens)
        if begin < end:
            kept.append((request, end - begin, position + begin))
        at += tokens
    return tuple(kept)
