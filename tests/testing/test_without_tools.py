"""Tests `dpsim.testing` without Hypothesis. The names that need it raise an error that says how to install it, and the
other names work.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT

ABSENT = "import sys; sys.modules['hypothesis'] = sys.modules['pytest'] = None\n"


def said(code: str) -> str:
    """Returns the last line of stderr of a Python process that can import neither Hypothesis nor pytest."""
    ran = subprocess.run([sys.executable, "-c", ABSENT + code], capture_output=True, text=True, check=False, cwd=ROOT)
    return (ran.stderr.strip().splitlines() or [""])[-1]


@pytest.mark.parametrize("name", ["scenarios", "workloads"])
def test_strategies_without_hypothesis_name_the_missing_package(name: str) -> None:
    assert said(f"from dpsim.testing import {name}") == (
        "ModuleNotFoundError: dpsim.testing needs hypothesis, which is not installed here; "
        "install it: pip install -e '.[test]' in a clone of dpsim"
    )


def test_the_other_names_of_testing_need_no_hypothesis() -> None:
    held = """
from dpsim.testing import check_backend, holds, same_on
import dpsim.cli.app
"""
    assert said(held) == ""
