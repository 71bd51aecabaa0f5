"""Tests source page 004's graph manager as the dispatcher of a rank: its first choices, and one graph after the
agreement.
"""

from __future__ import annotations

from collections.abc import Set

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor, Dispatcher017
from dpsim.vllm.graphs.manager import GraphManager, Managed
from tests.properties import breaks, holds
from tests.vllm.graphs.queries import NONE, PIECEWISE, Asked, batches, graph_configs
from tests.vllm.graphs.test_second_dispatch import groups, one_graph


@st.composite
def questions(draw: st.DrawFn) -> tuple[EngineConfig, Asked]:
    config = draw(graph_configs())
    return config, draw(batches(config))


def answers_as_the_manager(question: tuple[EngineConfig, Asked], kind: type[Dispatcher017]) -> None:
    config, asked = question
    dispatcher = kind(config)
    manager = GraphManager(config, dispatcher.sizes)
    for capture in manager.captures():
        manager.record(capture)
    mode, size = manager.runtime_mode(asked.num_reqs, asked.num_tokens, asked.longest)
    count = asked.num_tokens if mode == NONE or size is None else size
    found, key = dispatcher.dispatch(asked.num_tokens, asked.uniform(dispatcher.q))
    assert (found, key.num_tokens) == (mode, count), "the dispatcher and the manager choose different graphs"


@pytest.mark.slow
def test_the_first_dispatch_is_the_managers() -> None:
    """The first dispatch equals the manager's choice.

    The faulty twin is the dispatcher of 0.17, which runs a uniform decode without a decode graph PIECEWISE.
    """
    holds(lambda question: answers_as_the_manager(question, Managed), questions())
    breaks(lambda question: answers_as_the_manager(question, Dispatcher017), questions(), "different graphs")


class AsAtFirst(Managed):
    """Faulty: the second dispatch has only the graphs of the first one, so a decode may lack an agreed graph."""

    def dispatch(
        self,
        num_tokens: int,
        uniform_decode: bool,
        *,
        has_lora: bool = False,
        allowed: Set[RuntimeMode] = ALL_MODES,
    ) -> tuple[RuntimeMode, Descriptor]:
        if allowed != {PIECEWISE}:
            return super().dispatch(num_tokens, uniform_decode, allowed=allowed)
        mode, key = super().dispatch(num_tokens, uniform_decode)
        if mode not in allowed:
            self.nothing_found(num_tokens, uniform_decode, allowed)
        return mode, key


def test_decodes_take_part_in_what_all_agreed_on() -> None:
    breaks(lambda group: one_graph(group, AsAtFirst), groups(), "no graph for .* in the agreed mode PIECEWISE")
