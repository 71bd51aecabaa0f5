"""Tests of the values that the shell offers for arguments and options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer._completion_classes import BashComplete  # click's own class is abstract in releases that bundle click
from typer.main import get_command

from dpsim.checks.classes import CLASSES
from dpsim.cli import app as cli_app
from dpsim.cli import completers
from dpsim.cli.list_text import KINDS
from dpsim.contract import registry
from dpsim.explore import STRATEGIES
from dpsim.scenario.locate import bundled_scenarios

PREFIX = "museum/"  # begins no other name
MEANT = [one for one in bundled_scenarios() if one.startswith(PREFIX)]


def offered(*words: str) -> list[str]:
    """Returns what the shell offers for the last word."""
    command = get_command(cli_app.app)
    shell = BashComplete(command, {}, "dpsim", "_DPSIM_COMPLETE")
    return [one.value for one in shell.get_completions([*words[:-1]], words[-1])]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("run", PREFIX), MEANT),
        (("explore", "x.yaml", PREFIX), MEANT),
        (("run", "--backend", ""), ["gloo", "nccl", "sim"]),
        (("run", "--backend", "g"), ["gloo"]),
        (("replay", "x.jsonl", "--backend", "n"), ["nccl"]),
        (("explore", "--strategy", "p"), [one for one in STRATEGIES if one.startswith("p")]),
        (("list", ""), list(KINDS)),
        (("list", "mu"), ["museum"]),
        (("campaign", "nightly", PREFIX), MEANT),
        (("show", PREFIX), MEANT),
        (("show", "glo"), ["gloo"]),
        (("show", "conformance_t"), ["conformance_threads"]),
        (("show", "HANG:MAILBOX:"), [one for one in CLASSES if one.startswith("HANG:MAILBOX:")]),
        (("show", "no such name"), []),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_the_shell_offers_values(words: tuple[str, ...], values: list[str]) -> None:
    assert offered(*words) == values


@pytest.mark.parametrize("words", [("museum",), ("museum", "--only"), ("show",)], ids=" ".join)
def test_the_shell_offers_each_variant_under_its_own_name(words: tuple[str, ...]) -> None:
    for prefix in {one.name[:2] for one in registry.variants()}:
        assert {one.name for one in registry.variants() if one.name.startswith(prefix)} <= {*offered(*words, prefix)}


def test_the_shell_offers_files_of_the_typed_folder_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    for name in ("own.yaml", "own.txt", "mine/a.yml", "mine/deep/b.yaml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert offered("run", "ow") == ["own.yaml"]
    assert offered("run", "mine/") == ["mine/a.yml"]
    assert offered("run", f"{tmp_path}/mine/") == [f"{tmp_path}/mine/a.yml"]
    assert offered("run", "nowhere/") == []
    assert {*MEANT, "own.yaml"} <= {*offered("run", "")}


def test_an_error_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("a package that cannot be imported")

    assert completers.variants("")
    monkeypatch.setattr(registry, "variants", broken)
    assert completers.variants("") == []


def test_no_completer_imports_torch() -> None:
    code = (
        "import sys; from dpsim.cli import completers as c\n"
        "for one in (c.scenarios, c.variants, c.backends, c.strategies, c.kinds, c.names): assert one('')\n"
        "print('torch' in sys.modules, 'real' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"
