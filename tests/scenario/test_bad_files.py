"""Tests that the reader's messages about the files of bad_files.py name the right place and contain the right words."""

from __future__ import annotations

import pytest
import yaml

from dpsim.scenario import ScenarioError, parse_scenario
from dpsim.scenario.yaml import nodes as yaml_nodes
from tests.scenario.bad_files import BAD_FILES, Bad

IDS = [bad.what for bad in BAD_FILES]


@pytest.mark.parametrize("bad", BAD_FILES, ids=IDS)
def test_a_bad_file_has_the_message_of_the_table(bad: Bad) -> None:
    first, *others = bad.message().split("\n")
    assert first.startswith(bad.begins)
    at = 0
    for fragment in bad.says:
        at = first.find(fragment, at)
        assert at >= 0, f"{fragment!r} is not in its place in {first!r}"
        at += len(fragment)
    assert len(others) + 1 == bad.problems
    assert "Traceback" not in first
    assert "pydantic" not in first


@pytest.mark.parametrize("bad", BAD_FILES, ids=IDS)
def test_the_pure_python_parser_gives_the_same_messages(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads the files with PyYAML's own parser, which PyYAML uses if libyaml is missing. Only for texts that are no
    YAML, its messages may differ.
    """
    monkeypatch.setattr(yaml_nodes, "_LOADER", yaml.SafeLoader)
    first = bad.message().split("\n")[0]
    if "not YAML" in bad.says:
        assert first.startswith("bad.yaml:")
        assert "; expected " in first
    else:
        assert first.startswith(bad.begins)
        assert all(fragment in first for fragment in bad.says)


def test_problems_are_in_the_order_of_lines_and_at_most_ten() -> None:
    (bad,) = [bad for bad in BAD_FILES if bad.what == "three problems"]
    assert [line.split(":")[1] for line in bad.message().split("\n")] == ["1", "2", "3"]
    (bad,) = [bad for bad in BAD_FILES if bad.what == "fourteen problems"]
    *_, tenth, rest = bad.message().split("\n")
    assert tenth.startswith("bad.yaml:5:73: limits: unknown key 'x9'")
    assert rest == "... and 4 more problems"


@pytest.mark.slow
def test_very_many_problems_take_no_time() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("".join(f"key_{i}: 1\n" for i in range(20_000)))
    assert str(caught.value).endswith("... and 19992 more problems")
