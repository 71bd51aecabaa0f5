"""Tests which modules each command imports: only those that it needs. Imports take most of the start-up time of a
command.
"""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import atexit, sys
from dpsim.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""

PROGRAM = """
from pydantic import BaseModel
from dpsim import Program, register_protocol

class Sizes(BaseModel):
    ranks: int = 2

@register_protocol("mine")
class Mine(Program):
    Params = Sizes

    @staticmethod
    def ranks(params):
        return params.ranks

    async def run(self, rank, args):
        await rank.host("world").barrier(site="meet")
"""

SEARCHES = ("dpsim.explore", "dpsim.campaign", "hypothesis", "rich")
REAL = ("torch", "real")
UNWANTED = {
    "--help": (*SEARCHES, *REAL, "dpsim.testing", "pydantic", "numpy", "simpy", "yaml", "dpsim.scenario"),
    "schema": (*SEARCHES, *REAL, "dpsim.testing", "numpy", "simpy", "dpsim.sim"),
    "list": (*SEARCHES, "torch"),
    "run mine.yaml --module mine": (*SEARCHES, *REAL, "dpsim.testing", "dpsim.trace", "dpsim.vllm.programs"),
    "explore mine.yaml --module mine": ("hypothesis", "rich", *REAL, "dpsim.testing", "dpsim.vllm.programs"),
}
"""For each command, modules and packages that it must not import. tests/vllm/cli tests those of the engine."""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path) -> None:
    """Writes a protocol and its scenario into the working folder."""
    (tmp_path / "mine.py").write_text(PROGRAM)
    (tmp_path / "mine.yaml").write_text("name: mine\nprotocol: mine\n")


def imported(command: str, before: str = "") -> set[str]:
    """Returns the modules that a command imported in a new process. The process runs the code `before` first."""
    words = [sys.executable, "-c", before + CODE, *command.split()]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(ended.stderr.splitlines()[-1].split())


def found(command: str, modules: set[str]) -> set[str]:
    """Returns the imported modules that the command must not import."""
    return {one for one in UNWANTED[command] if any(f"{name}.".startswith(f"{one}.") for name in modules)}


@pytest.mark.parametrize("command", UNWANTED)
def test_a_command_imports_only_what_it_needs(command: str) -> None:
    modules = imported(command)
    assert "dpsim.cli.app" in modules
    assert not found(command, modules)


def test_a_module_too_many_would_be_noticed() -> None:
    modules = imported("schema", "import dpsim.testing, numpy\n")
    assert {"dpsim.testing", "numpy"} <= found("schema", modules)
