"""Tests source page 004's graph manager against stored answers, and invariants I-CG-1 to 4, 6, 10, 11 and 13.

The stored answers are those of release 0.17, which contains these functions. The inputs of a capture differ between
page 004 and 0.17. Therefore dpsim's inputs for 0.17 are compared with the answers, and the page's with the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.graphs.capture import CaptureInputs, CaptureSize, inputs_004, inputs_017
from dpsim.vllm.graphs.manager import GraphManager
from dpsim_engine.comparison import Difference, Row, differing
from dpsim_engine.manager import CAPTURES_004, CHOICES_004, DEPARTURES, SIZES_004
from dpsim_engine.stored import answers
from tests.properties import breaks, examples, holds
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE, Asked, batches, graph_configs

Kind = type[GraphManager]

# ---- vLLM's stored answers


def rows() -> list[Row]:
    return answers("graph_manager_004", "0.17.0")


def captured_otherwise(kind: Kind, inputs: Callable[[CaptureSize, EngineConfig], CaptureInputs]) -> list[Difference]:
    return differing(CAPTURES_004, rows(), (kind, inputs))


def test_every_answer_of_the_engine() -> None:
    assert differing(SIZES_004, rows(), GraphManager) == []
    assert differing(CHOICES_004, rows(), GraphManager) == []
    assert captured_otherwise(GraphManager, inputs_017) == []


def test_captures_of_the_page_depart_in_their_inputs_alone() -> None:
    """The captures of page 004 differ from those of 0.17 exactly in the fields that `DEPARTURES` names."""
    differences = captured_otherwise(GraphManager, inputs_004)
    assert {field for one in differences for field in one.fields} == set(DEPARTURES)


class FallsBack(GraphManager):
    """Faulty: decodes without a decode graph fall back to the sizes of all batches, as in the V1 dispatcher."""

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        found = super().runtime_mode(num_reqs, num_tokens, max_query_len)
        size = self.sizes.get(num_tokens)
        return (PIECEWISE, size) if found[0] == NONE and size and self.mode.mixed_mode == PIECEWISE else found


class SmallestFirst(GraphManager):
    """Mutant M-CG-2: captures the smallest size first."""

    def captures(self) -> list[CaptureSize]:
        return super().captures()[::-1]


class Uncaptured(GraphManager):
    """Mutant M-CG-4: treats each size as captured."""

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        self.captured = set(self.sizes.values())
        return super().runtime_mode(num_reqs, num_tokens, max_query_len)


class ByTheLongest(GraphManager):
    """Mutant M-CG-8: treats a batch whose longest request has q tokens as a uniform decode."""

    def is_uniform_decode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> bool:
        return max_query_len == self.q


class RoundsDown(GraphManager):
    """Mutant M-CG-1: chooses a size below the count of tokens."""

    def __init__(self, config: EngineConfig, sizes: Any = None) -> None:
        super().__init__(config, sizes)
        for table in (self.sizes, self.decode_sizes):
            smaller = {count: max([size for size in table.values() if size < count], default=size)
                       for count, size in table.items()}  # fmt: skip
            table.update(smaller)


@pytest.mark.parametrize("wrong", [FallsBack, SmallestFirst, Uncaptured, ByTheLongest, RoundsDown])
def test_a_wrong_manager_answers_differently(wrong: Kind) -> None:
    found = [differing(kind, rows(), wrong) for kind in (SIZES_004, CHOICES_004)]
    assert any([*found, captured_otherwise(wrong, inputs_017)])


# ---- worked examples

SMALL = EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8), max_num_seqs=6)


def captured(config: EngineConfig, kind: Kind = GraphManager) -> GraphManager:
    manager = kind(config)
    for capture in manager.captures():
        manager.record(capture)
    return manager


def test_the_manager_maps_token_counts_to_sizes_as_in_example_a_12() -> None:
    """Spec appendix A-12: the size for each count of tokens."""
    manager = GraphManager(SMALL)
    assert manager.sizes == {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 8: 8}
    assert manager.decode_sizes == {1: 1, 2: 2, 3: 4, 4: 4}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (CUDAGraphMode.FULL_AND_PIECEWISE, [(FULL, 4), (NONE, None), (PIECEWISE, 8), (NONE, None)]),
        (CUDAGraphMode.FULL_DECODE_ONLY, [(FULL, 4), (NONE, None), (NONE, 8), (NONE, None)]),
        (CUDAGraphMode.FULL, [(FULL, 4), (FULL, 8), (FULL, 8), (NONE, None)]),
    ],
)
def test_the_manager_chooses_graphs_as_in_example_a_13(
    mode: CUDAGraphMode, expected: list[tuple[RuntimeMode, int | None]]
) -> None:
    """Spec appendix A-13: the choice of a mode and size in three graph modes.

    `(NONE, 8)` has a size but no graph. Five decodes do not fall back to PIECEWISE, unlike in the V1 dispatcher (A-14).
    """
    config = SMALL.model_copy(update={"cudagraph_mode": mode})
    asked = [(3, 3, 1), (5, 5, 1), (2, 5, 4), (1, 9, 9)]
    assert [captured(config).runtime_mode(*one) for one in asked] == expected
    before = [(NONE, None) if found[0] == FULL else found for found in expected]
    assert [GraphManager(config).runtime_mode(*one) for one in asked] == before, "FULL, but not captured"


# ---- batches drawn


class Query(NamedTuple):
    """A configuration, and a batch to dispatch."""

    config: EngineConfig
    asked: Asked


@st.composite
def queries(draw: st.DrawFn) -> Query:
    config = draw(graph_configs(multiples=False))
    return Query(config, draw(batches(config)))


def choice_holds(query: Query, kind: Kind = GraphManager) -> None:
    config, asked, manager = query.config, query.asked, kind(query.config)
    q = config.uniform_decode_query_len
    existing: set[int] = set()
    for capture in [None, *captured(config).captures()]:
        if capture is not None:
            manager.record(capture)
            existing |= {capture.num_tokens} if capture.mode == FULL else set()
        mode, size = manager.runtime_mode(asked.num_reqs, asked.num_tokens, asked.longest)
        if size is not None:
            fitting = [one for one in config.cudagraph_capture_sizes or () if one >= asked.num_tokens]
            assert size >= asked.num_tokens, "I-CG-1: room for every token"
            assert size == min(fitting), "I-CG-1: the smallest size that fits"
        if mode == FULL:
            assert size in existing, "I-CG-3: a graph that was captured"
        if mode != NONE and config.cudagraph_mode.separate_routine:
            expected = config.cudagraph_mode.decode_mode if asked.uniform(q) else config.cudagraph_mode.mixed_mode
            assert mode == expected, "decodes and no other batches have the decode mode"
    assert manager.runtime_mode(asked.num_reqs, asked.num_tokens, asked.longest) == (mode, size), (
        "a second call gives the same mode and size"
    )


def captures_hold(config: EngineConfig, kind: Kind = GraphManager) -> None:
    again = config.model_copy(update={"cudagraph_capture_sizes": (config.cudagraph_capture_sizes or ())[::-1]})
    captures, manager = kind(config).captures(), captured(config, kind)
    assert kind(again).captures() == captures, "I-CG-6: one order on every rank, however sizes were written"
    modes = [capture.mode for capture in captures]
    assert modes == sorted(modes), "5.6: decode graphs after mixed ones"
    for capture in captures:
        assert (manager.output_rows or 0) >= capture.num_tokens, "I-CG-13: rows for every size captured"
    assert {one.num_tokens for one in captures if one.mode == FULL} == manager.captured


class AsWritten(GraphManager):
    """Faulty: captures sizes in the order of the configuration."""

    def __init__(self, config: EngineConfig, sizes: Any = None) -> None:
        super().__init__(config, sizes)
        self.written = list(config.cudagraph_capture_sizes or ())

    def captures(self) -> list[CaptureSize]:
        return sorted(super().captures(), key=lambda one: self.written.index(one.num_tokens))


@examples(150, 300, 1_000)
def test_the_properties_of_the_manager_hold_for_random_queries(examples: int) -> None:
    holds(choice_holds, queries(), examples)
    holds(captures_hold, graph_configs(multiples=False), examples)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (RoundsDown, "I-CG-1: room"),
        (Uncaptured, "I-CG-3"),
        (ByTheLongest, "have the decode mode"),
    ],
)
def test_a_wrong_choice_is_found(wrong: Kind, says: str) -> None:
    breaks(lambda query: choice_holds(query, wrong), queries(), says)


@pytest.mark.parametrize(("wrong", "says"), [(SmallestFirst, "I-CG-13"), (AsWritten, "I-CG-6")])
def test_a_wrong_order_is_found(wrong: Kind, says: str) -> None:
    breaks(lambda config: captures_hold(config, wrong), graph_configs(multiples=False), says)
