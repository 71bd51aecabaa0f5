"""Tests which entry points the registry imports to find a protocol.

It imports those of the protocol's name first. It imports all others only if these do not register the protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dpsim.contract import registry
from dpsim.scenario import ScenarioError, scenario_from

PROGRAM = """
from pydantic import BaseModel
from dpsim.contract.program import Program
from dpsim.contract.registry import add_form, register_protocol, register_variant

class Nothing(BaseModel):
    pass

class Own(Program):
    Params = Nothing

    @staticmethod
    def ranks(params):
        return 1

    async def run(self, rank, prepared): ...
"""
MODULES = {
    "loading_asked": PROGRAM + "register_protocol('asked')(Own)\n",
    "loading_other": PROGRAM + "register_protocol('hidden')(Own)\nadd_form('asked', 'later', __name__)\n",
    "loading_broken": "raise KeyError('broken')\n",
}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs three entry points. `asked` registers the protocol of its name. `other` registers the protocol `hidden`
    and a form of `asked`. `broken` raises on import.
    """
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(name, f"loading_{name}", registry.ENTRY_POINTS) for name in ("other", "asked", "broken")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    for table in ("_protocols", "_variants", "_more_forms", "_failed"):
        monkeypatch.setattr(registry, table, {})
    monkeypatch.setattr(registry, "_found", set())
    monkeypatch.setattr(registry, "_loaded", False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def loaded() -> set[str]:
    return {name.removeprefix("loading_") for name in MODULES if name in sys.modules}


def test_the_entry_point_of_that_name_is_imported_alone() -> None:
    assert registry.protocol("asked").name == "asked"
    assert loaded() == {"asked"}
    assert registry.modules() == ["loading_asked"]


def test_a_name_that_no_entry_point_has_is_found_in_all() -> None:
    assert registry.protocol("hidden").name == "hidden"
    assert loaded() == {"asked", "other"}
    assert registry.modules() == ["loading_asked", "loading_other"]


def test_the_list_of_protocols_imports_all_entry_points() -> None:
    registry.protocol("asked")
    assert [entry.name for entry in registry.protocols()] == ["asked", "hidden"]


def test_a_form_of_another_entry_point_is_found() -> None:
    """The entry point of the protocol does not know the form. So the scenario is refused at first, and accepted after
    the registry has imported all entry points.
    """
    registry.protocol("asked")
    assert "later" not in registry.protocol("asked").forms
    scenario = scenario_from({"name": "x", "protocol": {"name": "asked", "form": "later"}})
    assert scenario.protocol.resolved_form == "later"
    with pytest.raises(ScenarioError, match="asked has no form 'never'; expected one of default, later"):
        scenario_from({"name": "x", "protocol": {"name": "asked", "form": "never"}})


def test_a_failed_entry_point_is_imported_once() -> None:
    for _ in range(2):
        with pytest.raises(registry.UnknownName, match=r"'broken'.*the entry point broken = loading_broken: KeyError"):
            registry.protocol("broken")
    assert len(registry._failed) == 1


def test_a_module_of_an_entry_point_need_not_be_named() -> None:
    """A user need not name the module of an entry point, even one that the registry has not imported so far."""
    registry.protocol("asked")
    assert registry.known_without_import("loading_other")
    assert not registry.known_without_import("loading_theirs")
