"""Tests that failing tests name the folder of their failure, in one process and with several workers."""

from __future__ import annotations

import pytest

from dpsim.campaign.pruning import LATEST
from dpsim.campaign.results import FOLDER
from tests import ROOT
from tests.agreeing import HEALTHY, SKIP

pytest_plugins = ["pytester"]

FILES = ["picture.html", "report.txt", "scenario.yaml", "trace.jsonl"]
TESTS = """
import pytest
from dpsim.scenario import parse_scenario
from dpsim.testing import holds
from tests.cli.protocols import scenario

@pytest.mark.parametrize("number", range(8))
def test_it(number):
    holds(parse_scenario(scenario("t_lost", 3)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_tests_that_fail_alike(
    workers: tuple[str, ...], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs eight tests with the same failure. Each names the one folder, and its files are complete."""
    monkeypatch.setenv("DPSIM_RESULTS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if workers:
        pytest.importorskip("xdist")
    pytester.makepyfile(test_mine=TESTS)
    done = pytester.runpytest_subprocess(*workers, "-p", "no:cacheprovider")
    done.assert_outcomes(failed=8)
    folder = pytester.path / FOLDER
    [own] = [path for path in folder.iterdir() if path.name != LATEST]
    assert done.stdout.str().count(f"results: {own.relative_to(pytester.path)}") == 8
    assert sorted(path.name for path in own.iterdir()) == FILES
    assert (own / "picture.html").read_text().endswith("</html>\n")
    assert (folder / LATEST).resolve() == own


@pytest.mark.slow
def test_a_scenario_file_that_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSIM_RESULTS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.mkdir("scenarios")
    pytester.makeconftest("import tests.agreeing")
    (pytester.path / "scenarios" / "mine.yaml").write_text(f"{HEALTHY}{SKIP}")
    for known in (True, False):
        done = pytester.runpytest_subprocess("--dpsim-explore", "3", "-p", "no:cacheprovider", "-k", "sim")
        done.assert_outcomes(failed=1)
        assert ("results: .dpsim/results/three-" in done.stdout.str()) == known
        assert "last 5 ops" not in done.stdout.str(), "the terminal has the first screen"
        monkeypatch.setenv("DPSIM_RESULTS", "0")
    assert "last 5 ops" in (pytester.path / FOLDER / LATEST / "report.txt").read_text()
