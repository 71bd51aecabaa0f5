"""Tests `dpsim --version` and `dpsim --help`."""

from __future__ import annotations

import dpsim
from tests.cli.commands import dpsim_


def test_version_and_help() -> None:
    assert dpsim_("--version").out == f"dpsim {dpsim.__version__}\n"
    assert "Exit codes: 0 as expected, 1 not as expected, 2 bad input" in " ".join(dpsim_("--help").out.split())
