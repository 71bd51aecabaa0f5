"""docs/your-own-protocol.md is run from top to bottom: its files are written, its changes made, its commands typed, and
what they print is compared with what it shows.

A block of Python or YAML that begins with `# NAME` is a file. A block of diff changes one: each of its parts, which
begin with `@@`, has to fit in exactly one place. In a block of console, lines that begin with `$ ` are typed and the
others are what comes out; `...` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsim

ROOT = Path(dpsim.__file__).parents[1]
DOCUMENT = Path(__file__).parents[1] / "docs" / "your-own-protocol.md"


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and content of what is fenced."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def changed(text: str, diff: str) -> str:
    """With the parts of a diff applied."""
    for part in diff.split("@@\n")[1:]:
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(old) == 1, f"fits in {text.count(old)} places:\n{old}"
        text = text.replace(old, new)
    return text


def commands(console: str) -> Iterator[tuple[str, str]]:
    """What is typed, and what comes out."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        typed, _, shown = part.partition("\n")
        yield typed, shown


def fits(printed: str, shown: str) -> bool:
    """Equal, but for what `...` stands for."""
    pattern = ".*?".join(re.escape(part) for part in shown.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def typed(command: str, folder: Path) -> str:
    """What it prints, errors as well."""
    ours = ("PYTEST_", "HYPOTHESIS_", "DPSIM_")  # what they ask of this run is not for that one
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    out, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, stdout=out, stderr=both).stdout


def follow(text: str, folder: Path) -> list[str]:
    """Do as a document says. The commands that were typed."""
    every = []
    for language, block in blocks(text):
        if language in ("python", "yaml"):
            (folder / block.partition("\n")[0].removeprefix("# ")).write_text(block)
        elif language == "diff":
            file = folder / block.partition("\n")[0].removeprefix("--- ")
            file.write_text(changed(file.read_text(), block))
        elif language == "console":
            for command, shown in commands(block):
                printed = typed(command, folder)
                every.append(command)
                assert fits(printed, shown), f"$ {command}\n{printed}\n---- the document shows:\n{shown}"
    return every


def test_the_document_does_what_it_says(tmp_path: Path) -> None:
    every = follow(DOCUMENT.read_text(), tmp_path)
    assert [command.split()[0] for command in every].count("dpsim") == 5
    assert [command.split()[0] for command in every].count("pytest") == 2


def test_a_document_that_lies_is_found(tmp_path: Path) -> None:
    assert follow("```console\n$ echo one; echo two\none\n...\n```\n", tmp_path) == ["echo one; echo two"]
    for lie in ("one\n", "two\n...\n", "one\nthree\n", ""):
        with pytest.raises(AssertionError, match="the document shows"):
            follow(f"```console\n$ echo one; echo two\n{lie}```\n", tmp_path)
    with pytest.raises(AssertionError, match="fits in 0 places"):
        follow("```python\n# a.py\nx = 1\n```\n\n```diff\n--- a.py\n@@\n-x = 2\n+x = 3\n```\n", tmp_path)
