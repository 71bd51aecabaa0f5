"""Tests the pytest plugin in projects with scenarios of an engine: missing data files, and saved worlds that are too
large.
"""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Write, _own_backends, scenario

__all__ = ["_own_backends", "scenario"]
pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _no_ini(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = ['--strict-markers', '-ra']\n")


def test_a_missing_data_file_is_a_skip(
    pytester: pytest.Pytester, scenario: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPSIM_DATA", raising=False)
    scenario("scenarios/two.yaml", "name: two\nworkload: {azure_csv: {file: trace.csv}}\n")
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(skipped=1, deselected=2)
    result.stdout.fnmatch_lines(["SKIPPED*scenarios/two.yaml: trace.csv: *DPSIM_DATA*"])


@pytest.mark.parametrize("requests", [1, 1_000_000])
def test_a_saved_world_that_is_too_large_is_passed_over_and_named(pytester: pytest.Pytester, requests: int) -> None:
    """The plugin skips a saved world with a million requests and names the limit.

    It replays the same world with one request.
    """
    import json

    from tests.campaign.test_token import FIELDS, packed

    made = f"{{requests: {requests}, prompt_tokens: {{min: 1, max: 1}}, output_tokens: {{min: 1, max: 1}}}}"
    scenario = f"name: x\nprotocol: {{form: source-000}}\nworkload: {{synthetic: {made}}}\n"
    word = packed(json.dumps({**FIELDS, "scenario": scenario, "schedules": 1}).encode())
    pytester.makepyfile(test_it="def test_it(): pass\n")
    pytester.mkdir(".dpsim").joinpath("x.yaml").write_text(
        f"# replay: pytest test_it.py::test_it --dpsim-replay={word}\n"
    )
    result = pytester.runpytest("-p", "no:cacheprovider", "-rP")
    result.assert_outcomes(passed=1)
    said = [line for line in result.outlines if "cannot be tried" in line]
    assert [line.partition("': ")[2] for line in said] == ["1,000,000 requests; expected at most 1,000"] * (
        requests > 1
    )
