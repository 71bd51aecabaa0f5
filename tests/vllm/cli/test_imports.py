"""Tests that each command imports only the protocol that the user named, so that commands start fast."""

import pytest

from tests.cli.test_imports import imported

SEARCHES = ("dpsim.explore", "dpsim.campaign", "hypothesis", "rich")
OTHER_PROTOCOLS = (
    "dpsim.vllm.museum",
    "dpsim.vllm.whole",
    "dpsim.vllm.programs.engine",
    "dpsim.vllm.programs.pp_tokens",
    "dpsim.vllm.programs.startup",
    "dpsim.testing",
)
REAL = ("torch", "real")
UNWANTED = {
    "--help": (*SEARCHES, *OTHER_PROTOCOLS, *REAL, "pydantic", "numpy", "simpy", "yaml", "dpsim.scenario"),
    "schema": (*SEARCHES, *OTHER_PROTOCOLS, *REAL, "numpy", "simpy", "dpsim.sim", "dpsim.vllm.programs"),
    "list": (*SEARCHES, "torch"),
    "run quickstart": (*SEARCHES, *OTHER_PROTOCOLS, *REAL, "dpsim.trace"),
    "explore quickstart": ("hypothesis", "rich", *OTHER_PROTOCOLS, *REAL),
}
"""The modules and packages that each command must not import."""


def found(command: str, modules: set[str]) -> set[str]:
    """Returns the unwanted modules and packages that the command imported."""
    return {one for one in UNWANTED[command] if any(f"{name}.".startswith(f"{one}.") for name in modules)}


@pytest.mark.parametrize("command", UNWANTED)
def test_a_command_imports_only_what_it_needs(command: str) -> None:
    modules = imported(command)
    assert "dpsim.cli.app" in modules
    assert not found(command, modules)


@pytest.mark.slow
def test_all_entry_points_would_be_noticed() -> None:
    modules = imported("schema", "from dpsim.contract import registry\nregistry.load_all()\n")
    assert found("schema", modules) == {*OTHER_PROTOCOLS, "numpy", "dpsim.vllm.programs"}
