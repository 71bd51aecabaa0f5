"""Tests that scenario files become tests: which files, which tests, when they pass, and what a failure prints."""

import os
import sys
from collections.abc import Callable

import pytest

from dpsim.pytest_plugin import MAX_BYTES, why_left_alone
from tests import ROOT

pytest_plugins = ["pytester"]

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def _no_ini(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = ['--strict-markers', '-ra']\n")


def ids(pytester: pytest.Pytester, *args: str) -> list[str]:
    """Returns the node ids of the collected tests."""
    result = pytester.runpytest("--collect-only", "-q", *args)
    return [line for line in result.outlines if "::" in line]


# ---- which files become tests


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


def test_files_that_are_no_scenarios_are_not_collected(
    pytester: pytest.Pytester, scenario: Write, healthy: str
) -> None:
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


def test_folders_of_scenarios_may_lie_anywhere(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    for path in ("scenarios/a.yaml", "service/scenarios/b.yml", "x/y/scenarios/deep/er/c.yaml", "x/other/d.yaml"):
        scenario(path, healthy)
    files = {line.partition("::")[0] for line in ids(pytester)}
    assert files == {"scenarios/a.yaml", "service/scenarios/b.yml", "x/y/scenarios/deep/er/c.yaml"}


def test_files_that_are_not_collected_are_named_and_not_read(
    pytester: pytest.Pytester, scenario: Write, healthy: str
) -> None:
    """Checks that one line names the files that are no scenarios. The plugin does not open a file that is too large or
    is no regular file.
    """
    scenario("scenarios/two.yaml", healthy)
    scenario("scenarios/a_playbook.yaml", "hosts: all\n")
    scenario("scenarios/b_huge.yaml", healthy)
    os.truncate(pytester.path / "scenarios/b_huge.yaml", MAX_BYTES + 1)
    result = pytester.runpytest("--collect-only")
    left = "scenarios/a_playbook.yaml (no scenario), scenarios/b_huge.yaml (larger than 4 MiB)"
    result.stdout.fnmatch_lines([f"dpsim: left alone: {left}"])
    for number in range(3):
        scenario(f"scenarios/c{number}.yaml", "hosts: all\n")
    result = pytester.runpytest("--collect-only")
    result.stdout.fnmatch_lines([f"dpsim: left alone: {left}, scenarios/c0.yaml (no scenario), and 2 more"])


def test_a_path_that_is_no_file_hangs_no_reader(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("scenarios")
    os.mkfifo(folder / "fifo.yaml")
    (folder / "nowhere.yaml").symlink_to("nothing")
    (folder / "device.yaml").symlink_to("/dev/zero")
    assert why_left_alone(folder / "fifo.yaml") == "no regular file"
    assert why_left_alone(folder / "device.yaml") == "no regular file"
    assert why_left_alone(folder / "nowhere.yaml") == "cannot be read: No such file or directory"
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert pytester.runpytest("scenarios/fifo.yaml").ret != pytest.ExitCode.OK


def test_a_file_that_is_named_gets_the_errors_of_its_reader(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("scenarios/huge.yaml", "")
    os.truncate(pytester.path / "scenarios/huge.yaml", MAX_BYTES + 1)
    result = pytester.runpytest("scenarios/huge.yaml", "-k", "sim")
    result.stdout.fnmatch_lines(["scenarios/huge.yaml: larger than 4 MiB; expected a scenario, *"])


def test_the_plugin_and_the_reader_have_the_same_limit() -> None:
    from dpsim.scenario.yaml import reader

    assert reader.MAX_BYTES == MAX_BYTES


def test_a_misspelt_scenario_is_no_foreign_file(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("scenarios/bad.yaml", "name: bad\nworklod: {requests: [{prompt_tokens: 1, output_tokens: 1}]}\n")
    scenario("scenarios/both.yaml", "name: bad\nworklod: 3\nprotocl: dp_batch\n")
    assert {line.partition("::")[0] for line in ids(pytester)} == {"scenarios/bad.yaml", "scenarios/both.yaml"}


def test_a_load_test_of_another_tool_is_not_collected(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    """Checks a file of another tool that has one key in common with a scenario. The plugin ignores the file and names
    it. If the user names the file on the command line, it is an error.
    """
    scenario("scenarios/load.yaml", "name: load\nworkload: {requests: 100, rps: 3}\ndefault: x\n")
    scenario("scenarios/least.yaml", "name: x\nworkload: {requests: [{prompt_tokens: 1, output_tokens: 1}]}\n")
    assert {line.partition("::")[0] for line in ids(pytester)} == {"scenarios/least.yaml"}
    result = pytester.runpytest("--collect-only")
    result.stdout.fnmatch_lines(["dpsim: left alone: scenarios/load.yaml (no scenario)"])
    assert pytester.runpytest("scenarios/load.yaml", "-k", "sim").ret == pytest.ExitCode.TESTS_FAILED


def test_a_protocol_with_parameters_is_a_scenario(pytester: pytest.Pytester, scenario: Write) -> None:
    """Checks that a file with a protocol and parameters is a scenario. The twin has parameters but no protocol."""
    scenario("scenarios/mine.yaml", "name: mine\nprotocol: {name: t_agrees, params: {ranks: 2}}\n")
    scenario("scenarios/load.yaml", "name: load\nworkload: {rps: 3, params: {ranks: 2}}\n")
    assert {line.partition("::")[0] for line in ids(pytester)} == {"scenarios/mine.yaml"}
    result = pytester.runpytest("--collect-only")
    result.stdout.fnmatch_lines(["dpsim: left alone: scenarios/load.yaml (no scenario)"])


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


def test_scenarios_are_selected_by_name_and_marker(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    scenario("scenarios/three.yaml", healthy)
    assert ids(pytester, "-k", "two and sim") == ["scenarios/two.yaml::sim"]
    assert ids(pytester, "-m", "gpu") == ["scenarios/three.yaml::nccl", "scenarios/two.yaml::nccl"]
    names = {line.partition("::")[2] for line in ids(pytester, "-m", "not gpu")}
    assert names == {"sim", "gloo"}


def test_items_of_a_real_backend_share_one_xdist_group(
    pytester: pytest.Pytester, scenario: Write, healthy: str
) -> None:
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
            "healthy on sim: expected held, got violated",
            "VIOLATED  HANG:COLLECTIVE*",
            "culprit   rank 1, step 2, dp.agree*",
            "*--- replay ---*",
            "dpsim run scenarios/two.yaml --backend sim --module tests.agreeing",
            "*=== scenarios that are not as expected ===*",
            "HANG:COLLECTIVE  rank 1, step 2, dp.agree*  replay: dpsim run scenarios/two.yaml *",
            "FAILED scenarios/two.yaml::sim*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_a_fault_that_is_not_found_fails(pytester: pytest.Pytester, scenario: Write, healthy: str) -> None:
    scenario("scenarios/two.yaml", healthy, "expect: {verdict: violated}\n")
    result = pytester.runpytest("-k", "sim")
    result.stdout.fnmatch_lines(
        [
            "healthy on sim: expected violated, got held",
            "held  replay: dpsim run scenarios/two.yaml --backend sim --module tests.agreeing",
        ]
    )


def test_the_wrong_culprit_fails(pytester: pytest.Pytester, scenario: Write, planted: str) -> None:
    scenario("scenarios/two.yaml", planted.replace("rank: 1, step: 2", "rank: 0"))
    result = pytester.runpytest("-k", "sim")
    result.stdout.fnmatch_lines(["healthy on sim: expected rank 0 *as culprit, got rank 1 in step 2"])


def test_the_replay_line_works_in_the_current_folder(
    pytester: pytest.Pytester, scenario: Write, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario("scenarios/with space.yaml", broken)
    (pytester.path / "tests").mkdir()
    monkeypatch.chdir(pytester.path / "tests")
    result = pytester.runpytest("-k", "sim", "--rootdir", "..", "../scenarios")
    result.stdout.fnmatch_lines(["dpsim run '../scenarios/with space.yaml' --backend sim --module tests.agreeing"])


@pytest.mark.parametrize(
    ("added", "place", "problem"),
    [
        ("expct: {verdict: held}\n", "scenarios/two.yaml:8:1", "unknown key 'expct'*did you mean 'expect'?"),
        ("faults: [1,\n", "scenarios/two.yaml:9:1", "not YAML: *"),
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


def test_an_error_of_dpsim_keeps_its_traceback(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("dpsim.sim.backend.SimBackend.run", run)
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(["*raise ZeroDivisionError*", "ZeroDivisionError  replay: dpsim run *"])


def test_pytest_prints_the_switched_off_findings(
    pytester: pytest.Pytester, scenario: Write, healthy: str, broken: str
) -> None:
    off = 'checks: {switched_off: ["RACE:*", "CRASH:*"]}\n'
    line = "0 findings switched off: 0 by CRASH:[*]; race not run (RACE:[*])"
    scenario("scenarios/broken.yaml", broken, off)
    scenario("scenarios/two.yaml", healthy, off)
    failing = pytester.runpytest("-k", "sim", "scenarios/broken.yaml")
    failing.stdout.fnmatch_lines(["*next      dpsim run scenarios/broken.yaml --backend sim *--full*", line])
    passing = pytester.runpytest("-k", "sim", "scenarios/two.yaml", "-rP")
    passing.stdout.fnmatch_lines(["*Captured checks call*", line])
    scenario("scenarios/two.yaml", healthy)
    pytester.runpytest("-k", "sim", "scenarios/two.yaml", "-rP").stdout.no_fnmatch_line("*switched off*")


def test_scenarios_of_real_backends_are_skipped_without_torch(
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


def test_a_backend_whose_module_is_missing_is_skipped(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> None:
        raise ModuleNotFoundError("No module named 'mpi4py'", name="mpi4py")

    monkeypatch.setattr("dpsim.runner.find_backend", find)
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest("-k", "gloo")
    result.stdout.fnmatch_lines(["SKIPPED*: backend gloo needs mpi4py, which is not installed"])


def test_a_scenario_whose_finding_a_backend_cannot_show_is_skipped(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that pytest skips a scenario whose expected finding the backend cannot show.
    tests/runner/test_not_claimed.py tests the journals of such a backend.
    """
    from dpsim.runner import Result

    scenario("scenarios/reuse.yaml", healthy, "expect: {class: 'RACE:REUSED_IN_FLIGHT'}\n")
    monkeypatch.setattr(Result, "unclaimed", "RACE:REUSED_IN_FLIGHT is not claimed here")
    result = pytester.runpytest("-k", "sim")
    result.assert_outcomes(skipped=1, deselected=2)
    result.stdout.fnmatch_lines(["SKIPPED*: RACE:REUSED_IN_FLIGHT is not claimed here"])


def _uncached(name: str) -> Callable[[], tuple[int, str]]:
    from dpsim import pytest_plugin

    function: Callable[[], tuple[int, str]] = getattr(pytest_plugin, name).__wrapped__
    return function


# ---- all schedules


def test_items_can_explore(pytester: pytest.Pytester, scenario: Write, healthy: str, broken: str) -> None:
    scenario("scenarios/two.yaml", healthy)
    scenario("scenarios/broken.yaml", broken, "expect: {verdict: violated, explored: proven}\n")
    assert not any("explored" in one for one in ids(pytester))
    assert ids(pytester, "--dpsim-explore=7", "-k", "two and explored") == ["scenarios/two.yaml::explored"]
    result = pytester.runpytest("--dpsim-explore=7", "-k", "explored or sim", "-rP")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "healthy, explored: expected proven, got violated",
            "VIOLATED  HANG:COLLECTIVE*",
            "schedule  no special order of events: the default one shows it, failure *, found by dpor in run 1",
            "scenario:",
            "dpsim explore scenarios/broken.yaml --schedules 7 --module tests.agreeing",
            "proven: holds in every schedule of this world; 1 schedule*",
        ]
    )


def test_the_option_overrides_the_ini_setting_of_explored_schedules(
    pytester: pytest.Pytester, scenario: Write, healthy: str
) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\ndpsim_explore = '9'\n")
    scenario("scenarios/two.yaml", healthy)
    assert len(ids(pytester)) == 4
    assert len(ids(pytester, "--dpsim-explore=0")) == 3


@pytest.mark.parametrize("given", ["", "-1", "many", "1.5", "9" * 20])
def test_a_wrong_number_of_schedules_is_refused(
    pytester: pytest.Pytester, scenario: Write, healthy: str, given: str
) -> None:
    scenario("scenarios/two.yaml", healthy)
    result = pytester.runpytest(f"--dpsim-explore={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --dpsim-explore: expected a number of schedules, e.g. 300, got '{given}'"])


def test_the_replay_names_the_module_that_registers(
    pytester: pytest.Pytester, scenario: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that the replay command names the module that registers the protocol. Here it is a conftest, which the
    command line does not import by itself.
    """
    from dpsim.contract import registry

    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    pytester.makeconftest("""
        from pydantic import BaseModel
        from dpsim.contract.registry import Program, register_protocol

        class Sizes(BaseModel):
            ranks: int

        @register_protocol("from-conftest")
        class Mine(Program):
            Params = Sizes

            @staticmethod
            def ranks(params):
                return params.ranks

            async def run(self, rank, args):
                raise ValueError("mine")
    """)
    scenario("scenarios/two.yaml", "name: two\nprotocol: {name: from-conftest, params: {ranks: 2}}\n")
    result = pytester.runpytest("-k", "sim or explored", "--dpsim-explore=5")
    result.stdout.fnmatch_lines(
        [
            "dpsim run scenarios/two.yaml --backend sim --module conftest.py",
            "dpsim explore scenarios/two.yaml --schedules 5 --module conftest.py",
        ]
    )
    done = pytester.run(
        sys.executable, "-m", "dpsim.cli", *["run", "scenarios/two.yaml", "--backend", "sim", "--module", "conftest.py"]
    )
    assert done.ret == 1
    done.stdout.fnmatch_lines(["VIOLATED  CRASH:VALUEERROR*"])


# ---- losses of the machine


@pytest.mark.slow
def test_a_loss_is_no_pass_whatever_is_expected(
    pytester: pytest.Pytester, scenario: Write, healthy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario("scenarios/held.yaml", healthy)
    scenario("scenarios/hangs.yaml", healthy, "expect: {class: 'HANG:*'}\n")
    pytester.makeconftest(LOSES)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = pytester.runpytest_subprocess("-k", "sim")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "LOST  a test took the memory away: no verdict",
            "lost  replay: dpsim run *--backend sim --module tests.agreeing",
        ]
    )


LOSES = """
import tests.agreeing
from dpsim.sim.backend import SimBackend

run_program = SimBackend.run_program

def loses(*args):
    run = run_program(*args)
    run.lost = "a test took the memory away"
    return run

SimBackend.run_program = loses
"""


@pytest.mark.parametrize(("link", "found", "below"), [(".", 2, 2), ("..", 2, 4), ("../elsewhere", 4, 2)])
def test_a_link_in_a_circle_is_not_followed(
    pytester: pytest.Pytester, scenario: Callable[..., None], healthy: str, link: str, found: int, below: int
) -> None:
    """Checks that the plugin does not follow a link that leads into a circle, but follows one to another folder."""
    scenario("scenarios/one.yaml", healthy)
    scenario("elsewhere/two.yaml", healthy)
    (pytester.path / "scenarios" / "link").symlink_to(link)
    for named, count in (("scenarios", found), ("scenarios/link", below)):  # pytest follows a link that the user names
        result = pytester.runpytest(named, "--collect-only", "-q", "-k", "sim or gloo")
        assert len([line for line in result.outlines if line.endswith(("::sim", "::gloo"))]) == count
