"""Tests of scenario files with the key `torch`, and of tokens that name a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign.token import Token, TokenError, read_token
from dpsim.scenario import ScenarioError, dump_scenario, load_scenario, parse_scenario, scenario_from
from dpsim.scenario.params.files import allow

FILE = """\
name: mine
torch: {target: train.py:main, ranks: 3, args: [--steps, "3"], order: nccl}
"""


def test_the_key_is_short_for_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(FILE)
    scenario = load_scenario(tmp_path / "mine.yaml")
    assert (scenario.protocol.name, scenario.size) == ("torch", 3)
    assert scenario.protocol.plain_params["args"] == ["--steps", "3"]
    assert scenario.arguments(tmp_path).params["target"] == f"{tmp_path}/train.py:main"
    assert parse_scenario(dump_scenario(scenario)) == scenario


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("torch: {ranks: 3}", "target"),
        ("torch: {target: a.py, rank: 3}", "rank"),
        ("torch: {target: a.py, order: mpi}", "order"),
        ("torch: {target: a.py}\nprotocol: torch", "torch"),
    ],
)
def test_a_wrong_section_has_its_place(wrong: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as error:
        parse_scenario(f"name: mine\n{wrong}\n", "mine.yaml")
    assert "mine.yaml:2:" in str(error.value) or "mine.yaml:3:" in str(error.value)


def test_a_mapping_has_the_key_too() -> None:
    assert scenario_from({"name": "mine", "torch": {"target": "a.py"}}).protocol.name == "torch"


def test_a_token_brings_no_target_that_the_user_did_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.scenario.params.files._allowed", set())
    scenario: Any = scenario_from({"name": "mine", "torch": {"target": "a.py:main"}})
    token = Token(scenario, (), "HANG", "dpor", 10)
    assert str(token) == ""
    allow("a.py")
    word = str(token)
    assert read_token(word).scenario == scenario
    monkeypatch.setattr("dpsim.scenario.params.files._allowed", set())
    with pytest.raises(TokenError, match=r"names the file a\.py"):
        read_token(word)
