"""Tests the graph candidates of the V2 runner against vLLM's first choices and against invariants I-CG-1 to 5 and
I-CG-10.

docs/keys.md lists the invariants of CUDA graphs (I-CG) and the mutants that break them (M-CG).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference
from dpsim_engine.stored import answers
from dpsim_engine.v2 import V2_DISPATCH
from tests.properties import breaks, examples, holds
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE, Asked, batches, graph_configs

Kind = type[CandidateTable]

# ---- vLLM's stored answers


def differing(kind: Kind = CandidateTable) -> list[Difference]:
    return comparison.differing(V2_DISPATCH, answers("v2_sync", "0.33.0"), kind)


class KeepsLargeDecodes(CandidateTable):
    """Faulty: keeps decode sizes above what `max_num_seqs` requests can fill."""

    def decode_sizes(self, sizes: Sequence[int]) -> list[int]:
        return [size for size in sorted({-(-size // self.q) * self.q for size in sizes}) if size <= sizes[-1]]


class KeepsSizesBeyondTheLargest(CandidateTable):
    """Faulty: keeps decode sizes that rounding raised above the largest configured size."""

    def decode_sizes(self, sizes: Sequence[int]) -> list[int]:
        return super().decode_sizes([*sizes, self.q * self.max_num_seqs])


def test_every_first_choice_of_the_engine() -> None:
    assert differing() == []
    assert differing(KeepsLargeDecodes)
    assert differing(KeepsSizesBeyondTheLargest)


# ---- batches drawn


class Query(NamedTuple):
    """A configuration, and a batch to dispatch."""

    config: EngineConfig
    asked: Asked


@st.composite
def queries(draw: st.DrawFn) -> Query:
    config = draw(graph_configs(multiples=False))
    return Query(config, draw(batches(config)))


def choice(query: Query, kind: Kind) -> BatchDescriptor:
    tokens = set(query.asked.tokens)
    uniform = tokens.pop() if len(tokens) == 1 else None
    return kind(query.config).dispatch(query.asked.num_reqs, query.asked.num_tokens, uniform)


def all_hold(query: Query, kind: Kind = CandidateTable) -> None:
    config, asked, chosen = query.config, query.asked, choice(query, kind)
    q, most = config.uniform_decode_query_len, config.max_num_seqs
    sizes = config.cudagraph_capture_sizes or ()
    assert choice(query, kind) == chosen, "a second call gives the same choice"
    if chosen.mode == NONE:
        assert chosen == (NONE, asked.num_tokens, asked.num_reqs, None, 1), "I-CG-4: no padding without a graph"
        return
    assert chosen.num_tokens >= asked.num_tokens, "I-CG-1: room for every token"
    assert chosen.num_tokens in {*sizes, *(-(-size // q) * q for size in sizes)}, "I-CG-3: a graph of the table"
    assert chosen.mode in (config.cudagraph_mode.decode_mode, config.cudagraph_mode.mixed_mode), (
        "spec chapter 5.1: the mode is that of decodes or of mixed batches"
    )
    if chosen.uniform_token_count is not None:
        assert asked.uniform(q), "a decode graph for decodes only"
        assert q <= chosen.num_tokens <= q * most, "I-CG-2: what decodes can be"
    if chosen.mode == PIECEWISE:
        assert chosen.num_reqs is None, "M-CG-16: attention runs outside of the pieces, over the requests there are"
    else:
        assert asked.num_reqs <= (chosen.num_reqs or 0), "I-CG-10: room for every request"
    # I-CG-1: no smaller graph of the same kind has room for the batch
    same = [graph for graph in (*kind(config).decodes, *kind(config).mixed) if graph[0::3] == chosen[0::3]]
    assert not [graph for graph in same if asked.num_tokens <= graph.num_tokens < chosen.num_tokens], "I-CG-1: smallest"


class RoundsDown(CandidateTable):
    """Mutant M-CG-1: chooses a graph that is too small."""

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None = None) -> BatchDescriptor:
        smaller = [graph for graph in self.mixed if graph.num_tokens < num_tokens]
        return smaller[-1] if smaller else super().dispatch(num_reqs, num_tokens, uniform_token_count)


class Largest(CandidateTable):
    """Faulty: chooses the largest graph."""

    def candidates(self, num_tokens: int) -> Any:
        return reversed([*super().candidates(num_tokens), *self.mixed])


class AnyShape(CandidateTable):
    """Mutant M-CG-8: chooses a decode graph for any batch that has few enough tokens."""

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None = None) -> BatchDescriptor:
        first = next(self.candidates(num_tokens), None)
        return first or super().dispatch(num_reqs, num_tokens, uniform_token_count)


class PadsRequestsOfPieces(CandidateTable):
    """Mutant M-CG-16: pads the requests of a PIECEWISE graph, although attention runs outside of it on the real
    requests.
    """

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None = None) -> BatchDescriptor:
        chosen = super().dispatch(num_reqs, num_tokens, uniform_token_count)
        return chosen._replace(num_reqs=chosen.num_tokens) if chosen.mode == PIECEWISE else chosen


class PadsEager(CandidateTable):
    """Faulty: pads a batch that runs without a graph."""

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None = None) -> BatchDescriptor:
        chosen = super().dispatch(num_reqs, num_tokens, uniform_token_count)
        return chosen._replace(num_tokens=-(-num_tokens // 8) * 8) if chosen.mode == NONE else chosen


@examples(50, 1000)
def test_the_properties_of_candidates_hold_for_random_queries(examples: int) -> None:
    holds(all_hold, queries(), examples)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (RoundsDown, "I-CG-1: room"),
        (Largest, "I-CG-1: smallest"),
        (AnyShape, "a decode graph for decodes only"),
        (PadsRequestsOfPieces, "M-CG-16"),
        (PadsEager, "I-CG-4"),
        (KeepsLargeDecodes, "I-CG-2"),
    ],
)
def test_a_wrong_table_is_found(wrong: Kind, says: str) -> None:
    breaks(lambda query: all_hold(query, wrong), queries(), says)


def test_before_the_capture() -> None:
    """Spec chapter 5.5 (V2 manager): before the capture, or without tokens, a batch runs eagerly."""
    config = EngineConfig(cudagraph_capture_sizes=(1, 2, 4))
    assert CandidateTable(config, captured=False).dispatch(2, 2, 1) == (NONE, 2, 2, None, 1)
    assert CandidateTable(config).dispatch(2, 2, 1) == (FULL, 2, 2, 1, 1)
    assert CandidateTable(config).dispatch(0, 0) == (NONE, 0, 0, None, 1)


def test_the_first_choices_are_those_of_examples_a_16_to_a_18() -> None:
    """Spec appendix A-16 to A-18: the first choices of three decodes, a dummy, eleven mixed tokens, and a prefill of
    100.
    """
    table = CandidateTable(EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8, 16), max_num_seqs=8))
    asked = [(3, 3, 1), (1, 1, 1), (2, 11, None), (1, 100, 100)]
    assert [table.dispatch(*one)[:3] for one in asked] == [
        (FULL, 4, 4),
        (FULL, 1, 1),
        (PIECEWISE, 16, None),
        (NONE, 100, 1),
    ]
