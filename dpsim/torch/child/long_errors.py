"""Cuts the text of an exception that is longer than a journal keeps.

    [Rank 0] loading weights of layers.0 ... 5,120 characters cut ... KeyError: 'layers.0.mlp.gate'

Such a text often holds the whole traceback of another exception, which names itself in the last line. So the text
loses its middle.
"""

from __future__ import annotations

HEAD, TAIL = 500, 1_400
"""The numbers of characters that stay at the beginning and at the end. Both fit into the 2,000 of a journal."""


def cut_in_the_middle(text: str) -> str:
    """Returns the text with its first and last characters, and the number of those between.

    >>> cut_in_the_middle("short"), cut_in_the_middle("a" * 1_000 + "b" * 2_000)[495:535]
    ('short', 'aaaaa ... 1,100 characters cut ... bbbbb')
    """
    left = len(text) - HEAD - TAIL
    return text if left <= 50 else f"{text[:HEAD]} ... {left:,} characters cut ... {text[-TAIL:]}"
