"""Tests that no mistake of a user, no full disk and no interrupt ends a command with a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from dpsim import runner
from dpsim.cli import app as cli
from dpsim.cli.app import app
from dpsim.contract.world import BackendUnavailable
from tests.cli.commands import HEALTHY, MODULE, Fake, dpsim_, needs_torch, process, write


def test_the_error_about_a_budget_has_an_example_of_seconds(healthy: Path) -> None:
    answer = dpsim_("explore", healthy, "--budget", "20")
    assert answer.err.startswith("dpsim: --budget: the duration 20 has no unit; add a unit, e.g. 20s (")


def test_errors_of_a_scenario_have_their_places(tmp_path: Path) -> None:
    write(tmp_path / "x.yaml", HEALTHY + "fauls: []\nexpect: {verdict: fine}\n")
    answer = dpsim_("run", "x.yaml")
    assert (answer.code, answer.out) == (2, "")
    lines = answer.err.splitlines()
    assert len(lines) == 2
    assert re.match(r"dpsim: x\.yaml:8:1: unknown key 'fauls'.*did you mean 'faults'", lines[0])
    assert re.match(r"dpsim: x\.yaml:9:\d+: expect\.verdict: .*held", lines[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "quikstart"), "no scenario 'quikstart': .*did you mean 'quickstart'"),
        (("run", "."), "a folder, not a scenario file"),
        (("run", "pipe.yaml"), "'pipe.yaml': not a regular file"),
        (("run", "dangling.yaml"), "a link to nothing.yaml, which cannot be followed .No such file"),
        (("run", "circle.yaml"), "a link to circle.yaml, which cannot be followed .Too many levels"),
        (("run", "unknown.yaml"), "no protocol is registered as 'pads'.*; if a module of yours .*--module"),
        (("replay", ""), "'': no name of a file; expected a trace"),
        (("replay", "."), ".: a folder; expected a trace"),
        (("run", "three.yaml", "--backend", "gloos"), "no backend is installed as 'gloos'; did you mean 'gloo'"),
        (("run", "three.yaml", "--trace", "."), "this is a folder; a file name is needed"),
        (("run", "three.yaml", "--trace", "/dev/null"), "/dev/null: not a regular file"),
    ],
)
@pytest.mark.usefixtures("healthy")
def test_bad_input_ends_with_2_and_one_message(words: tuple[str, ...], said: str) -> None:
    write(Path("unknown.yaml"), HEALTHY.replace("t_agrees", "pads"))
    os.mkfifo("pipe.yaml")
    Path("dangling.yaml").symlink_to("nothing.yaml")
    Path("circle.yaml").symlink_to("circle.yaml")
    answer = dpsim_(*words)
    assert (answer.code, answer.out) == (2, "")
    assert all(line.startswith("dpsim: ") for line in answer.err.splitlines())
    assert re.search(said, answer.err)


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "quickstart", "--requests", "0"),
        ("run", "quickstart", "--requests", "many"),
        ("run", "quickstart", "--bakend", "sim"),
        ("compare", "a"),
        ("walk",),
        (),
    ],
)
def test_a_usage_error_ends_with_2_and_the_usage(words: tuple[str, ...]) -> None:
    answer = dpsim_(*words)
    assert answer.code == 2
    assert "Usage: dpsim" in answer.out + answer.err


def test_a_backend_that_cannot_run_here_gives_exit_code_3(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner._backends, "fake", Fake(BackendUnavailable("it needs 3 abaci, and there are none")))
    answer = dpsim_("run", healthy, "--backend", "fake", "--json")
    assert (answer.code, answer.err) == (3, "dpsim: it needs 3 abaci, and there are none\n")
    assert answer.json == {"error": {"exit_code": 3, "message": "it needs 3 abaci, and there are none"}}


def test_a_backend_that_cannot_be_loaded_gives_exit_code_3(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "find_backend", needs_torch(runner.find_backend))
    answer = dpsim_("run", healthy, "--backend", "torchless")
    assert answer.code == 3
    assert "the backend torchless cannot be loaded: No module named 'torch'" in answer.err


def test_an_interrupt_ends_with_130_and_without_a_result(
    healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(KeyboardInterrupt())
    monkeypatch.setitem(runner._backends, "fake", fake)
    answer = dpsim_("run", healthy, "--backend", "fake", "--trace", "x.jsonl")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err == "dpsim: interrupted, without a result\n"
    assert fake.closed == 1
    assert not (tmp_path / "x.jsonl").exists()


def test_backends_are_closed_at_the_end(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Fake(AssertionError())
    monkeypatch.setitem(runner._backends, "fake", idle)
    assert dpsim_("run", healthy).code == 0
    assert idle.closed == 1


def test_a_bug_is_called_a_bug(
    healthy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(runner._backends, "fake", Fake(ZeroDivisionError("oops")))
    monkeypatch.setattr(sys, "argv", ["dpsim", "run", str(healthy), "--backend", "fake"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in said
    assert "this is a bug" in said.splitlines()[-1]


# ---- commands in another process


def test_a_closed_pipe_is_no_error(healthy: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = process("run", str(healthy), *MODULE, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [("schema",), ("--help",)])
def test_an_output_without_space_gives_exit_code_3(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = process(*words, stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("dpsim: cannot write to standard output: No space left on device")


@pytest.mark.slow
def test_text_does_not_depend_on_the_width_or_on_colours(broken: Path) -> None:
    for words in (("run", str(broken), *MODULE), ("list",)):
        said = []
        for columns in ("60", "80"):
            env = {"COLUMNS": columns, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
            said.append(process(*words, env=env).stdout)
        assert said[0] == said[1] != ""
        assert "\x1b" not in said[0]


def test_a_run_that_holds_fits_sixty_columns(healthy: Path) -> None:
    assert max(len(line) for line in dpsim_("run", healthy, "--trace", "x.jsonl").out.splitlines()) <= 60


def test_help_imports_next_to_nothing() -> None:
    program = """
import sys
sys.argv = ["dpsim", "--help"]
from dpsim.cli.app import main
try:
    main()
finally:
    heavy = {"numpy", "pydantic", "simpy", "hypothesis", "yaml", "torch", "dpsim.contract.ops", "dpsim.runner"}
    assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_dpsim_imports_nothing_else() -> None:
    program = """
import sys, dpsim
assert not [name for name in sys.modules if name.startswith("dpsim.")]
assert dpsim.read_trace is __import__("dpsim.trace").trace.read_trace
for name in dpsim.__all__:
    getattr(dpsim, name)
try:
    dpsim.nonsense
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "module 'dpsim' has no attribute 'nonsense'\n")


@pytest.mark.skipif(find_spec("torch") is None, reason="no torch")
@pytest.mark.slow
def test_gloo_and_the_simulation_write_equal_traces(planted: Path) -> None:
    write(planted, planted.read_text() + "limits: {stall: 1s}\n")
    for backend in ("sim", "gloo"):
        assert dpsim_("run", planted, "--backend", backend, "--trace", f"{backend}.jsonl").code == 0
    answer = dpsim_("compare", "sim.jsonl", "gloo.jsonl")
    assert answer.code == 0, answer.out
    assert answer.out.startswith("equal: ")


def test_the_entry_point_is_a_typer_app() -> None:
    assert isinstance(app, typer.Typer)
    assert callable(cli.main)
