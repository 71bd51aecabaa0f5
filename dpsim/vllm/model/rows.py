"""Tokens of a batch as rows of a buffer: the stand-in for the model in steps that have no cache and sample nothing.

Each token of each request is a different number. Each rank writes its own rows, and the ranks sum their buffers. If a
token is missing, is duplicated or is in another row, the sum is wrong.

A batch consists of pieces `(request, tokens, position)`: the number of tokens of a request, and the position of the
first.

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
"""The golden section of the prime. With this factor, the first tokens of a few hundred requests differ by thousands."""


def value(request: int, position: int) -> int:
    """Never zero, and one more than that of the token before; a sum of a few fits into int32."""
    return request * SPREAD % PRIME + position + 1


def write(buffer: Any, start: int, pieces: tuple[Piece, ...]) -> None:
    """Kernel: write the tokens of the pieces to the rows from `start` on, and zero into all other rows."""
    buffer[:] = 0
    for request, tokens, position in pieces:
        first = request * SPREAD % PRIME + position + 1
        if tokens == 1:
            buffer[start] = first
        else:
            buffer[start : start + tokens] = ascending(buffer, first, first + tokens)
        start += tokens


def cut(pieces: tuple[Piece, ...], first: int, stop: int) -> tuple[Piece, ...]:
    """The pieces of the tokens `first` to stop - 1 of a batch."""
    kept, at = [], 0
    for request, tokens, position in pieces:
        begin, end = max(first - at, 0), min(stop - at, tokens)
        if begin < end:
            kept.append((request, end - begin, position + begin))
        at += tokens
    return tuple(kept)
