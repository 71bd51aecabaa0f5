"""Documented command lines of vLLM, docs/from_vllm/*.sh, and the scenario of each beside it. Written anew by

    python -m tests.vllm.from_vllm.examples

The first line of a command says where it is documented. A line with `--release FORM` says for which release it is.
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
    """Its scenario, made now."""
    release = re.search(r"^# .*--release ([^\s,]+)", command(name), re.MULTILINE)
    return from_vllm(command(name), release[1] if release else None)


def written(name: str) -> Path:
    """The scenario that is checked in."""
    return FOLDER / f"{name}.yaml"


if __name__ == "__main__":
    for each in NAMES:
        written(each).write_text(translated(each).text())
