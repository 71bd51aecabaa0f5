"""Tests the V1 dispatcher of three releases against the text of spec chapter 5.4 and invariants I-CG-1 to 5 and
I-CG-10.

`naive` implements the text literally, with lists and loops. Each release must agree with `naive` for all drawn batches.
For each property there are dispatchers that break it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import (
    ALL_MODES,
    Descriptor,
    Dispatcher,
    Dispatcher014,
    Dispatcher017,
)
from tests.properties import breaks, examples, holds
from tests.vllm.graphs.queries import FULL, MODES, NONE, PIECEWISE
from tests.vllm.graphs.wrong_dispatchers import (
    AlwaysFull,
    ForgetsLora,
    IgnoresAllowed,
    ManyDecodes,
    NextSize,
    NoFallback,
    OneRequest,
    PadsEager,
    RoundsDown,
)
from tests.vllm.released import DISPATCHERS

Answer = tuple[RuntimeMode, Descriptor]
Kind = type[Dispatcher]

RELEASES = pytest.mark.parametrize("kind", DISPATCHERS.values(), ids=list(DISPATCHERS))


# ---- batches drawn


class Query(NamedTuple):
    """A batch of `num_reqs` requests, with the configuration and the modes that its rank allows."""

    config: EngineConfig
    num_reqs: int
    num_tokens: int
    uniform: bool
    has_lora: bool
    allowed: frozenset[RuntimeMode]

    def ask(self, kind: Kind, num_tokens: int | None = None) -> Answer:
        tokens = self.num_tokens if num_tokens is None else num_tokens
        return kind(self.config).dispatch(tokens, self.uniform, has_lora=self.has_lora, allowed=self.allowed)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Draws real batches: in a uniform decode each request has q tokens, else at least one.

    Most queries allow mode NONE.
    """
    q = draw(st.integers(1, 3))
    sizes = [q * size for size in draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))]
    lora = draw(st.booleans())
    config = EngineConfig(
        cudagraph_mode=draw(st.sampled_from(CUDAGraphMode)),
        cudagraph_capture_sizes=tuple(sizes),
        num_speculative_tokens=q - 1,
        max_num_seqs=draw(st.integers(1, 12)),
        enable_lora=lora,
        cudagraph_specialize_lora=draw(st.booleans()),
    )
    num_reqs = draw(st.integers(1, config.max_num_seqs))
    uniform = draw(st.booleans())
    tokens = q * num_reqs if uniform else draw(st.integers(num_reqs, 40))
    kinds = st.sampled_from([ALL_MODES, ALL_MODES, {NONE}, {PIECEWISE}, {FULL}, {NONE, PIECEWISE}])
    return Query(config, num_reqs, tokens, uniform, lora and draw(st.booleans()), frozenset(draw(kinds)))


# ---- the text of spec chapter 5.4


def naive_tables(config: EngineConfig, kind: Kind) -> dict[RuntimeMode, list[Descriptor]]:
    """Returns the registered descriptors of each mode, as the spec lists them."""
    decode_mode, mixed_mode, separate = MODES[config.cudagraph_mode]
    q, most = 1 + config.num_speculative_tokens, config.max_num_seqs
    cases = [False]
    if config.enable_lora:
        cases = [True, False] if config.cudagraph_specialize_lora else [True]
    tables: dict[RuntimeMode, list[Descriptor]] = {NONE: [], PIECEWISE: [], FULL: []}
    for has_lora in cases:
        for size in config.cudagraph_capture_sizes or ():
            # "for mixed_mode != NONE all sizes (requests None for PIECEWISE; requests=min(tokens,maxseqs) for FULL)"
            if mixed_mode == PIECEWISE:
                tables[PIECEWISE].append(Descriptor(size, None, False, has_lora))
            if mixed_mode == FULL:  # "0.14's FULL keys are relaxed (requests None)"
                any_number = issubclass(kind, Dispatcher014)
                tables[FULL].append(Descriptor(size, None if any_number else min(size, most), False, has_lora))
            # "for decode FULL with separate routine all sizes in [q, q*maxseqs] with requests=tokens/q, uniform"
            if decode_mode == FULL and separate and q <= size <= q * most:
                tables[FULL].append(Descriptor(size, size // q, True, has_lora))
    return tables


def naive(query: Query, kind: Kind) -> Answer | None:
    """Returns the answer by the spec's text, or None if the text asserts. All sizes are multiples of q here."""
    config, tables = query.config, naive_tables(query.config, kind)
    sizes = sorted(config.cudagraph_capture_sizes or ())
    eager = NONE, Descriptor(query.num_tokens)
    # "mode NONE, n>max size, or only NONE allowed -> (NONE, n), whatever is allowed"
    if config.cudagraph_mode == CUDAGraphMode.NONE or query.num_tokens > sizes[-1] or query.allowed == {NONE}:
        return eager
    padded = next(size for size in sizes if size >= query.num_tokens)
    separate, q = MODES[config.cudagraph_mode][2], 1 + config.num_speculative_tokens
    if FULL in query.allowed:
        for one in tables[FULL]:
            asked = one.num_reqs
            # "0.17, mode FULL with q>1: asked for with size/q" (but at most max_num_seqs)
            if kind is Dispatcher017 and query.uniform and not separate:
                asked = min(padded // q, config.max_num_seqs)
            same = (one.num_tokens, one.num_reqs, one.has_lora) == (padded, asked, query.has_lora)
            if same and one.uniform == (query.uniform and separate):
                return FULL, one
    if PIECEWISE in query.allowed:
        for one in tables[PIECEWISE]:
            if (one.num_tokens, one.has_lora) == (padded, query.has_lora):
                return PIECEWISE, one
    return eager if NONE in query.allowed or issubclass(kind, Dispatcher014) else None


def answer(query: Query, kind: Kind) -> Answer | None:
    try:
        return query.ask(kind)
    except AssertionError:
        return None


# ---- properties


def as_the_text_says(query: Query, kind: Kind) -> None:
    release = next(one for one in kind.__mro__ if one in DISPATCHERS.values())
    assert answer(query, kind) == naive(query, release), "spec chapter 5.4: the dispatcher agrees with the text"


def smallest_size(query: Query, kind: Kind) -> None:
    result = answer(query, kind)
    if result is not None and result[0] != NONE:
        fitting = [size for size in query.config.cudagraph_capture_sizes or () if size >= query.num_tokens]
        assert result[1].num_tokens >= query.num_tokens, "I-CG-1: at least the tokens of the batch"
        assert result[1].num_tokens == min(fitting), "I-CG-1: the smallest size that fits"


def decode_sizes(query: Query, kind: Kind) -> None:
    result, q = answer(query, kind), query.config.uniform_decode_query_len
    if result is not None and result[1].uniform:
        assert q <= result[1].num_tokens <= q * query.config.max_num_seqs, "I-CG-2: what decodes can be"


def registered(query: Query, kind: Kind) -> None:
    result = answer(query, kind)
    if result is not None and result[0] != NONE:
        mode, key = result
        assert key in naive_tables(query.config, kind)[mode], "I-CG-3: a graph that exists"


def eager_is_not_padded(query: Query, kind: Kind) -> None:
    result = answer(query, kind)
    if result is not None and result[0] == NONE:
        assert result[1] == Descriptor(query.num_tokens), "I-CG-4: no padding without a graph"


def idempotent(query: Query, kind: Kind) -> None:
    result = answer(query, kind)
    if result is not None:
        assert query.ask(kind, result[1].num_tokens) == result, "I-CG-5: asked again with its own answer"


def requests_fit(query: Query, kind: Kind) -> None:
    result = answer(query, kind)
    if result is not None and result[0] == FULL:
        assert query.num_reqs <= (result[1].num_reqs or query.num_reqs), "I-CG-10: room for every request"


def allowed_only(query: Query, kind: Kind) -> None:
    result = answer(query, kind)
    sizes = query.config.cudagraph_capture_sizes or ()
    if result is not None and query.config.cudagraph_mode != CUDAGraphMode.NONE and query.num_tokens <= max(sizes):
        assert result[0] in query.allowed, "spec chapter 5.4: the dispatcher returns an allowed mode"


Property = Callable[..., None]

PROPERTIES: list[Property] = [
    as_the_text_says,
    smallest_size,
    decode_sizes,
    registered,
    eager_is_not_padded,
    idempotent,
    requests_fit,
    allowed_only,
]


# ---- all dispatchers


@RELEASES
@examples(100, 1000)
def test_the_properties_of_a_dispatcher_hold_for_random_queries(kind: Kind, examples: int) -> None:
    def all_hold(query: Query) -> None:
        if kind is Dispatcher014:  # the caller in 0.14 can forbid FULL only
            query = query._replace(allowed=query.allowed | {NONE, PIECEWISE})
        for property_ in PROPERTIES:
            property_(query, kind)

    holds(all_hold, queries(), examples)


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (smallest_size, RoundsDown, "I-CG-1: at least"),
        (smallest_size, NextSize, "I-CG-1: the smallest"),
        (decode_sizes, ManyDecodes, "I-CG-2"),
        (registered, AlwaysFull, "I-CG-3"),
        (eager_is_not_padded, PadsEager, "I-CG-4"),
        (idempotent, NextSize, "I-CG-5"),
        (requests_fit, OneRequest, "I-CG-10"),
        (allowed_only, IgnoresAllowed, "returns an allowed mode"),
        (as_the_text_says, ForgetsLora, "spec chapter 5.4: the dispatcher agrees with the text"),
        (as_the_text_says, NoFallback, "spec chapter 5.4: the dispatcher agrees with the text"),
    ],
)
def test_a_wrong_dispatcher_is_found(property_: Property, wrong: Kind, says: str) -> None:
    breaks(lambda query: property_(query, wrong), queries(), says)
