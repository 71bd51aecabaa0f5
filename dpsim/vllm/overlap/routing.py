"""The expert of each token, and the uneven sizes of the all-to-all (specification 3.7 and 4.4).

In a real model, the router chooses an expert from the content of a token, and ranks exchange how many tokens go where.
In this model, the place of a token in its batch decides, so wrong counts give wrong sizes. Each rank has one expert.

    >>> [owner(token, layer=0, ranks=2) for token in range(6)]
    [0, 1, 1, 0, 0, 1]
    >>> route = Route.of(layer=0, first=0, counts=(3, 2), index=1)
    >>> route.order, route.source_sizes, route.output_sizes
    ((0, 1), (1, 1), (2, 1))

An expert adds its own number, the mark, to each token. After the combine, the sending rank subtracts the mark of the
right expert. So the result is wrong if another expert had the token, or if the rank gets another token in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpsim.vllm.model.arrays import namespace, of_host


def owner(token: int, layer: int, ranks: int) -> int:
    """The rank whose expert a token goes to. `token`: its place in the batch."""
    return (token + token // 2 + layer) % ranks


def mark(expert: int, layer: int) -> int:
    """The number that an expert adds in a layer."""
    return 101 * (expert + 1) + 1009 * layer


class Route(NamedTuple):
    """A dispatch of one rank. `order`: its rows by expert. `marks`: what the experts add to them.

    `source_sizes`: the rows to each rank. `output_sizes`: the rows from each rank.
    """

    order: tuple[int, ...]
    marks: tuple[int, ...]
    source_sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]

    @classmethod
    def of(cls, layer: int, first: int, counts: Sequence[int], index: int) -> Route:
        """For rank `index`. `counts`: the rows of each rank. `first`: the place of their first row in the batch."""
        ranks = len(counts)
        owners = [owner(first + row, layer, ranks) for row in range(max(counts))]
        order = sorted(range(counts[index]), key=lambda row: (owners[row], row))
        return cls(
            tuple(order),
            tuple([mark(owners[row], layer) for row in order]),
            tuple([owners[: counts[index]].count(rank) for rank in range(ranks)]),
            tuple([owners[:rows].count(index) for rows in counts]),
        )


def permute(hidden: Any, sent: Any, order: tuple[int, ...]) -> None:
    """Kernel: sort rows by expert."""
    sent[:] = hidden[of_host(hidden, order)]


def expert(received: Any, workspace: Any, outgoing: Any, added: int) -> None:
    """Kernel: add the expert's mark to the received tokens. The library writes to its workspace."""
    workspace[:] = received.shape[0]
    outgoing[:] = received + added


def unpermute(combined: Any, hidden: Any, order: tuple[int, ...], marks: tuple[int, ...]) -> None:
    """Kernel: subtract the marks, and write the rows in their former order."""
    own = combined - of_host(combined, marks)
    hidden[of_host(hidden, order)] = namespace(hidden).astype(own, hidden.dtype)  # torch assigns its dtype only
