"""The kernels of a captured forward. They read from buffers all inputs that differ between steps.

A CUDA graph replays the arguments of its capture, so the host writes the inputs of a step into persistent buffers
before the forward. The metadata of a request are three numbers:

* `starts`: the row of its first token in the batch;
* `lengths`: the length of its sequence, with the tokens of this step;
* `slots`: its row of the KV cache, or -1 if it has none.

This stand-in for attention makes wrong attention metadata visible, such as a stale slot. It writes each token's value
into the cache at its position. Then it reads the value one position *before*, adds one, and returns the sum. The values
of a request's neighbouring tokens differ by one (`dpsim.vllm.model.rows`), so with correct metadata a layer returns its
input.

    position      0      1      2              a decode of position 2 writes its value there, reads position 1
    cache row     v      v+1    v+2            and computes (v+1) + 1

The last row of the cache belongs to no request. Padding tokens write to it, and their attention is zero.
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
    """Kernel: write the metadata of a step from the host into the three int32 buffers."""
    starts[:] = of_host(starts, start_values)
    lengths[:] = of_host(lengths, length_values)
    slots[:] = of_host(slots, slot_values)


def put_cached(cache: Any, requests: tuple[tuple[int, int], ...]) -> None:
    """Kernel: for each pair (request, tokens), fill the request's row of the cache as a prefill does."""
    for request, tokens in requests:
        first = value(request, 0)
        cache[request, :tokens] = ascending(cache, first, first + tokens)


def project(hidden: Any, weights: Any, query: Any, layer: int) -> None:
    """Kernel: multiply by the layer's weight, divide by `layer + 1`; with the right weight, `query` equals `hidden`."""
    query[:] = hidden * weights[0] // (layer + 1)


def attend(query: Any, starts: Any, lengths: Any, slots: Any, cache: Any, attended: Any, uniform: int) -> None:
    """Kernel: attention as above. `cache`: int32 (rows + 1, positions).

    `uniform`: 0, or tokens of each request instead of `starts`, as the FULL graph of a decode does.
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
    """Kernel: write this rank's rows into a buffer of all ranks' rows, from row `start` on; zero elsewhere."""
    rows[:] = 0
    rows[start : start + attended.shape[0]] = attended


def from_experts(rows: Any, hidden: Any, shares: int) -> None:
    """Kernel: copy this rank's rows of the sum, divided by `shares`, the ranks that added the same rows."""
    hidden[:] = rows // shares
