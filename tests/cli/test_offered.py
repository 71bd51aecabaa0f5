"""Tests what another package offers by entry points: commands, a broken command, a source of scenarios, and an
option.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

PACKAGE = """
from typing import Annotated
import typer
from dpsim import BadInput, scenario_from

def greet(context: typer.Context, name: str, loud: bool = False) -> None:
    \"""Say hello.\"""
    if not name.isalpha():
        raise BadInput(f"{name}: expected letters")
    context.obj.say(f"HELLO {name}" if loud else f"hello {name}")
    raise typer.Exit(context.obj.NOT_MET if loud else 0)

def from_words(words: list[str]) -> None:
    \"""Turn words into a scenario.\"""
    print("name:", *words)

def run(scenario, longer: Annotated[bool | None, typer.Option("--longer", help="With a deadline of 2 s.")] = None,
        name: Annotated[str | None, typer.Option("--name", help="Of another name.")] = None):
    \"""The same with another deadline or name.\"""
    scenario = scenario_from({**dict(scenario), "name": name}) if name else scenario
    return scenario_from({**dict(scenario), "limits": {"stall": "1s", "deadline": "2s"}}) if longer else scenario

class Bare:
    name = "bare"

class Picky:
    def __init__(self, much):
        pass
"""
POINTS = """
[dpsim.commands]
greet = stranger:greet
compare = stranger:greet
broken = stranger:nothing
gone = no_such_package:command
absent = no_such_package.commands:command [more]
broken-extra = stranger:nothing [more]
needy = stranger_needs:command [more]

[dpsim.scenario_sources]
from-words = stranger:from_words

[dpsim.options]
run = stranger:run
run = stranger:nothing

[dpsim.protocols]
hello = stranger_protocol

[dpsim.backends]
bare = stranger:Bare
picky = stranger:Picky
"""
PROTOCOL = """
from pydantic import BaseModel
from dpsim import Program, register_protocol

class Sizes(BaseModel):
    ranks: int = 2

@register_protocol("hello")
class Hello(Program):
    Params = Sizes

    @staticmethod
    def ranks(params):
        return params.ranks

    async def run(self, rank, args):
        await rank.host("world").barrier(site="meet")
"""
HELLO = """
name: hello
protocol: hello
faults: [{kind: die, rank: 0, at: {site: meet, ordinal: 0}}]
"""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return offered_by(tmp_path_factory.mktemp("site"))


def offered_by(folder: Path) -> Path:
    """Returns a folder that contains the package as if it were installed."""
    (folder / "stranger.py").write_text(PACKAGE)
    (folder / "stranger_protocol.py").write_text(PROTOCOL)
    (folder / "stranger_needs.py").write_text("import no_such_package\n")
    about = folder / "stranger-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (about / "entry_points.txt").write_text(POINTS)
    (folder / "hello.yaml").write_text(HELLO)
    return folder


def dpsim(folder: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dpsim.cli", *words],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), "COLUMNS": "100", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_package_adds_a_command(stranger: Path) -> None:
    code, out, _ = dpsim(stranger, "--help")
    assert code == 0
    assert re.search(r"^  greet +Say hello\.$", out, re.MULTILINE)
    assert "broken" not in out
    assert dpsim(stranger, "explore", "--help")[0] == 0, "an option that cannot be loaded is left out"
    assert dpsim(stranger, "greet", "ann") == (0, "hello ann\n", "")
    assert dpsim(stranger, "greet", "ann", "--loud") == (1, "HELLO ann\n", "")


def test_an_error_of_an_added_command_is_one_line(stranger: Path) -> None:
    assert dpsim(stranger, "greet", "4") == (2, "", "dpsim: 4: expected letters\n")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *(("broken", "AttributeError"), ("gone", "ModuleNotFoundError")),
        *(("broken-extra", "AttributeError"), ("needy", "ModuleNotFoundError")),
    ],
)
def test_an_unloadable_command_reports_its_error_when_called(stranger: Path, name: str, why: str) -> None:
    code, _, err = dpsim(stranger, name)
    assert code == 2
    assert err.startswith(f"dpsim: the command {name} = ")
    assert f" cannot be loaded: {why}: " in err
    assert err.count("\n") == 1


def test_a_command_of_an_extra_that_is_not_installed_names_the_extra(stranger: Path) -> None:
    """The twins are `gone`, which needs no extra, and `needy`, whose module is there but lacks another one."""
    said = "dpsim: the command absent needs the extra stranger[more], which is not installed here\n"
    assert dpsim(stranger, "absent", "--any") == (2, "", said)


def test_an_unloadable_command_reports_its_error_for_any_arguments(stranger: Path) -> None:
    code, _, err = dpsim(stranger, "gone", "with", "--some", "words")
    assert code == 2
    assert err.startswith("dpsim: the command gone = no_such_package:command cannot be loaded: ModuleNotFoundError")


def test_a_command_of_dpsim_stays_its_own(stranger: Path) -> None:
    code, out, _ = dpsim(stranger, "compare", "--help")
    assert code == 0
    assert "Say hello" not in out


@pytest.mark.slow
def test_a_class_that_is_no_backend_is_unavailable_and_hides_no_other(stranger: Path) -> None:
    """A class that is no backend does not affect the other backends."""
    code, out, _ = dpsim(stranger, "list")
    assert code == 0
    assert "  sim    runs here\n" in out
    bare = "the backend bare = stranger:Bare has no run, unavailable, close; expected the methods of"
    assert f"  bare   cannot run here: {bare} dpsim.contract.world.Backend\n" in out
    code, _, err = dpsim(stranger, "run", "hello.yaml", "--backend", "picky")
    assert code == 3
    assert err.startswith("dpsim: the backend picky = stranger:Picky cannot be made: TypeError: ")


def test_a_package_adds_a_source_of_scenarios(stranger: Path) -> None:
    assert dpsim(stranger, "scenario", "from-words", "two", "words") == (0, "name: two words\n", "")


@pytest.mark.slow
def test_a_package_adds_an_option_of_run(stranger: Path) -> None:
    """The option comes before `--trace` in the help, and changes the scenario. The command that repeats the run
    contains it.
    """
    _, out, _ = dpsim(stranger, "run", "--help")
    assert out.index("--longer") < out.index("--trace")
    code, out, _ = dpsim(stranger, "run", "hello.yaml", "--longer", "--name", "other", "--json")
    assert code == 1
    _, out, _ = dpsim(stranger, "run", "hello.yaml", "--longer", "--name", "other")
    assert "dpsim run hello.yaml --longer --name other --full\n" in out, out
