"""Follows a document from top to bottom: writes its files, applies its changes, runs its commands and compares the
output.

A Markdown block of Python or YAML that begins with `# NAME` is a file; other such blocks are ignored. A block of diff
changes a file. Each part of the diff, which begins with `@@`, has to fit in exactly one place. In a block of console,
lines that begin with `$ ` are commands. The other lines are their output, in which `...` stands for any text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT

FAILED = r"\b[1-9]\d* (?:failed|errors?)\b"
"""Matches the count of failures in pytest's last line."""

PROGRESS = r"^dpsim: .* after \d+ s(?:, .*)?\n"
"""Matches a line of progress, which a command prints every ten seconds, so a slow machine has more of them."""


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yields the language and the content of each fenced block."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def files(text: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the content of each block that is a file."""
    for language, block in blocks(text):
        first = block.partition("\n")[0]
        if language in ("python", "yaml") and re.fullmatch(r"# \S+\.\w+", first):
            yield first.removeprefix("# "), block


def changed(text: str, diff: str) -> str:
    """Returns the text with the parts of a diff applied."""
    for part in diff.split("@@\n")[1:]:
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(old) == 1, f"fits in {text.count(old)} places:\n{old}"
        text = text.replace(old, new)
    return text


def commands(console: str) -> Iterator[tuple[str, str]]:
    """Yields each command with its output."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        typed, _, shown = part.partition("\n")
        yield typed, shown


def fits(printed: str, shown: str) -> bool:
    """Returns whether the texts are equal, where `...` stands for any text except a failed test."""
    pattern = ".*?".join(re.escape(part) for part in shown.rstrip().split("..."))
    printed = re.sub(PROGRESS, "", printed, flags=re.MULTILINE)
    hidden = re.findall(FAILED, printed) != re.findall(FAILED, shown)
    return not hidden and re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def typed(command: str, folder: Path, tree: Path, programs: Path | None = None) -> str:
    """Runs the command, and returns its output and errors."""
    ours = ("PYTEST_", "HYPOTHESIS_", "DPSIM_")  # settings of this run, not of the command
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYTHONPATH"] = os.pathsep.join([str(tree), environment.get("PYTHONPATH", "")])
    if programs is not None:
        environment["PATH"] = os.pathsep.join([str(programs), environment["PATH"]])
        del environment["PYTHONPATH"]
    out, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, stdout=out, stderr=both).stdout


def follow(text: str, folder: Path, tree: Path = ROOT, programs: Path | None = None) -> list[str]:
    """Follows a document in a folder, and returns the commands. The commands use the dpsim of `tree`, or the programs
    of an environment that has its own dpsim.
    """
    every = []
    for language, block in blocks(text):
        for name, content in files(f"```{language}\n{block}```\n"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        if language == "diff":
            file = folder / block.partition("\n")[0].removeprefix("--- ")
            file.write_text(changed(file.read_text(), block))
            os.utime(file, (time.time() + 2,) * 2)  # Python compares bytecode by size and second only
        elif language == "console":
            for command, shown in commands(block):
                printed = typed(command, folder, tree, programs)
                every.append(command)
                assert fits(printed, shown), f"$ {command}\n{printed}\n---- the document shows:\n{shown}"
    return every
