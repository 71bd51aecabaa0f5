"""A model of integers: its arithmetic, and the kernels that compute it on a device.

The stand-in for a transformer has what coordination can break: layers with a KV cache, spread over pipeline stages;
prompts in chunks; a sampler that accepts or rejects draft tokens; state of requests in slots. A token depends on every
earlier token of its request and on where each was written in every layer's cache, so one stale token, one wrong count
or one row in a wrong slot changes all that the request says later. Arithmetic is exact, modulo a prime.

A kernel is written against the array API standard, with masks in place of indices that depend on data: the same on
numpy and torch, bit for bit, and nothing for which a host would have to wait for its device. All rows of state are
told by a *mapping* from batch rows to slots; what comes with slot -1 changes nothing.

`dpsim.protocol.oracle` is the same model for one request, a token at a time, without a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from array_api_compat import array_namespace
from array_api_compat import device as device_of

MODULUS = 32749
VOCABULARY = 997
LAYERS = 4


class Span(NamedTuple):
    """A batch row for kernels: `length` tokens from `start` of the step's tokens; what it computes ends in a sample
    (`samples`); its tokens are of the prompt (`prefilling`), else the last sampled one and drafts.
    """

    start: int
    length: int
    prefilling: bool
    samples: bool


def stage_layers(stage: int, stages: int) -> range:
    """The layers of a stage: equal shares, what is left over goes to the stages before the last (example A-28).

    >>> [len(stage_layers(stage, 3)) for stage in range(3)]
    [1, 2, 1]
    """
    share, left = divmod(LAYERS, stages)
    sizes = [share + (stages - 1 - left <= at < stages - 1) for at in range(stages)]
    start = sum(sizes[:stage])
    return range(start, start + sizes[stage])


# ---- the model: for a number or for arrays of them


def prompt_token(request: int, position: int) -> int:
    """A token of a request's prompt."""
    return (131 * request + 17 * position + 3) % VOCABULARY


def embedded(token: Any, position: Any) -> Any:
    return (31 * token + 7 * position + 5) % MODULUS


def cached(hidden: Any, position: Any, layer: int) -> Any:
    """What a layer keeps of a token."""
    return ((layer + 3) * hidden + 11 * position + 1) % MODULUS


def mixed(attention: Any, hidden: Any, layer: int) -> Any:
    """A layer's output, from the weighted sum over its cache and its input."""
    return (attention + 13 * hidden + layer) % MODULUS


def guessed(token: Any) -> Any:
    """What the drafter thinks comes after a token."""
    return (5 * token + 1) % VOCABULARY


def chosen(hidden: int, residual: int) -> int:
    """The next token: about every second one is what the drafter thinks."""
    return int(guessed(residual)) if hidden % 4 < 2 else hidden % VOCABULARY


# ---- kernels: buffers that are read, buffers that are written, arguments


def fill(buffer: Any, value: int) -> None:
    """Kernel: the same value everywhere."""
    buffer[:] = value


def put(buffer: Any, values: tuple[int, ...]) -> None:
    """Kernel: values of the host, into a buffer of one dimension."""
    buffer[:] = _of_host(buffer, values)


def put_one(buffer: Any, index: int, value: int) -> None:
    """Kernel: a value at one place, zero elsewhere."""
    buffer[:] = 0
    buffer[index] = value


def copy(source: Any, target: Any) -> None:
    """Kernel: the content of one buffer, into another."""
    target[:] = source


def admit(total: Any, computed: Any, ids: Any, slots: tuple[int, ...], known: tuple[tuple[int, ...], ...]) -> None:
    """Kernel: slots begin with these tokens, of which nothing is computed."""
    for slot, tokens in zip(slots, known, strict=True):
        total[slot] = len(tokens)
        computed[slot] = 0
        ids[slot, : len(tokens)] = _of_host(ids, tokens)


def prepare(
    ids: Any, last: Any, drafts: Any, computed: Any, total: Any, mapping: Any, inputs: Any, spans: tuple[Span, ...]
) -> None:
    """Kernel: what the step's tokens are, int64 (4, tokens): the token, its position, the length of its request and
    a digest of its request's tokens. The model needs the first two; the others are looked at.
    """
    xp, rows, offsets = _tokens(mapping, spans)
    prefilling = _of_host(mapping, [span.prefilling for span in spans for _ in range(span.length)])
    slots = mapping[rows]
    positions = computed[slots] + offsets
    places = _count(ids, ids.shape[1])[None, :]
    history = xp.astype(ids[slots], xp.int64)
    prompt = xp.sum(history * xp.astype(places == positions[:, None], xp.int64), axis=1)
    draft = _count(ids, drafts.shape[1])[None, :] == offsets[:, None] - 1
    decoded = xp.where(offsets == 0, last[slots], xp.sum(drafts[slots] * xp.astype(draft, xp.int64), axis=1))
    inputs[0] = xp.where(prefilling == 1, prompt, decoded)
    inputs[1] = positions
    inputs[2] = total[slots]
    within = xp.astype(places < total[slots][:, None], xp.int64)
    inputs[3] = xp.sum(history * (places + 1) * within, axis=1) % MODULUS


def embed(inputs: Any, hidden: Any, residual: Any) -> None:
    """Kernel: the step's tokens, as the first layer takes them."""
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
    """Kernel: a stage's layers. `cache`: int64 (layers, slots, positions)."""
    xp, rows, _ = _tokens(mapping, spans)
    slots, positions, width = mapping[rows], inputs[1], cache.shape[2]
    places = _count(cache, width)[None, :]
    weights = (places + 1) * xp.astype(places <= positions[:, None], xp.int64)
    state = hidden
    for index, layer in enumerate(layers):
        own = cache[index]
        own[slots, positions % width] = cached(state, positions, layer)
        state = mixed(xp.sum(own[slots] * weights, axis=1) % MODULUS, state, layer)
    hidden_out[:] = state
    residual_out[:] = residual


def sample(hidden: Any, residual: Any, inputs: Any, tokens: Any, counts: Any, spans: tuple[Span, ...]) -> None:
    """Kernel: the tokens that each row comes to, int64 (rows, width), and int32 (2, rows): how many they are, and how
    many drafts were rejected. Places without a token hold -1.
    """
    xp, width = array_namespace(hidden), tokens.shape[1]
    predicted = xp.where(hidden % 4 < 2, guessed(residual), hidden % VOCABULARY)
    first = [span.start + (span.length - 1 if span.prefilling else 0) for span in spans]
    drafts = [0 if span.prefilling else span.length - 1 for span in spans]
    going = _of_host(hidden, [int(span.samples) for span in spans])
    number, kept = xp.zeros_like(going), going
    for place in range(width):
        at = [start + min(place, count) for start, count in zip(first, drafts, strict=True)]
        now = predicted[_of_host(hidden, at)]
        tokens[:, place] = xp.where(going == 1, now, going * 0 - 1)
        number = number + going
        after = _of_host(hidden, [min(one + 1, hidden.shape[0] - 1) for one in at])
        drafted = _of_host(hidden, [int(place < count) for count in drafts])
        going = going * drafted * xp.astype(now == inputs[0][after], going.dtype)
    counts[0] = number
    counts[1] = kept * (_of_host(hidden, drafts) + 1) - number


def advance(mapping: Any, computed: Any, lengths: tuple[int, ...]) -> None:
    """Kernel: rows count as computed, before it is known what is rejected."""
    _, hits = _hits(mapping, computed.shape[0])
    _add(computed, hits, _of_host(mapping, lengths))


def update(
    tokens: Any, counts: Any, mapping: Any, last: Any, total: Any, ids: Any, computed: Any, lengths: tuple[int, ...]
) -> None:
    """Kernel: take over sampled tokens. `lengths`: of the rows, where they do not count as computed yet."""
    xp, hits = _hits(mapping, last.shape[0])
    sampled, rejected = (xp.sum(hits * counts[row][None, :], axis=1) for row in (0, 1))
    places, history = _count(ids, ids.shape[1])[None, :], xp.astype(ids, xp.int64)
    latest = last
    for number in range(tokens.shape[1]):
        new = xp.sum(hits * tokens[:, number][None, :], axis=1)
        here = (places == (total + number)[:, None]) & (sampled > number)[:, None]
        history = xp.where(here, new[:, None], history)
        latest = xp.where(sampled == number + 1, new, latest)
    last[:], ids[:] = latest, history
    total[:] = total + sampled
    computed[:] = computed - rejected
    _add(computed, hits, _of_host(mapping, lengths))


def propose(last: Any, mapping: Any, drafts: Any) -> None:
    """Kernel: drafts for the slots of a step, after the tokens just sampled."""
    xp, hits = _hits(mapping, last.shape[0])
    hit, token = xp.sum(hits, axis=1) > 0, last
    for number in range(drafts.shape[1]):
        token = guessed(token)
        drafts[:, number] = xp.where(hit, token, drafts[:, number])


def gather(state: Any, mapping: Any, rows: Any) -> None:
    """Kernel: the slots' rows of a table, in the order of the batch."""
    rows[:] = state[mapping]


def store(rows: Any, mapping: Any, state: Any) -> None:
    """Kernel: the reverse of `gather`, but for rows whose slot is -1."""
    xp, hits = _hits(mapping, state.shape[0])
    hit = xp.sum(hits, axis=1) > 0
    for number in range(state.shape[1]):
        new = xp.sum(hits * rows[:, number][None, :], axis=1)
        state[:, number] = xp.where(hit, new, state[:, number])


# ---- what the kernels share


def _of_host(like: Any, values: Sequence[int]) -> Any:
    """Values of the host, int64, where `like` is."""
    xp = array_namespace(like)
    return xp.asarray(values, dtype=xp.int64, device=device_of(like))


def _count(like: Any, stop: int) -> Any:
    """0, 1, ... stop - 1, where `like` is."""
    xp = array_namespace(like)
    return xp.arange(stop, dtype=xp.int64, device=device_of(like))


def _tokens(mapping: Any, spans: Sequence[Span]) -> tuple[Any, Any, Any]:
    """The namespace, and for each token of a step its row and its place in it."""
    rows = [row for row, span in enumerate(spans) for _ in range(span.length)]
    offsets = [offset for span in spans for offset in range(span.length)]
    return array_namespace(mapping), _of_host(mapping, rows), _of_host(mapping, offsets)


def _hits(mapping: Any, slots: int) -> tuple[Any, Any]:
    """The namespace, and int64 (slots, rows): 1 where the row belongs to the slot. The scatter that drops -1."""
    xp = array_namespace(mapping)
    return xp, xp.astype(_count(mapping, slots)[:, None] == mapping[None, :], xp.int64)


def _add(table: Any, hits: Any, values: Any) -> None:
    xp = array_namespace(table)
    table[:] = table + xp.sum(hits * values[None, :], axis=1)


__all__ = [
    "LAYERS",
    "MODULUS",
    "VOCABULARY",
    "Span",
    "admit",
    "advance",
    "cached",
    "chosen",
    "copy",
    "embed",
    "embedded",
    "fill",
    "forward",
    "gather",
    "guessed",
    "mixed",
    "prepare",
    "prompt_token",
    "propose",
    "put",
    "put_one",
    "sample",
    "stage_layers",
    "store",
    "update",
]
