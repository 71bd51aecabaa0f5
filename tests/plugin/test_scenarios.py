"""Scenario files become tests: which files, which tests, when they pass, what a failure shows."""

import sys
from collections.abc import Callable

import pytest

from tests import ROOT

pytest_plugins = ["pytester"]

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def _no_ini(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = ['--strict-markers', '-ra']\n")


def ids(pytester: pytest.Pytester, *args: str) -> list[str]:
    """The node ids that are collected."""
    result = pytester.runpytest("--collect-only", "-q", *args)
    return [line for line in result.outlines if "::" in line]


# ---- which files, which tests


def test_an_item_for_each_backend(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    scenario("scenarios/museum/old/slot.yaml", healthy)
    assert ids(pytester) == [
        "scenarios/museum/old/slot.yaml::sim",
        "scenarios/museum/old/slot.yaml::gloo",
        "scenarios/museum/old/slot.yaml::nccl",
        "scenarios/two.yaml::sim",
        "scenarios/two.yaml::gloo",
        "scenarios/two.yaml::nccl",
    ]


def test_what_is_no_scenario_is_left_alone(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    scenario("scenarios/other_tool.yaml", "steps:\n  - workload: 3\n")
    scenario("scenarios/not_even_yaml.yaml", "{{ template }}: [")
    scenario("scenarios/empty.yaml")
    scenario("scenarios/two.txt", healthy)
    scenario("scenarios/calibration/h200.yaml", healthy)
    scenario("scenarios/calibration/old/h200.yaml", healthy)
    scenario("elsewhere/two.yaml", healthy)
    (pytester.path / "scenarios/latin.yaml").write_bytes(b"name: \xe9t\xe9\n")
    assert {line.partition("::")[0] for line in ids(pytester)} == {"scenarios/two.yaml"}


def test_a_misspelt_scenario_is_no_foreign_file(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("scenarios/bad.yaml", "name: bad\nworklod: 3\n")
    assert {line.partition("::")[0] for line in ids(pytester)} == {"scenarios/bad.yaml"}


def test_the_ini_option_names_other_files(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\ndpsim_scenarios = ['worlds/**/*.yml', 'one.yaml']\n")
    for path in ("worlds/a/b.yml", "worlds/c.yml", "one.yaml", "scenarios/two.yaml", "worlds/d.yaml"):
        scenario(path, healthy)
    files = {line.partition("::")[0] for line in ids(pytester)}
    assert files == {"worlds/a/b.yml", "worlds/c.yml", "one.yaml"}


def test_a_file_given_by_name_needs_no_pattern(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("elsewhere/two.yaml", healthy)
    assert ids(pytester, "elsewhere/two.yaml::sim") == ["elsewhere/two.yaml::sim"]


def test_no_configuration_file_is_needed(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    (pytester.path / "pyproject.toml").unlink()
    scenario("scenarios/two.yaml", healthy)
    assert [line.partition("::")[2] for line in ids(pytester, "scenarios")] == ["sim", "gloo", "nccl"]


def test_selection(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    scenario("scenarios/three.yaml", healthy)
    assert ids(pytester, "-k", "two and sim") == ["scenarios/two.yaml::sim"]
    assert ids(pytester, "-m", "gpu") == ["scenarios/three.yaml::nccl", "scenarios/two.yaml::nccl"]
    names = {line.partition("::")[2] for line in ids(pytester, "-m", "not gpu")}
    assert names == {"sim", "gloo"}


def test_one_worker_owns_a_pool(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    items, _ = pytester.inline_genitems()
    groups = {item.name: [mark.args for mark in item.iter_markers("xdist_group")] for item in items}
    assert groups == {"sim": [], "gloo": [("gloo",)], "nccl": [("gpu",)]}


def test_without_xdist_there_is_no_group(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    items, _ = pytester.inline_genitems("-p", "no:xdist")
    assert [list(item.iter_markers("xdist_group")) for item in items] == [[], [], []]


# ---- pass, fail, skip


def test_a_scenario_that_holds_passes(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest("-k", "sim", "-v")
    result.stdout.fnmatch_lines(["scenarios/two.yaml::sim PASSED*"])
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*replay*")


def test_a_planted_fault_that_is_found_passes(pytester: pytest.Pytester, scenario: Write, planted: str) -> None:
    scenario("scenarios/two.yaml", planted)
    pytester.runpytest("-k", "sim").assert_outcomes(passed=1, deselected=2)


def test_a_failure_shows_the_report_and_the_replay(pytester: pytest.Pytester, scenario: Write, broken: str) -> None:
    scenario("scenarios/two.yaml", broken)
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "healthy on sim: expected held, came violated",
            "VIOLATED  HANG:COLLECTIVE:MISSING_RANK*",
            "culprit   rank 1, step 2, dp.agree*",
            "*--- replay ---*",
            "dpsim run scenarios/two.yaml --backend sim",
            "*=== scenarios that are not as expected ===*",
            "HANG:COLLECTIVE:MISSING_RANK  rank 1, step 2, dp.agree*  replay: dpsim run scenarios/two.yaml *",
            "FAILED scenarios/two.yaml::sim*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_a_fault_that_is_not_found_fails(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy, "expect: {verdict: violated}\n")
    result = pytester.runpytest("-k", "sim")
    result.stdout.fnmatch_lines(
        ["healthy on sim: expected violated, came held", "held  replay: dpsim run scenarios/two.yaml --backend sim"]
    )


def test_the_wrong_culprit_fails(pytester: pytest.Pytester, scenario: Write, planted: str) -> None:
    scenario("scenarios/two.yaml", planted.replace("rank: 1, step: 2", "rank: 0"))
    result = pytester.runpytest("-k", "sim")
    result.stdout.fnmatch_lines(["healthy on sim: expected rank 0 *as culprit, came rank 1 in step 2"])


def test_the_replay_is_for_the_folder_one_is_in(
    pytester: pytest.Pytester, scenario: Write, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario("scenarios/with space.yaml", broken)
    (pytester.path / "tests").mkdir()
    monkeypatch.chdir(pytester.path / "tests")
    result = pytester.runpytest("-k", "sim", "--rootdir", "..", "../scenarios")
    result.stdout.fnmatch_lines(["dpsim run '../scenarios/with space.yaml' --backend sim"])


@pytest.mark.parametrize(
    ("added", "place", "problem"),
    [
        ("expct: {verdict: held}\n", "scenarios/two.yaml:10:1", "unknown key 'expct'*did you mean 'expect'?"),
        ("faults: [1,\n", "scenarios/two.yaml:11:1", "not YAML: *"),
    ],
)
def test_a_bad_file_is_named_once(
    pytester: pytest.Pytester, scenario: Write, healthy: str, added: str, place: str, problem: str
) -> None:
    scenario("scenarios/two.yaml", healthy, added)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            f"{place}: {problem}",
            f"ScenarioError  {place}  replay: dpsim run scenarios/two.yaml --backend sim",
            "SKIPPED*scenarios/two.yaml: the scenario cannot be used, see scenarios/two.yaml::sim",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    pytester.runpytest("-k", "gloo").assert_outcomes(failed=1, deselected=2)


def test_an_error_of_ours_keeps_its_traceback(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("dpsim.sim.backend.SimBackend.run", run)
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(["*raise ZeroDivisionError*", "ZeroDivisionError  replay: dpsim run *"])


def test_what_is_switched_off_is_said(pytester: pytest.Pytester, scenario: Write, healthy: str, broken: str) -> None:
    off = 'checks: {switched_off: ["RACE:*", "CRASH:*"]}\n'
    line = "0 findings switched off: 0 by CRASH:[*]; race not run (RACE:[*])"
    scenario("scenarios/broken.yaml", broken, off)
    scenario("scenarios/two.yaml", healthy, off)
    failing = pytester.runpytest("-k", "sim", "scenarios/broken.yaml")
    failing.stdout.fnmatch_lines(["*last 5 ops*", line])
    passing = pytester.runpytest("-k", "sim", "scenarios/two.yaml", "-rP")
    passing.stdout.fnmatch_lines(["*Captured checks call*", line])
    scenario("scenarios/two.yaml", healthy)
    pytester.runpytest("-k", "sim", "scenarios/two.yaml", "-rP").stdout.no_fnmatch_line("*switched off*")


def test_a_missing_data_file_is_a_skip(
    pytester: pytest.Pytester, scenario: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPSIM_DATA", raising=False)
    scenario("scenarios/two.yaml", "name: two\nworkload: {azure_csv: {file: trace.csv}}\n")
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(skipped=1, deselected=2)
    result.stdout.fnmatch_lines(["SKIPPED*scenarios/two.yaml: trace.csv: *DPSIM_DATA*"])


def test_without_torch(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", _uncached("gpus_found"))
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED*scenarios/two.yaml: *needs the module torch*",
            "SKIPPED*scenarios/two.yaml: needs 3 GPUs, found 0 (torch is not installed)",
        ]
    )


def test_too_few_gpus(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsim.pytest_plugin.gpus_found", lambda: (1, ""))
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest("-m", "gpu")
    result.stdout.fnmatch_lines(["SKIPPED*scenarios/two.yaml: needs 3 GPUs, found 1"])


def test_a_backend_whose_module_is_missing(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> None:
        raise ModuleNotFoundError("No module named 'mpi4py'", name="mpi4py")

    monkeypatch.setattr("dpsim.runner.find_backend", find)
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest("-k", "gloo")
    result.stdout.fnmatch_lines(["SKIPPED*: backend gloo needs mpi4py, which is not installed"])


def test_what_a_backend_cannot_show_is_skipped(
    pytester: pytest.Pytester, scenario: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journals of this one are held by tests/runner/test_not_claimed.py."""
    from dpsim.runner import Result

    exhibit = ROOT / "scenarios" / "museum" / "m-pp-10.yaml"
    scenario("scenarios/reuse.yaml", exhibit.read_text().replace("variant: M-PP-10", "form: source-002"))
    monkeypatch.setattr(Result, "unclaimed", "RACE:REUSED_IN_FLIGHT is not claimed here")
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(skipped=1, deselected=2)
    result.stdout.fnmatch_lines(["SKIPPED*: RACE:REUSED_IN_FLIGHT is not claimed here"])


def _uncached(name: str) -> Callable[[], tuple[int, str]]:
    from dpsim import pytest_plugin

    function: Callable[[], tuple[int, str]] = getattr(pytest_plugin, name).__wrapped__
    return function


# ---- the machine takes something away


def test_a_loss_is_no_pass_whatever_is_expected(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/held.yaml", healthy)
    scenario("scenarios/hangs.yaml", healthy, "expect: {class: 'HANG:*'}\n")
    pytester.makeconftest(LOSES)
    result = pytester.runpytest_subprocess("-k", "sim")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["LOST  a test took the memory away: no verdict", "lost  replay: dpsim run *--backend sim"]
    )


LOSES = """
from dpsim.sim.backend import SimBackend

run_program = SimBackend.run_program

def loses(*args):
    run = run_program(*args)
    run.lost = "a test took the memory away"
    return run

SimBackend.run_program = loses
"""
