"""Entry points that cannot be imported: what is wrong is said to whoever misses a name, and nobody loses anything."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import pytest

from dpsim import registry


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's entry point names a module that is not there; it comes before those of dpsim."""
    found = entry_points(group=registry.ENTRY_POINTS)
    theirs = EntryPoint("theirs", "no_such_module", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [theirs, *found])
    monkeypatch.setattr(registry, "_loaded", False)
    monkeypatch.setattr(registry, "_failed", [])


@pytest.mark.usefixtures("broken")
def test_the_others_are_there() -> None:
    assert registry.protocol("dp_batch").name == "dp_batch"


@pytest.mark.usefixtures("broken")
def test_who_misses_a_name_is_told() -> None:
    said = r"'mine'.*could not be loaded: the entry point theirs = no_such_module: ModuleNot"
    with pytest.raises(registry.UnknownName, match=said):
        registry.protocol("mine")


def test_without_an_installation_that_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", True)
    monkeypatch.setattr(registry, "_protocols", {})
    with pytest.raises(registry.UnknownName, match="is dpsim installed"):
        registry.protocol("dp_batch")
