"""Entry points that cannot be imported: what is wrong is said to whoever misses a name, and nobody loses anything. What
is registered by mistake is refused where it is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

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


class Something:
    """No program, and a variant of something."""


def variant(name: Any) -> Callable[[Any], Any]:
    return registry.register_variant(name, protocol="dp_batch", form="source-000", expected="CRASH")


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: registry.register_protocol(Something), "register_protocol needs a name: write `@register_protocol"),  # type: ignore[arg-type]
    (lambda: registry.register_protocol("p", forms="plain"), "protocol p: forms are a tuple .*, not 'plain'"),  # type: ignore[arg-type]
    (lambda: registry.register_protocol("p", forms=()), r"protocol p: forms are a tuple .*, not \(\)"),
    (lambda: registry.register_protocol("p")(Something), "Something is no class derived from Program"),  # type: ignore[type-var]
    (lambda: variant("M-1")(Something()), "variant M-1: a class is registered, not <"),
    (lambda: variant(Something), "register_variant needs a name"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_what_cannot_be_registered(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        wrong()
