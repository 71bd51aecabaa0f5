"""Without Hypothesis the names of `dpsim.testing` that need it say how to install it, and the others work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT

ABSENT = "import sys; sys.modules['hypothesis'] = sys.modules['pytest'] = None\n"


def said(code: str) -> str:
    """The last line on stderr of a Python in which neither can be imported."""
    ran = subprocess.run([sys.executable, "-c", ABSENT + code], capture_output=True, text=True, check=False, cwd=ROOT)
    return (ran.stderr.strip().splitlines() or [""])[-1]


@pytest.mark.parametrize("name", ["scenarios", "workloads"])
def test_what_needs_hypothesis(name: str) -> None:
    assert said(f"from dpsim.testing import {name}") == (
        "ModuleNotFoundError: dpsim.testing needs hypothesis, which is not installed here; "
        "install it: pip install -e '.[test]' in a clone of dpsim"
    )


def test_what_does_not() -> None:
    held = """
from dpsim.testing import check_backend, holds, same_on
import dpsim.cli.app
"""
    assert said(held) == ""
