"""Tokens of a batch as rows of a buffer: the model of a step without a cache and without samples.

Each token of each request has a different value. A forward writes the values of its tokens, in their order, and zero
into rows of padding. Ranks that add up their buffers then find in each row the value of one token. If a token is left
out, comes twice, lands in another row or meets another one, the sum is wrong.

A batch consists of pieces, `(request, tokens, position)`: the number of tokens of a request, and their first position.

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
    """The value of a token: never zero, and one more than that of the token before. Sums of a few fit into int32."""
    return request * SPREAD % PRIME + position + 1


def write(buffer: Any, start: int, pieces: tuple[Piece, ...]) -> None:
    """Kernel: write the tokens of the pieces to rows from `start` on, zero elsewhere."""
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
