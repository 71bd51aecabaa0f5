"""Tests that a scenario can replace pieces of a protocol's form by name, and that bad names are refused.

A piece is a class with one part of a program's decisions.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario, scenario_from
from dpsim.scenario.to_world import prepare
from dpsim.vllm.graphs.dispatcher import Dispatcher017
from dpsim.vllm.graphs.manager import Managed

REQUEST = {"prompt_tokens": 4, "output_tokens": 2}


def made(**choice: Any) -> Scenario:
    return scenario_from({"name": "made", "protocol": choice, "workload": {"requests": [REQUEST]}})


def test_pieces_select_classes_of_the_program() -> None:
    for pieces, graphs in (({"graphs": "source-004"}, Managed), ({}, Dispatcher017)):
        scenario = made(name="dp_batch", pieces=pieces)
        assert parse_scenario(dump_scenario(scenario)) == scenario
        _, args, setup = prepare(scenario)
        assert (args.pieces, args.allow_refused) == (pieces, False)
        assert type(setup.flow.dispatcher) is graphs


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"pieces": {"graph": "source-004"}}, r"protocol\.pieces: no piece 'graph' in dp_batch; .* mean 'graphs'"),
        ({"pieces": {"graphs": "source-005"}}, r"pieces\.graphs: graphs has no form 'source-005'; .* 'source-004'"),
        ({"name": "dbo", "pieces": {"graphs": "source-004"}}, r"protocol\.pieces: the forms of dbo have no pieces"),
        ({"name": "dbo", "allow_refused": True}, r"protocol\.allow_refused: the forms of dbo have no pieces"),
    ],
)
def test_an_unknown_piece_or_form_is_refused(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        made(**choice)
