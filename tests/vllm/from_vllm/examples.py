"""Documented command lines of vLLM, in docs/from_vllm/*.sh, and the scenario that dpsim makes of each, beside it.

    python -m tests.vllm.from_vllm.examples        # rewrites the scenarios

The first line of each command file states where the command is documented. A comment with `--release FORM` states the
release that the command is for.
"""

from __future__ import annotations

import re
from pathlib import Path

from dpsim.vllm.from_vllm.translate import Translated, from_vllm
from tests import ROOT

FOLDER = ROOT / "docs" / "from_vllm"
NAMES = sorted(file.stem for file in FOLDER.glob("*.sh"))


def command(name: str) -> str:
    return (FOLDER / f"{name}.sh").read_text()


def translated(name: str) -> Translated:
    """Translates the command into a scenario."""
    release = re.search(r"^# .*--release ([^\s,]+)", command(name), re.MULTILINE)
    return from_vllm(command(name), release[1] if release else None)


def written(name: str) -> Path:
    """Returns the scenario file in the repository."""
    return FOLDER / f"{name}.yaml"


if __name__ == "__main__":
    for each in NAMES:
        written(each).write_text(translated(each).text())
