"""What the layers of a captured forward compute: kernels that find all they need in buffers.

Arguments of a captured kernel are those of its capture for good. So whatever differs from step to step is in buffers,
which the host fills before the forward: the values of the tokens, and for attention where each request's tokens begin
(`starts`), how long its sequence is with them (`lengths`), and which row of the cache it has (`slots`, -1: none).

Attention is what a stale number of these shows in. The cache has the value of each token at its position, and the
values of a request's tokens are one apart (`dpsim.vllm.model.rows`). So what comes out of attention for a token is
made from the token *before* it, as the cache has it: one more. With all numbers right this is the value of the token
again, and a layer leaves what it found; with any of them wrong it is another, and the witness says so.

    position      0      1      2              a decode of position 2 writes its value there, reads position 1
    cache row     v      v+1    v+2            and comes to (v+1) + 1

The last row of a cache belongs to nobody: tokens of no request write there, and come to zero.
"""

from __future__ import annotations

from typing import Any

from dpsim.vllm.model.arrays import ascending, count, namespace, of_host
from dpsim.vllm.model.rows import value


def put_metadata(
    starts: Any,
    lengths: Any,
    slots: Any,
    start_values: tuple[int, ...],
    length_values: tuple[int, ...],
    slot_values: tuple[int, ...],
) -> None:
    """Kernel: numbers of the host for attention."""
    starts[:] = of_host(starts, start_values)
    lengths[:] = of_host(lengths, length_values)
    slots[:] = of_host(slots, slot_values)


def put_cached(cache: Any, requests: tuple[tuple[int, int], ...]) -> None:
    """Kernel: of each request the first so many tokens, as a prefill of them would leave them."""
    for request, tokens in requests:
        first = value(request, 0)
        cache[request, :tokens] = ascending(cache, first, first + tokens)


def project(hidden: Any, weights: Any, query: Any, layer: int) -> None:
    """Kernel: with the weights of the layer it leaves what it found."""
    query[:] = hidden * weights[0] // (layer + 1)


def attend(query: Any, starts: Any, lengths: Any, slots: Any, cache: Any, attended: Any, uniform: int) -> None:
    """Kernel: see above. `cache`: int32 (rows + 1, positions). `uniform`: the layout of a decode graph, so many tokens
    for each request whatever `starts` says; 0: that of `starts`.
    """
    xp = namespace(query)
    tokens, requests = count(query, query.shape[0])[None, :], count(query, slots.shape[0])
    first, stop = (requests * uniform, requests * uniform + uniform) if uniform else (starts[:-1], starts[1:])
    first, stop, slots = (xp.astype(one, xp.int64)[:, None] for one in (first, stop, slots))
    own = xp.astype((tokens >= first) & (tokens < stop) & (slots >= 0), xp.int64)  # (requests, tokens)
    covered = xp.sum(own, axis=0) > 0
    positions = xp.sum(own * (xp.astype(lengths, xp.int64)[:, None] - stop + tokens), axis=0)
    rows, width = cache.shape
    row = xp.where(covered, xp.sum(own * slots, axis=0), rows - 1) % rows
    cache[row, positions % width] = query
    before = cache[row, (positions - 1) % width]
    attended[:] = xp.where(covered, xp.where(positions > 0, before + 1, query), query * 0)


def to_experts(attended: Any, rows: Any, start: int) -> None:
    """Kernel: this rank's rows in a buffer for everyone's, zero elsewhere."""
    rows[:] = 0
    rows[start : start + attended.shape[0]] = attended


def from_experts(rows: Any, hidden: Any, shares: int) -> None:
    """Kernel: this rank's rows of the sum. `shares`: ranks that added the same."""
    hidden[:] = rows // shares
