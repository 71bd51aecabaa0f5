"""The stand-in for a transformer: integer arithmetic, and the kernels that compute it on a device.

The stand-in has each part that wrong coordination can break: layers, stages, KV cache, chunks, slots, drafts. A sampled
token depends on every earlier token of its request, and on the place of each in the cache of every layer. So one stale
token, one wrong count or one row in a wrong slot changes all later tokens of the request. The arithmetic is exact,
modulo a prime.

The kernels use the array API standard, and masks instead of indices that depend on data. So numpy and torch compute the
same numbers, bit for bit, and no kernel makes the host wait for its device. The state of a request is in a slot, and a
*mapping* has the slot of each row of the batch. A row with slot -1 changes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from dpsim.vllm.model.arrays import count, namespace, of_host

MODULUS = 32749
VOCABULARY = 997
LAYERS = 4
KINDS = 4
ANY = -1
"""The entry of a grammar mask that permits any kind of token."""


class Span(NamedTuple):
    """One row: `length` tokens of one request, from `start` of the step. `samples`: the sampler samples behind them.

    `prefilling`: they are of the prompt; otherwise the last sampled token and its drafts.
    """

    start: int
    length: int
    prefilling: bool
    samples: bool


def stage_layers(stage: int, stages: int) -> range:
    """The layers of a pipeline stage. All stages get equal shares. The stages just before the last get one more each,
    until the remainder is used up (example A-28).

        >>> [len(stage_layers(stage, 3)) for stage in range(3)]
        [1, 2, 1]
    """
    share, left = divmod(LAYERS, stages)
    sizes = [share + (stages - 1 - left <= at < stages - 1) for at in range(stages)]
    start = sum(sizes[:stage])
    return range(start, start + sizes[stage])


# ---- the model: for a number or for arrays of them


def prompt_token(request: int, position: int) -> int:
    """The token at a position of a request's prompt."""
    return (131 * request + 17 * position + 3) % VOCABULARY


def embedded(token: Any, position: Any) -> Any:
    return (31 * token + 7 * position + 5) % MODULUS


def cached(hidden: Any, position: Any, layer: int) -> Any:
    """The value that a layer writes into its cache for a token."""
    return ((layer + 3) * hidden + 11 * position + 1) % MODULUS


def mixed(attention: Any, hidden: Any, layer: int) -> Any:
    """A layer's output, from the weighted sum over its cache and from its input."""
    return (attention + 13 * hidden + layer) % MODULUS


def guessed(token: Any) -> Any:
    """The token that the drafter proposes after a token."""
    return (5 * token + 1) % VOCABULARY


def chosen(hidden: int, residual: int) -> int:
    """The sampled token. For about half of all states, it is the token that the drafter proposes."""
    return int(guessed(residual)) if hidden % 4 < 2 else hidden % VOCABULARY


def permitted(token: Any) -> Any:
    """The grammar: the kind (of `KINDS` kinds) that the next token must have after this token."""
    return (3 * token + 1) % KINDS


def masked(token: Any, kind: Any) -> Any:
    """The sampled token, changed to the kind that the grammar permits."""
    return (token - token % KINDS + kind) % VOCABULARY


# ---- kernels: buffers that are read, buffers that are written, arguments


def fill(buffer: Any, value: int) -> None:
    """Kernel: write one value into all elements."""
    buffer[:] = value


def put(buffer: Any, values: tuple[int, ...]) -> None:
    """Kernel: write host values into a buffer of one dimension."""
    buffer[:] = of_host(buffer, values)


def put_one(buffer: Any, index: int, value: int) -> None:
    """Kernel: write a value at one index, and zero into all other elements."""
    buffer[:] = 0
    buffer[index] = value


def copy(source: Any, target: Any) -> None:
    """Kernel: copy `source` into `target`."""
    target[:] = source


def embed(inputs: Any, hidden: Any, residual: Any) -> None:
    """Kernel: embed the tokens for the first layer. `inputs`: (2, tokens), tokens and positions."""
    hidden[:] = embedded(inputs[0], inputs[1])
    residual[:] = inputs[0]


def forward(
    hidden: Any,
    residual: Any,
    inputs: Any,
    mapping: Any,
    cache: Any,
    hidden_out: Any,
    residual_out: Any,
    layers: tuple[int, ...],
    spans: tuple[Span, ...],
) -> None:
    """Kernel: compute the layers of one stage. `cache`: int64 of shape (layers, slots, positions)."""
    xp, rows = namespace(mapping), of_host(mapping, layout(spans)[0])
    slots, positions, width = mapping[rows], inputs[1], cache.shape[2]
    weights = count(cache, width)[None, :] + 1
    last = xp.minimum(positions, of_host(cache, (width - 1,)))
    state = hidden
    for index, layer in enumerate(layers):
        own = cache[index]
        own[slots, positions % width] = cached(state, positions, layer)
        upto = xp.cumulative_sum(own[mapping] * weights, axis=1)  # once a row: a long prompt has many tokens
        state = mixed(upto[rows, last] % MODULUS, state, layer)
    hidden_out[:] = state
    residual_out[:] = residual


def sample(
    hidden: Any,
    residual: Any,
    inputs: Any,
    tokens: Any,
    sampled: Any,
    rejected: Any,
    spans: tuple[Span, ...],
    masks: tuple[tuple[int, ...], ...] = (),
) -> None:
    """Kernel: sample the tokens of each row.

    Writes int64 (rows, width), -1 where there is none; the numbers sampled and of rejected drafts, int32 (rows,).
    `masks`: a row's kinds of permitted tokens, by place; empty if no row has a grammar.
    """
    xp, width = namespace(hidden), tokens.shape[1]
    predicted = xp.where(hidden % 4 < 2, guessed(residual), hidden % VOCABULARY)
    going = kept = of_host(hidden, tuple(int(span.samples) for span in spans))
    number = going * 0
    for place, (at, drafted, after) in enumerate(_places(spans, width)):
        now = predicted[of_host(hidden, at)]
        if masks:
            kinds = of_host(hidden, tuple(mask[place] if place < len(mask) else ANY for mask in masks))
            now = xp.where(kinds == ANY, now, masked(now, kinds))
        tokens[:, place] = (now + 1) * going - 1
        number = number + going
        if any(drafted):
            right = xp.astype(now == inputs[0][of_host(hidden, after)], going.dtype)
            going = going * of_host(hidden, drafted) * right
        else:
            going = going * 0
    sampled[:] = number
    rejected[:] = kept * (of_host(hidden, tuple(_drafts(span) for span in spans)) + 1) - number


def stack(first: Any, second: Any, rows: Any) -> None:
    """Kernel: write two arrays as the two rows of a table."""
    rows[0], rows[1] = first, second


# ---- what the kernels share


@lru_cache(maxsize=4096)
def layout(spans: tuple[Span, ...]) -> tuple[tuple[int, ...], ...]:
    """For each token of a step: its row in the batch, its place in the row, and whether it is a prompt token."""
    tokens = [(row, offset, int(span.prefilling)) for row, span in enumerate(spans) for offset in range(span.length)]
    return tuple(zip(*tokens, strict=True))


def _drafts(span: Span) -> int:
    return 0 if span.prefilling else span.length - 1


@lru_cache(maxsize=4096)
def _places(spans: tuple[Span, ...], width: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each row and place: the token behind which the sample is, whether a draft follows (0 or 1), and its index."""
    starts = [span.start + (span.length - 1 if span.prefilling else 0) for span in spans]
    places = []
    for place in range(width):
        at = tuple(start + min(place, _drafts(span)) for start, span in zip(starts, spans, strict=True))
        drafted = tuple(int(place < _drafts(span)) for span in spans)
        places.append((at, drafted, tuple(one + more for one, more in zip(at, drafted, strict=True))))
    return tuple(places)
