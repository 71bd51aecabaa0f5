"""Runs commands for the tests, with the scenarios that they use, and a backend that fails as a test requests."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer.main
import typer.testing
from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.contract.world import BackendUnavailable, Progress, Run, World
from tests import ROOT
from tests.agreeing import EXPECTED, HEALTHY, SKIP

__all__ = ["EXPECTED", "HEALTHY", "SKIP"]

MODULE = ("--module", "tests.agreeing")
"""The option by which a command in another process finds the protocol."""

typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]
"""Builds the commands once, instead of for each call of a test, which took 20 ms."""

OTHER_CULPRIT = "expect: {culprit: {rank: 0}}\n"


class Answer:
    """The exit code and the output of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """Returns the object on stdout, without its `schema_version` (which `test_json` checks)."""
        found = json.loads(self.out)
        found.pop("schema_version", None)
        return found


def dpsim_(*words: str | Path, columns: int = 80) -> Answer:
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(word) for word in words], prog_name="dpsim")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def process(*words: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command in another process, which finds the modules of the tests. `env` adds variables."""
    options.setdefault("stdout", subprocess.PIPE)
    options["env"] = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    command = [sys.executable, "-m", "dpsim.cli", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class Fake:
    """A backend that raises an error after some steps."""

    name = "fake"

    def __init__(self, error: BaseException, steps: int = 0) -> None:
        self.error = error
        self.steps = steps
        self.closed = 0

    def unavailable(self, size: int) -> str | None:
        return str(self.error) if isinstance(self.error, BackendUnavailable) else None

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        assert progress is not None
        for step in range(self.steps):
            progress(step)
        raise self.error

    def close(self) -> None:
        self.closed += 1


def needs_torch(find: Any) -> Any:
    def find_backend(name: str) -> Any:
        if name == "torchless":
            raise ModuleNotFoundError("No module named 'torch'")
        return find(name)

    return find_backend
