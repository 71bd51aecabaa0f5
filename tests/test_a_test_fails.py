"""Runs docs/a-test-fails.md from top to bottom, in an environment with dpsim's wheel and its dependencies, without
torch.

Building this environment takes long, so the test belongs to the slow suite. `tests/plugin/test_replay.py` does the same
in this process, with a world that needs no drawing. The quick tests here check the document's files and its change.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.documents import blocks, changed, follow

DOCUMENT = ROOT / "docs" / "a-test-fails.md"
LEFT_OUT = ("torch", "functorch", "nvidia", "triton", "dpsim")


def test_the_files_of_the_page_are_python_and_its_change_fits() -> None:
    parts = list(blocks(DOCUMENT.read_text()))
    [source] = [block for language, block in parts if language == "python"]
    [diff] = [block for language, block in parts if language == "diff"]
    ast.parse(changed(source, diff))
    [line] = [line for line in source.splitlines() if line.strip() == "holds(scenario)"]
    at = source.splitlines().index(line) + 1
    assert f"tests/test_agreement.py:{at}: holds(scenario)" in DOCUMENT.read_text()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Returns the folder of programs of a new environment. It has the packages of this one, except torch, and dpsim as
    a wheel.
    """
    pytest.importorskip("hatchling")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    [packages] = (tmp_path / "env" / "lib").glob("python*/site-packages")
    for folder in [Path(one) for one in sys.path if one.endswith("site-packages")]:
        for entry in folder.iterdir():
            if not (entry.name.startswith(LEFT_OUT) or entry.suffix == ".pth" or (packages / entry.name).exists()):
                (packages / entry.name).symlink_to(entry)
    options = ["install", "--no-deps", "--no-index", "--no-compile", "--target", str(packages), str(wheel)]
    subprocess.run([*pip, *options], check=True, cwd=tmp_path)
    for name, module in ("pytest", "pytest"), ("dpsim", "dpsim.cli"):
        script = python.parent / name
        script.write_text(f'#!/bin/sh\nexec {python} -m {module} "$@"\n')
        script.chmod(0o755)
    return python.parent


@pytest.mark.slow
def test_the_document_does_what_it_says(programs: Path, tmp_path: Path) -> None:
    code = "import dpsim, importlib.util; print(dpsim.__file__, importlib.util.find_spec('torch'))"
    done = subprocess.run([programs / "python", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(str(programs.parent)), "the wheel, not the clone"
    assert done.stdout.endswith(" None\n")
    folder = tmp_path / "project"
    folder.mkdir()
    every = follow(DOCUMENT.read_text(), folder, programs=programs)
    assert len(every) == 7
    assert len((folder / "ci.log").read_text().splitlines()) <= 46
