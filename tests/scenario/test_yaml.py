"""Tests of reading and writing scenario files: the file itself rather than its content, and exact writing."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpsim.scenario import Scenario, ScenarioError, dump_scenario, load_scenario, parse_scenario
from dpsim.scenario.yaml import nodes as yaml_nodes
from dpsim.testing import scenarios
from tests import ROOT
from tests.every_value import UNUSUAL
from tests.protocols import agreed, served

GOOD = "name: good\nprotocol:\n  name: t_agree\n  params: {tokens: [4, 2]}\n"


def good(lines: str = "") -> Scenario:
    return parse_scenario(GOOD + lines, "good.yaml")


def error_of(path: Path | str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    return str(caught.value)


# ---- files


def test_a_scenario_file_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    assert load_scenario(file) == load_scenario(str(file)) == good()


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_byte_order_mark_and_line_ends_of_other_systems(tmp_path: Path, ends: str) -> None:
    file = tmp_path / "good.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", ends).encode())
    assert load_scenario(file) == good()


def test_a_missing_file_is_named_with_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text(GOOD)
    said = error_of(tmp_path / "quikstart.yaml")
    assert said.endswith(
        "quikstart.yaml: there is no such file; expected a scenario file; did you mean 'quickstart.yaml'?"
    )
    assert "no such file" in error_of(tmp_path / "no" / "where.yaml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert error_of(tmp_path) == f"{tmp_path}: a folder; expected a scenario file"


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dpsim.scenario.yaml.reader.open", refuse, raising=False)
    assert error_of(tmp_path / "x.yaml").endswith(
        "x.yaml: cannot be read: Permission denied; expected a readable scenario file"
    )


def test_a_name_that_no_file_can_have_is_refused() -> None:
    assert "cannot be read" in error_of("a\0b")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_file_without_end_is_not_read() -> None:
    assert error_of("/dev/zero") == "/dev/zero: not a regular file; expected a scenario file"


# ---- values as users write them


def test_numbers_in_text_fields_stay_text() -> None:
    assert good("description: 007").description == "007"
    assert good("description: 1_000").description == "1_000"
    assert good("description: 2023-11-16").description == "2023-11-16"
    assert good("description: 12:30:00").description == "12:30:00"
    assert good("description: .inf").description == ".inf"
    assert parse_scenario(GOOD.replace("name: good", "name: 1.50")).name == "1.50"


def test_truth_values_of_yaml_1_1_are_truth_values() -> None:
    assert good("limits: {lazy_communicators: on}").limits.lazy_communicators
    assert not good("limits: {lazy_communicators: No}").limits.lazy_communicators


def test_anchors_and_aliases() -> None:
    scenario = good("delays:\n  - &one {rank: 0, by: 1ms}\n  - *one\n")
    assert len(scenario.delays) == 2
    assert scenario.delays[0] == scenario.delays[1]


def test_standard_tags_are_harmless() -> None:
    assert good('description: !!str 5\nlimits: !!map {stall: ! "1s"}').description == "5"


def test_error_in_an_alias_points_at_the_anchor() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(GOOD + "delays:\n  - &one {by: x, rank: 0}\n  - *one\n", "x")
    assert [line.partition(".by")[0] for line in str(caught.value).split("\n")] == [
        "x:6:15: delays[0]",
        "x:6:15: delays[1]",
    ]


@pytest.mark.parametrize("loader", ["SafeLoader", "CSafeLoader"])
def test_half_of_a_surrogate_pair_is_refused(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(yaml, loader):
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(yaml_nodes, "_LOADER", getattr(yaml, loader))
    with pytest.raises(ScenarioError, match=r"^good.yaml:5:1"):
        good('description: "\\ud800"')


# ---- writing


@given(scenarios(protocol="t_agree", params={"ranks": st.integers(2, 4), "steps": st.integers(1, 3)}))
def test_dump_and_load_is_the_identity(scenario: Scenario) -> None:
    assert parse_scenario(dump_scenario(scenario)) == scenario


@pytest.mark.parametrize("text", [*UNUSUAL, "a\x85b", "a\n\x85b"], ids=ascii)
def test_an_unusual_text_survives(text: str) -> None:
    """Writes and reads, among others, line breaks that only YAML 1.1 defines. PyYAML indents the line after one, and
    would read the indent as spaces.
    """
    scenario = agreed(description=text)
    assert parse_scenario(dump_scenario(scenario)) == scenario


@pytest.mark.parametrize("number", [10**299, -(2**70), 1.7e308, -1e300, 5e-324, 1e22, -0.0])
def test_a_number_stays_a_number(number: float) -> None:
    content = parse_scenario(dump_scenario(served(messages=[{"to": 0, "mailbox": "m", "content": number}])))
    assert repr(content.messages[0].content) == repr(number)


# ---- the package


def test_examples_in_docstrings() -> None:
    for name in ("duration", "errors", "parameters", "yaml.nodes", "yaml.writer"):
        result = doctest.testmod(importlib.import_module(f"dpsim.scenario.{name}"))
        assert result.attempted > 0
        assert result.failed == 0, name


def test_importing_scenarios_is_light() -> None:
    program = (
        "import sys, dpsim.scenario; print([name for name in ('hypothesis', 'torch', 'simpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n", done.stderr
