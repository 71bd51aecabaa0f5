"""Tests that `scenarios` discards no scenario that it draws for a built-in protocol."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from dpsim.contract import registry
from dpsim.scenario import Scenario
from dpsim.testing import scenarios
from dpsim.testing import strategies as of_params
from dpsim.vllm.params import accepted, strategies
from tests.properties import examples

WITH_A_FILE = "torch"
"""Its parameter `target` names a file, which Hypothesis cannot draw."""

BUILT_IN = [
    one.name
    for one in registry.protocols()
    if one.program.__module__.startswith(("dpsim.vllm.", "dpsim.torch.", "dpsim.recorded."))
    and one.name not in (WITH_A_FILE, "recorded")
]
"""Programs of `dpsim.testing` are registered only if a test imports them. Drawn recordings of the protocol `recorded`
take 10 s, and share the strategy with the other programs with `Params`."""


def discarded(protocol: str, examples: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Returns how many scenarios of a protocol Hypothesis keeps, and how many the strategy discards."""
    kept, refused = [0], [0]

    def counted(condition: bool) -> bool:
        refused[0] += not condition
        return assume(condition)

    with monkeypatch.context() as patch:
        for module in (strategies, of_params):
            patch.setattr(module, "assume", counted)

        @settings(
            max_examples=examples,
            database=None,
            derandomize=True,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.filter_too_much],
        )
        @given(scenarios(protocol=protocol, max_faults=0))
        def draw(scenario: Scenario) -> None:
            assert scenario.protocol.name == protocol
            kept[0] += 1

        draw()
    return kept[0], refused[0]


@examples(3, 30)
@pytest.mark.parametrize("protocol", BUILT_IN)
def test_no_drawn_scenario_is_discarded(protocol: str, examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert discarded(protocol, examples, monkeypatch) == (examples, 0)


def drawn(protocol: str, examples: int) -> list[Scenario]:
    """Returns scenarios that the strategy draws."""
    found = []

    @settings(max_examples=examples, database=None, derandomize=True, deadline=None, phases=[Phase.generate])
    @given(scenarios(protocol=protocol, max_faults=0))
    def draw(scenario: Scenario) -> None:
        found.append(scenario)

    draw()
    return found


def test_each_drawn_scenario_of_eplb_moves_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin does not know what the program demands. Without its filter, it draws what the program refuses."""
    assert {(one.config.enable_eplb, one.config.eplb_config.step_interval) for one in drawn("eplb", 3)} == {(True, 2)}
    monkeypatch.setattr(accepted, "DEMANDS", accepted.DEMANDS[:1])
    monkeypatch.setattr(strategies, "is_accepted", lambda _: True)
    accepted._accepted.cache_clear()
    refused = drawn("eplb", 3)
    accepted._accepted.cache_clear()
    assert refused
    assert not any(accepted.is_accepted(one) for one in refused)


def test_a_protocol_with_a_file_names_the_missing_parameter() -> None:
    with pytest.raises(ValueError, match=r"protocol\.params\.target of torch names a file, .*st\.just"):
        drawn(WITH_A_FILE, 1)
