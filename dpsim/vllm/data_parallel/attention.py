"""What the layers of a captured forward compute: kernels that read all their inputs from buffers.

A captured kernel keeps the arguments of its capture. So buffers hold everything that differs from step to step: the
values of the tokens, and the metadata of attention. The host fills them before the forward.

For each request the metadata has the place of its first token (`starts`) and the length of its sequence (`lengths`). It
also has the request's row of the cache (`slots`, -1: none). Attention shows a stale number, as follows. The cache has
the value of each token at its position, and the values of a request's tokens differ by one (`dpsim.vllm.model.rows`).
So attention computes a token from the token *before* it in the cache, plus one. If all numbers are right, this is the
value of the token again, and a layer leaves its input unchanged. If one is wrong, the value differs, and the witness
reports it.

    position      0      1      2              a decode of position 2 writes its value there, reads position 1
    cache row     v      v+1    v+2            and computes (v+1) + 1

The last row of a cache belongs to no request. Tokens without a request write there, and their attention is zero.
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
    """Kernel: write the host's metadata of attention."""
    starts[:] = of_host(starts, start_values)
    lengths[:] = of_host(lengths, length_values)
    slots[:] = of_host(slots, slot_values)


def put_cached(cache: Any, requests: tuple[tuple[int, int], ...]) -> None:
    """Kernel: write this number of tokens for each request, as a prefill of them would leave them."""
    for request, tokens in requests:
        first = value(request, 0)
        cache[request, :tokens] = ascending(cache, first, first + tokens)


def project(hidden: Any, weights: Any, query: Any, layer: int) -> None:
    """Kernel: with the weights of the layer it leaves its input unchanged."""
    query[:] = hidden * weights[0] // (layer + 1)


def attend(query: Any, starts: Any, lengths: Any, slots: Any, cache: Any, attended: Any, uniform: int) -> None:
    """Kernel: attention, as above. `cache`: int32 (rows + 1, positions). `uniform`: the tokens of each request in the
    layout of a decode graph, whatever `starts` says; with 0 the layout is that of `starts`.
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
    """Kernel: put this rank's rows into a buffer for all ranks' rows, zero elsewhere."""
    rows[:] = 0
    rows[start : start + attended.shape[0]] = attended


def from_experts(rows: Any, hidden: Any, shares: int) -> None:
    """Kernel: this rank's rows of the sum. `shares`: ranks that added the same."""
    hidden[:] = rows // shares
