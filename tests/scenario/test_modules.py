"""Tests of modules that the user names on the command line, by module name or by the path of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsim.contract import registry
from dpsim.scenario.modules import import_named, names_to_import


def layout(folder: Path, *names: str) -> None:
    """Writes files that each contain their own name."""
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"NAME = {name!r}\n" if not name.endswith("__init__.py") else "")


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Changes into a temporary folder. Afterwards removes the modules that the test imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("word", "module"),
    [
        ("plug_one.py", "plug_one"),
        ("deep/plug_two.py", "plug_two"),
        ("deep/pack/plug_three.py", "pack.plug_three"),
        ("plug_one", "plug_one"),
        ("deep/with-dash.py", "with-dash"),
    ],
)
def test_a_module_by_its_name_or_its_path(imports: Path, word: str, module: str) -> None:
    files = ["plug_one.py", "deep/plug_two.py", "deep/pack/__init__.py", "deep/pack/plug_three.py", "deep/with-dash.py"]
    layout(imports, *files)
    import_named(word)
    assert vars(sys.modules[module])["NAME"] == (word if "." in word else f"{word}.py")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("missing.py", "there is no such file"),
        ("deep", "No module named 'deep'"),
        ("json.py", "there is another module json, .*; rename the file"),
    ],
)
def test_a_module_that_is_not_there(imports: Path, word: str, said: str) -> None:
    layout(imports, "json.py")
    with pytest.raises(ImportError, match=said):
        import_named(word)


def test_a_command_imports_the_module_of_a_protocol_without_an_entry_point(
    imports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.protocols()
    for table in ("_protocols", "_variants"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    assert names_to_import("conformance", None) == []
    text = "from dpsim.contract.registry import *\n@register_protocol('mine')\nclass Mine(Program):\n"
    text += "    async def run(self, rank, prepared): ...\n"
    (imports / "tests").mkdir()
    (imports / "tests" / "plug_mine.py").write_text(text)
    import_named("tests/plug_mine.py")
    assert names_to_import("mine", None) == ["tests/plug_mine.py"]
    monkeypatch.chdir(imports / "tests")
    assert names_to_import("mine", None) == ["plug_mine.py"]
    monkeypatch.chdir("/")
    monkeypatch.setattr(registry, "_found", {"plug_mine"})
    assert names_to_import("mine", None) == [], "an entry point finds it"
